from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from support.folders import TASK_YAML, TERMINAL_BENCH_1, terminal_bench_1, write_folder
from termarena.core.errors import TaskFormatError
from termarena.tasks import load_task, needs_of
from termarena.tasks.model import Keystrokes

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.tasks import Task


def test_a_template_task_needs_no_compose(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "one"))
    assert (task.id, task.provenance.format) == ("one", "terminal-bench-1")
    assert task.instruction == "Write 1 to /app/one.txt."
    assert (task.agent.timeout_s, task.grading.timeout_s) == (120.0, 30.0)
    assert (task.environment.compose, task.environment.env) == (None, {"TEST_DIR": "/tests"})
    assert [file.path for file in task.environment.context] == ["Dockerfile", "data.txt"]
    assert task.tests is not None
    assert [file.path for file in task.tests.files] == ["run-tests.sh", "test_outputs.py"]
    assert (task.tests.entry, task.tests.verdict) == ("run-tests.sh", "pytest")
    assert task.solution is not None
    assert task.solution.entry == "solve.sh"
    assert (task.metadata.category, task.metadata.difficulty, task.metadata.tags) == ("scripting", "easy", ("files",))
    assert task.findings == ()


def test_defaults_are_terminal_benchs(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", task_yaml="instruction: Do it.\ndifficulty: unknown\n"))
    assert (task.agent.timeout_s, task.grading.timeout_s) == (360.0, 60.0)
    assert task.metadata.category == "software_engineering"
    assert task.tests is not None
    assert task.tests.verdict == "pytest"


def test_keystrokes_are_a_solution_when_there_is_no_script(tmp_path: Path) -> None:
    files = {name: text for name, text in TERMINAL_BENCH_1.items() if name != "solution.sh"}
    typed = "- command: vim x\n  append_enter: true\n- command: ':q'\n  max_timeout_sec: 5\n  block: true\n"
    task = load_task(write_folder(tmp_path / "t", {**files, "solution.yaml": typed}))
    assert task.solution is not None
    assert task.solution.keystrokes == (
        Keystrokes(command="vim x"),
        Keystrokes(command=":q", max_timeout_sec=5.0, block=True),
    )
    assert "keystroke-solution" in {need.capability for need in needs_of(task)}


def test_a_script_wins_over_keystrokes(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", solution_yaml="- command: x\n"))
    assert task.solution is not None
    assert (task.solution.entry, task.solution.keystrokes) == ("solve.sh", ())


SEVERAL = """\
services:
  client:
    build: {context: client}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    command: tail -f /dev/null
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - data:/data
  db:
    image: ${T_BENCH_TASK_DOCKER_NAME_PREFIX}__db
    depends_on: [client]
volumes:
  data: {}
"""


def _composition(task: Task) -> dict[str, dict[str, dict[str, object]]]:
    file = task.environment.context.get("docker-compose.yaml")
    assert file is not None
    composed: dict[str, dict[str, dict[str, object]]] = yaml.safe_load(file.read())
    return composed


def test_several_services_become_a_canonical_compose_file(tmp_path: Path) -> None:
    files = {**TERMINAL_BENCH_1, "docker-compose.yaml": SEVERAL, "client/Dockerfile": "FROM x\n"}
    task = load_task(write_folder(tmp_path / "t", files))
    composed = _composition(task)
    assert composed["services"]["main"] == {
        "build": {"context": "client"},
        "environment": ["TEST_DIR=/tests"],
        "volumes": ["data:/data"],
        "networks": {"default": {"aliases": ["client"]}},
    }
    assert composed["services"]["db"] == {"image": "task__db", "depends_on": ["main"]}
    assert composed["volumes"] == {"data": {}}
    assert "compose" in {need.capability for need in needs_of(task)}


def test_a_mounted_host_folder_is_noticed(tmp_path: Path) -> None:
    compose = "services:\n  agent:\n    build: .\n    volumes: ['.:/app']\n    command: tail -f /dev/null\n"
    task = load_task(write_folder(tmp_path / "t", {**TERMINAL_BENCH_1, "docker-compose.yaml": compose}))
    assert [finding.rule for finding in task.findings] == ["no-client-container", "host-mount"]


def test_tests_and_solution_stay_out_of_the_build_context(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", Dockerfile="FROM x\nCOPY . /app\n"))
    assert [file.path for file in task.environment.context] == ["Dockerfile", "data.txt"]


def test_tests_that_the_dockerfile_copies_by_name_stay_visible_to_lint(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", Dockerfile="FROM x\nCOPY ./tests /app/tests\n"))
    assert [file.path for file in task.environment.context] == ["Dockerfile", "data.txt", "tests/test_outputs.py"]


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        ("services: []\n", "services: found"),
        ("services: {}\n", "services: found"),
        ("{}\n", "services: found nothing"),
        ("services:\n  a: {image: x}\n  b: {image: y}\n", "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME"),
        ("services:\n  - a\n", "services: found"),
    ],
)
def test_a_compose_file_without_a_machine_for_the_agent_is_refused(tmp_path: Path, compose: str, message: str) -> None:
    with pytest.raises(TaskFormatError) as caught:
        load_task(write_folder(tmp_path / "t", {**TERMINAL_BENCH_1, "docker-compose.yaml": compose}))
    assert message in str(caught.value)
    assert caught.value.file.endswith("docker-compose.yaml")


def test_without_a_compose_file_the_dockerfile_is_enough(tmp_path: Path) -> None:
    files = {name: text for name, text in TERMINAL_BENCH_1.items() if name != "docker-compose.yaml"}
    task = load_task(write_folder(tmp_path / "t", files))
    assert [finding.rule for finding in task.findings] == ["missing-compose"]


def test_the_oldest_spelling_of_the_instruction_loads(tmp_path: Path) -> None:
    document = "descriptions:\n  - key: base\n    description: Old words.\ndifficulty: hard\n"
    assert load_task(terminal_bench_1(tmp_path / "t", task_yaml=document)).instruction == "Old words."


def test_tests_typed_into_the_agents_shell_are_a_need(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", task_yaml=TASK_YAML + "run_tests_in_same_shell: true\n"))
    assert task.tests is not None
    assert task.tests.same_shell
    assert "same-shell-tests" in {need.capability for need in needs_of(task)}
