from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from support.folders import TASK_YAML, TERMINAL_BENCH_1, terminal_bench_1, write_folder
from termarena.core.errors import TaskFormatError
from termarena.tasks import load_task, needs_of
from termarena.tasks.model import Keystrokes
from termarena.tasks.write import write_harbor

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


CLIENT = "container_name: '${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}'"


def _with_compose(folder: Path, compose: str, **files: str) -> Path:
    named = {name.replace("__", "/"): text for name, text in files.items()}
    return write_folder(folder, {**TERMINAL_BENCH_1, "docker-compose.yaml": compose, **named})


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


def test_a_service_called_main_beside_the_agents_is_refused(tmp_path: Path) -> None:
    compose = f"services:\n  client: {{build: ., {CLIENT}}}\n  main: {{image: 'postgres:15'}}\n"
    with pytest.raises(TaskFormatError) as caught:
        load_task(_with_compose(tmp_path / "t", compose))
    assert caught.value.field == "services.main"


def test_a_service_that_answers_to_main_is_refused(tmp_path: Path) -> None:
    compose = f"services:\n  client: {{build: ., {CLIENT}}}\n  db: {{image: x, networks: {{n: {{aliases: [main]}}}}}}\n"
    with pytest.raises(TaskFormatError) as caught:
        load_task(_with_compose(tmp_path / "t", compose))
    assert caught.value.field == "services.db"


REFERENCES = f"""\
services:
  client:
    build: .
    {CLIENT}
  side:
    build:
      context: .
      additional_contexts: {{base: "service:client", other: "service:side"}}
    network_mode: service:client
    ipc: service:client
    pid: service:client
    volumes_from: [client, "client:ro", side, "container:client"]
    links: [client, "client:box", "side:client"]
    depends_on:
      client: {{condition: service_started}}
  third:
    build: {{additional_contexts: ["base=service:client"]}}
    network_mode: service:side
    extends: {{service: client, file: common.yaml}}
"""


def test_every_reference_to_the_agents_service_follows_its_new_name(tmp_path: Path) -> None:
    services = _composition(load_task(_with_compose(tmp_path / "t", REFERENCES)))["services"]
    assert services["side"] == {
        "build": {"context": ".", "additional_contexts": {"base": "service:main", "other": "service:side"}},
        "network_mode": "service:main",
        "ipc": "service:main",
        "pid": "service:main",
        "volumes_from": ["main", "main:ro", "side", "container:client"],
        "links": ["main:client", "main:box", "side:client"],
        "depends_on": {"main": {"condition": "service_started"}},
    }
    assert services["third"] == {
        "build": {"additional_contexts": ["base=service:main"]},
        "network_mode": "service:side",
        "extends": {"service": "client", "file": "common.yaml"},
    }


@pytest.mark.parametrize("extends", ["client", "{service: client}", "{service: client, file: ./docker-compose.yaml}"])
def test_an_extension_of_the_agents_service_is_refused(tmp_path: Path, extends: str) -> None:
    compose = f"services:\n  client: {{build: ., {CLIENT}}}\n  side: {{extends: {extends}}}\n"
    with pytest.raises(TaskFormatError) as caught:
        load_task(_with_compose(tmp_path / "t", compose))
    assert caught.value.field == "services.side.extends"


def test_variables_are_resolved_in_the_whole_document(tmp_path: Path) -> None:
    compose = (
        f"services:\n  client: {{build: ., {CLIENT}, volumes: ['data:${{T_BENCH_TEST_DIR:?unset}}']}}\n"
        "volumes:\n  data: {name: '${T_BENCH_TASK_DOCKER_NAME_PREFIX}_x', labels: ['$${T_BENCH_TEST_DIR}']}\n"
        "networks:\n  n: {name: '$T_BENCH_TASK_DOCKER_NAME_PREFIX', external: '${T_BENCH_TEST_DIR:+yes}'}\n"
    )
    composed = _composition(load_task(_with_compose(tmp_path / "t", compose)))
    assert composed["services"]["main"]["volumes"] == ["data:/tests"]
    assert composed["volumes"] == {"data": {"name": "task_x", "labels": ["$${T_BENCH_TEST_DIR}"]}}
    assert composed["networks"] == {"n": {"name": "task", "external": "yes"}}


