from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.folders import SIMPLE, simple, write_folder
from termarena.core.errors import TaskFormatError
from termarena.tasks import load_dataset, load_task, needs_of
from termarena.tasks.model import BareRecipe

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.tasks import FileTree


def _text(tree: FileTree, path: str) -> str:
    file = tree.get(path)
    assert file is not None
    return file.read().decode()


def test_a_folder_loads(tmp_path: Path) -> None:
    task = load_task(simple(tmp_path / "folder"))
    assert (task.id, task.provenance.format) == ("write-one", "simple")
    assert task.instruction == "Write 1 to /workspace/one.txt.\n"
    assert (task.agent.timeout_s, task.grading.timeout_s) == (90.0, 90.0)
    assert (task.metadata.category, task.metadata.difficulty) == ("file_operations", "easy")
    assert (task.environment.workdir, task.environment.network.mode) == ("/workspace", "none")
    assert task.environment.bare == BareRecipe(requires=("bash",), setup="setup.sh")
    assert _text(task.environment.context, "Dockerfile").startswith(
        "FROM python:3.11-slim\nWORKDIR /workspace\nCOPY . "
    )
    assert "setup_script.sh" in _text(task.environment.context, "setup.sh")
    assert task.tests is not None
    assert (task.tests.entry, task.tests.verdict) == ("check.sh", "exit_status")


def test_files_of_the_start_state_are_laid_down(tmp_path: Path) -> None:
    table = {"instruction": "Do.", "test_script": "true", "initial_state": {"src/a.txt": "a", "/workspace/b.txt": "b"}}
    task = load_task(write_folder(tmp_path / "t", {"metadata.json": json.dumps(table)}))
    assert [file.path for file in task.environment.context] == [
        "Dockerfile",
        "files/b.txt",
        "files/src/a.txt",
        "setup.sh",
    ]
    assert task.id == "t"
    assert task.environment.bare is None
    assert [need.capability for need in needs_of(task)] == ["image", "network-none"]


def test_a_start_state_cannot_climb_out(tmp_path: Path) -> None:
    table = {"instruction": "Do.", "test_script": "true", "initial_state": {"../etc/passwd": "x"}}
    with pytest.raises(TaskFormatError, match="below /workspace"):
        load_task(write_folder(tmp_path / "t", {"metadata.json": json.dumps(table)}))


def test_commands_of_the_start_state_run_after_the_set_up_script(tmp_path: Path) -> None:
    table = {"instruction": "Do.", "test_script": "true", "setup_script": "one", "initial_state": "two"}
    task = load_task(write_folder(tmp_path / "t", {"metadata.json": json.dumps(table)}))
    steps = _text(task.environment.context, "setup.sh")
    assert steps.index("setup_script.sh") < steps.index("initial_state.sh")
    assert _text(task.environment.context, "initial_state.sh") == "#!/bin/bash\ntwo"


def test_a_teardown_script_is_kept_as_a_need(tmp_path: Path) -> None:
    task = load_task(write_folder(tmp_path / "t", {**SIMPLE, "teardown.sh": "true\n"}))
    assert task.extras.get("teardown.sh") is not None
    assert "teardown" in {need.capability for need in needs_of(task)}


def test_an_unknown_category_is_noticed_with_the_nearest(tmp_path: Path) -> None:
    table = {"instruction": "Do.", "test_script": "true", "category": "databases"}
    task = load_task(write_folder(tmp_path / "t", {"metadata.json": json.dumps(table)}))
    assert [finding.message for finding in task.findings] == [
        "category 'databases' is not one of the format's; did you mean database?"
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_one_file_may_hold_many_tasks(tmp_path: Path, wrapped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    entries = [
        {"task_id": "b", "instruction": "B.", "test_script": "true", "reference_solution": "true", "extra": None},
        {"id": "a", "instruction": "A.", "test_script": "true"},
    ]
    write_folder(tmp_path / "set", {"tasks.json": json.dumps({"tasks": entries} if wrapped else entries)})
    for source in (tmp_path / "set", tmp_path / "set" / "tasks.json"):
        dataset = load_dataset(source)
        assert [task.id for task in dataset] == ["a", "b"]
        assert dataset.broken == ()


def test_one_bad_entry_does_not_hide_the_others(tmp_path: Path) -> None:
    entries = [{"task_id": "good", "instruction": "A.", "test_script": "true"}, {"task_id": "bad"}, 7]
    write_folder(tmp_path, {"tasks.json": json.dumps(entries)})
    dataset = load_dataset(tmp_path)
    assert [task.id for task in dataset] == ["good"]
    assert [str(broken.error) for broken in dataset.broken] == [
        f"{tmp_path}/tasks.json[1]: instruction: found nothing; expected text, here or in instruction.txt",
        f"{tmp_path}/tasks.json[2]: found 7; expected a JSON object",
    ]
