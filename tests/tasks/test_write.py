"""Any loaded task, written as a Harbor folder, loads again as the same task."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.folders import HARBOR, SIMPLE, TASK_YAML, TERMINAL_BENCH_1, simple, write_folder
from tasks.test_harbor import EVERYTHING
from tasks.test_terminal_bench_1 import SEVERAL
from termarena.core.errors import UsageError
from termarena.tasks import load_task, scored_view, write_harbor
from termarena.tasks.model import Step, Task
from termarena.tasks.write import lost_in_writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STEPS = """\
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 100.0
[[steps]]
name = "one"
min_reward = 0.5
[[steps]]
name = "two"
[steps.agent]
timeout_sec = 7.0
network_mode = "no-network"
[steps.verifier]
timeout_sec = 5.0
env = { B = "2" }
"""
WITHOUT_SCRIPT = {name: text for name, text in TERMINAL_BENCH_1.items() if name != "solution.sh"}
FOLDERS: dict[str, Mapping[str, str | bytes]] = {
    "harbor": HARBOR,
    "harbor-everything": {**HARBOR, "task.toml": EVERYTHING, "tests/Dockerfile": "FROM grader\n"},
    "harbor-bundled-grader": {
        **HARBOR,
        "task.toml": '[verifier]\nenvironment_mode = "separate"\n',
        "tests/Dockerfile": "FROM grader\n",
    },
    "harbor-steps": {
        **HARBOR,
        "task.toml": STEPS,
        "steps/one/instruction.md": "One.\n",
        "steps/one/workdir/setup.sh": "true\n",
        "steps/two/instruction.md": "Two.\n",
        "steps/two/tests/test.sh": "true\n",
        "steps/two/solution/solve.sh": "true\n",
        "steps/two/trajectory.json": "{}",
    },
    "harbor-unknown-fields": {
        **HARBOR,
        "task.toml": 'artifacts = [{ source = "/a", Odd = 1 }]\n[agent]\ntimeout_seconds = 3\n[Extra]\nx = 1\n'
        '[environment]\nCpus = 2\n"dotted.name" = 3\n',
    },
    "harbor-strays": {
        **HARBOR,
        "task.toml": '[solution.env]\nA = "1"\n[[steps]]\nname = "one"\n',
        "tests/helper.py": "x = 1\n",
        "steps/one/instruction.md": "One.\n",
        "steps/one/tests/test.sh": "true\n",
        "steps/one/notes.md": "kept\n",
        "steps/README": "kept\n",
        "steps/three/left.txt": "kept\n",
    },
    "harbor-step-with-own-grader": {
        **HARBOR,
        "task.toml": STEPS + '[steps.verifier.environment]\ndocker_image = "grader:1"\ngpus = 1\n',
        "steps/one/instruction.md": "One.\n",
        "steps/two/instruction.md": "Two.\n",
        "steps/two/tests/data.txt": "beside the image\n",
    },
    "harbor-odd-files": {
        **HARBOR,
        "environment/data/no newline": b"x",
        "environment/data/-dash": b"",
        "environment/data/\udcff": b"\xff\x00",
    },
    "terminalworld": {**HARBOR, "source/info.json": "{}", "source/recording.txt": "$ ls\n", "status.json": "{}"},
    "terminal-bench-1": TERMINAL_BENCH_1,
    "terminal-bench-1-services": {
        **TERMINAL_BENCH_1,
        "docker-compose.yaml": SEVERAL,
        "client/Dockerfile": "FROM x\n",
        "tests/test.sh": "the suite's own file of that name\n",
        "task.yaml": TASK_YAML + "run_tests_in_same_shell: true\nauthor_name: Ada\nexpert_time_estimate_min: 3\n",
    },
    "terminal-bench-1-keystrokes": {**WITHOUT_SCRIPT, "solution.yaml": "- command: ls\n"},
    "simple": {**SIMPLE, "teardown.sh": "true\n", "notes.txt": "kept\n"},
    "simple-beside-canonical-names": {
        **SIMPLE,
        "tests/a.txt": "a\n",
        "instruction.md": "no\n",
        "trajectory.json": "{}",
    },
    "simple-long-id": {**SIMPLE, "metadata.json": '{"task_id": "' + "x" * 400 + '", "required_tools": []}'},
    "simple-files": {
        **SIMPLE,
        "metadata.json": '{"initial_state": {"./a": "1", "b//c": "2"}, "metadata": {"termarena": {"x": 1}, "n": 1}}',
    },
    "simple-odd-id": {**SIMPLE, "metadata.json": '{"task_id": "Täsk / with spaces", "required_tools": []}'},
}


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_folder(tmp_path / "in" / request.param, FOLDERS[request.param])


def test_a_written_task_loads_as_the_same_task(folder: Path, tmp_path: Path) -> None:
    task = load_task(folder)
    again = load_task(write_harbor(task, tmp_path / "out"))
    assert scored_view(again) == scored_view(task)
    assert again.digest == task.digest
    assert (again.id, again.metadata, again.unknown) == (task.id, task.metadata, task.unknown)
    assert again.provenance.format == task.provenance.format
    assert again.extras.digests() == task.extras.digests()
    assert (again.solution and again.solution.keystrokes) == (task.solution and task.solution.keystrokes)


def test_every_file_of_the_folder_is_somewhere_in_the_task(folder: Path) -> None:
    task = load_task(folder)
    trees = [task.environment.context, task.extras, task.trajectory]
    parts: tuple[Task | Step, ...] = (task, *task.steps)
    for one in parts:
        trees += [one.tests.files] if one.tests else []
        trees += [one.solution.files] if one.solution else []
        trees += [one.grading.environment.context] if one.grading.environment else []
        trees += [one.trajectory, *([one.workdir] if isinstance(one, Step) else [])]
    held = {file.source for tree in trees for file in tree} | {""}
    texts = {"task.toml", "task.yaml", "metadata.json", "instruction.md", "docker-compose.yaml"}
    if task.provenance.format == "simple":
        texts |= {"instruction.txt", "test.sh", "setup.sh", "solution.sh", "teardown.sh"}
    lost = [
        str(path) for path in folder.rglob("*") if path.is_file() and str(path) not in held and path.name not in texts
    ]
    assert lost == []


def test_writing_twice_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    once = write_harbor(load_task(folder), tmp_path / "once")
    twice = write_harbor(load_task(once), tmp_path / "twice")
    assert (once / "task.toml").read_text() == (twice / "task.toml").read_text()


def test_a_folder_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    task = load_task(write_folder(tmp_path / "t", HARBOR))
    place = write_harbor(task, tmp_path / "out")
    (place / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        write_harbor(task, tmp_path / "out")
    assert (place / "mine.txt").read_text() == "precious"
    assert not (write_harbor(task, tmp_path / "out", overwrite=True) / "mine.txt").exists()
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == [place.name]


PYTEST_OUTPUT = "=== short test summary info ===\n{}\n"
GRADES = [
    ("pytest", PYTEST_OUTPUT.format("PASSED a\nSKIPPED b\nXFAIL c"), 0, "1"),
    ("pytest", PYTEST_OUTPUT.format("PASSED a\nFAILED b"), 1, "0"),
    ("pytest", PYTEST_OUTPUT.format("PASSED a\nERROR b"), 0, "0"),
    ("pytest", PYTEST_OUTPUT.format(""), 0, "0"),
    ("pytest", "no summary at all", 0, None),
    ("swebench", "SWEBench results starts here\nPASSED\nSWEBench results ends here", 0, "1"),
    ("swebench", "SWEBench results starts here\nFAILED\nSWEBench results ends here", 0, "0"),
    ("swebench", "PASSED", 0, None),
    ("sweperf", "SWE-Perf results starts here\nPASSED\nSWE-Perf results ends here", 0, "1"),
    ("mlebench", "MLEBench results starts here\nALL TESTS PASSED\nMLEBench results ends here", 0, "1"),
    ("swelancer", "... SWE Lancer Success ...", 0, "1"),
    ("swelancer", "SWE Lancer failure", 0, "0"),
]


@pytest.mark.parametrize(("parser", "output", "status", "reward"), GRADES)
def test_the_adapter_grades_for_harbor_as_the_parser_would(
    tmp_path: Path, parser: str, output: str, status: int, reward: str | None
) -> None:
    runner = f"cat <<'END'\n{output}\nEND\nexit {status}\n"
    task_yaml = TASK_YAML.replace("pytest", parser)
    files = {**TERMINAL_BENCH_1, "task.yaml": task_yaml, "run-tests.sh": runner}
    place = write_harbor(load_task(write_folder(tmp_path / "t", files)), tmp_path / "out")
    assert _run_adapter(place, tmp_path) == reward


@pytest.mark.parametrize(("status", "reward"), [(0, "1"), (3, "0")])
def test_the_adapter_turns_an_exit_status_into_a_reward(tmp_path: Path, status: int, reward: str) -> None:
    files = {**SIMPLE, "test.sh": f"#!/bin/sh\nexit {status}\n"}
    place = write_harbor(load_task(write_folder(tmp_path / "t", files)), tmp_path / "out")
    assert _run_adapter(place, tmp_path) == reward


def _run_adapter(place: Path, tmp_path: Path) -> str | None:
    """Run the written test.sh with /tests and /logs moved below tmp_path; the reward it wrote, if any."""
    logs = tmp_path / "logs"
    for script in place.glob("tests/**/*.sh"):
        text = script.read_text().replace("/tests", f"{place}/tests").replace("/logs", str(logs))
        script.write_text(text)
    subprocess.run(["sh", place / "tests" / "test.sh"], check=False, capture_output=True, timeout=120)  # noqa: S603, S607
    reward = logs / "verifier" / "reward.txt"
    return reward.read_text().strip() if reward.exists() else None


def test_a_null_in_free_form_metadata_is_told_as_lost(tmp_path: Path) -> None:
    folder = simple(tmp_path / "t")
    table = json.loads((folder / "metadata.json").read_text())
    table |= {"metadata": {"owner": None, "seen": [1, None, {"by": None}], "kept": 1}, "odd": None}
    (folder / "metadata.json").write_text(json.dumps(table))
    task = load_task(folder)
    assert [(one.rule, one.field) for one in lost_in_writing(task)] == [
        ("lost-null", "metadata.owner"),
        ("lost-null", "metadata.seen.1"),
        ("lost-null", "metadata.seen.2.by"),
        ("lost-null", "odd"),
    ]
    assert ("unknown-field", "odd") in [(one.rule, one.field) for one in task.findings]
    again = load_task(write_harbor(task, tmp_path / "out"))
    assert (again.digest, again.metadata.extra["kept"], lost_in_writing(again)) == (task.digest, 1, ())