def test_another_service_may_run_the_agents_image(tmp_path: Path) -> None:
    compose = (
        f"services:\n  client: {{build: ., {CLIENT}}}\n  worker:\n"
        "    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}\n"
        "    volumes: ['${T_BENCH_TASK_LOGS_PATH}:/logs', 'data:/data']\n"
    )
    services = _composition(load_task(_with_compose(tmp_path / "t", compose)))["services"]
    assert services["worker"] == {"build": ".", "volumes": ["data:/data"]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("working_dir", "5"),
        ("working_dir", "[a]"),
        ("networks", "[[a]]"),
        ("networks", "{a: 5}"),
        ("networks", "{a: {aliases: x}}"),
        ("build", "{context: [1]}"),
        ("build", "{additional_contexts: [1]}"),
        ("environment", "{A: [1, 2]}"),
        ("environment", "[[a], 5]"),
        ("depends_on", "[[db]]"),
        ("volumes", "a:/b"),
        ("volumes", "[5]"),
        ("links", "[1]"),
        ("volumes_from", "{a: b}"),
        ("network_mode", "[host]"),
        ("extends", "5"),
        ("command", "{a: b}"),
        ("image", "5"),
    ],
)
def test_a_compose_field_of_another_type_is_refused_by_name(tmp_path: Path, field: str, value: str) -> None:
    client = {"build": ".", "ports": "[80]", "container_name": "x", field: value}
    lines = "".join(f"    {name}: {text}\n" for name, text in client.items())
    with pytest.raises(TaskFormatError) as caught:
        load_task(_with_compose(tmp_path / "t", f"services:\n  client:\n{lines}"))
    assert caught.value.field == f"services.client.{field}"
    assert caught.value.file.endswith("docker-compose.yaml")


@pytest.mark.parametrize(
    ("extra", "more"),
    [
        ("", "networks: {default: {internal: true}}\n"),
        ("", "include: [other.yaml]\n"),
        ("    environment: {A: $$HOME}\n", ""),
        ("    environment: {A: $HOME}\n", ""),
        ("    working_dir: ${HOME}\n", ""),
        ("    command: /start.sh\n", ""),
        ("    command: [sh, -c, ./start.sh]\n", ""),
        ("    entrypoint: []\n", ""),
    ],
)
def test_what_a_dockerfile_cannot_say_stays_a_compose_file(tmp_path: Path, extra: str, more: str) -> None:
    task = load_task(_with_compose(tmp_path / "t", f"services:\n  client:\n    build: .\n    {CLIENT}\n{extra}{more}"))
    assert task.environment.compose == "docker-compose.yaml"


@pytest.mark.parametrize(
    ("extra", "more"),
    [
        ("    environment: {A: '${HOME}', B: '${X:-y}', C: true}\n", "volumes: {unused: {}}\n"),
        ("    command: bash\n", "x-notes: 1\n"),
        ("    command: bash -c 'sleep infinity'\n", "name: x\n"),
        ("    command: [/bin/sh, -c, tail -f /dev/null]\n", "networks: {unused: {}}\n"),
    ],
)
def test_what_a_dockerfile_can_say_needs_no_compose_file(tmp_path: Path, extra: str, more: str) -> None:
    task = load_task(_with_compose(tmp_path / "t", f"services:\n  client:\n    build: .\n    {CLIENT}\n{extra}{more}"))
    assert task.environment.compose is None


@pytest.mark.parametrize(
    ("recipe", "kept"),
    [
        ('COPY ["tests", "/tests"]', "tests/test_outputs.py"),
        ("COPY data.txt \\\n  # why\n  tests /x/", "tests/test_outputs.py"),
        ("copy --chmod=755 ./x/../run-tests.sh /x", "run-tests.sh"),
        ("ARG WHAT=solution\nCOPY $WHAT.sh /x", "solution.sh"),
        ("COPY /tests/test_outputs.py /x", "tests/test_outputs.py"),
        ("COPY solution.* /x", "solution.sh"),
        ("COPY --from=other tests /x", None),
        ("COPY *.t* * /x/", None),
        ("RUN true # COPY tests /x", None),
    ],
)
def test_what_a_dockerfile_copies_by_name_stays_in_the_context(tmp_path: Path, recipe: str, kept: str | None) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", Dockerfile=f"FROM x\n{recipe}\n"))
    expected = ["Dockerfile", "data.txt", *([kept] if kept else [])]
    assert [file.path for file in task.environment.context] == sorted(expected)


@pytest.mark.parametrize(
    ("build", "kept"),
    [
        ("{context: ., dockerfile: client/Dockerfile}", ["tests/test_outputs.py"]),
        ("{dockerfile_inline: 'FROM x\n\n  COPY tests /tests'}", ["tests/test_outputs.py"]),
        ("./client", []),
    ],
)
def test_the_dockerfile_that_is_built_says_what_is_copied(tmp_path: Path, build: str, kept: list[str]) -> None:
    compose = f"services:\n  client:\n    {CLIENT}\n    build: {build}\n"
    folder = _with_compose(tmp_path / "t", compose, client__Dockerfile="FROM x\nCOPY tests /tests\n")
    names = [file.path for file in load_task(folder).environment.context]
    assert [name for name in names if name.startswith("tests/")] == kept


def test_a_compose_file_that_the_image_holds_is_not_lost_when_converted(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", Dockerfile="FROM x\nCOPY docker-compose.yaml /x\n"))
    assert load_task(write_harbor(task, tmp_path / "out")).digest == task.digest


def test_links_between_parts_become_the_files_they_point_to(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "t", {**TERMINAL_BENCH_1, "scripts/run.sh": "pytest\n"})
    (folder / "tests" / "data.txt").symlink_to("../data.txt")
    (folder / "expected.py").symlink_to("tests/test_outputs.py")
    (folder / "run-tests.sh").unlink()
    (folder / "run-tests.sh").symlink_to("scripts/run.sh")
    task = load_task(folder)
    assert task.tests is not None
    found = {file.path: (file.kind, file.read()) for file in task.tests.files}
    assert found["data.txt"] == ("file", b"data\n")
    assert found["run-tests.sh"] == ("file", b"pytest\n")
    expected = task.environment.context.get("expected.py")
    assert expected is not None
    assert expected.kind == "file"


def test_a_tests_folder_behind_a_link_is_refused(tmp_path: Path) -> None:
    folder = terminal_bench_1(tmp_path / "t")
    (folder / "tests").rename(folder / "elsewhere")
    (folder / "tests").symlink_to("elsewhere")
    with pytest.raises(TaskFormatError) as caught:
        load_task(folder)
    assert caught.value.file == f"{folder}/tests"


def test_the_other_descriptions_are_kept(tmp_path: Path) -> None:
    descriptions = "descriptions:\n  - {key: base, description: Old words.}\n  - {key: hard, description: Few words.}\n"
    task = load_task(terminal_bench_1(tmp_path / "t", task_yaml=f"{descriptions}difficulty: hard\n"))
    assert task.instruction == "Old words."
    assert list(task.metadata.extra["descriptions"]) == [{"key": "hard", "description": "Few words."}]
    both = load_task(terminal_bench_1(tmp_path / "u", task_yaml=f"instruction: New.\n{descriptions}difficulty: hard\n"))
    assert both.instruction == "New."
    assert [one["key"] for one in both.metadata.extra["descriptions"]] == ["base", "hard"]


def test_keystrokes_beside_a_script_are_kept(tmp_path: Path) -> None:
    task = load_task(terminal_bench_1(tmp_path / "t", solution_yaml="- command: x\n"))
    assert [file.path for file in task.extras] == ["solution.yaml"]
    again = load_task(write_harbor(task, tmp_path / "out"))
    assert [(file.path, file.read()) for file in again.extras] == [("solution.yaml", b"- command: x\n")]


def test_unknown_fields_of_keystrokes_are_told(tmp_path: Path) -> None:
    files = {name: text for name, text in TERMINAL_BENCH_1.items() if name != "solution.sh"}
    folder = write_folder(tmp_path / "t", {**files, "solution.yaml": "- command: a\n- {command: b, blocks: true}\n"})
    assert [(one.rule, one.file) for one in load_task(folder).findings] == [("unknown-field", "solution.yaml")]
    with pytest.raises(TaskFormatError, match=r"solution\.yaml"):
        load_task(folder, strict=True)
