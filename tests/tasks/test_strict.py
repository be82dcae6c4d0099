from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.folders import TASK_YAML, TERMINAL_BENCH_1, harbor, write_folder
from termarena.core.errors import LooseTask
from termarena.tasks import load_dataset, load_task

if TYPE_CHECKING:
    from pathlib import Path


def test_strict_tells_every_warning_not_only_the_first(tmp_path: Path) -> None:
    folder = harbor(
        tmp_path / "t", task_toml='schema_version = "9"\n[agent]\ntimout_sec = 5.0\n[environment]\ncpus = "2"\n'
    )
    with pytest.raises(LooseTask) as caught:
        load_task(folder, strict=True)
    error = caught.value
    file = f"{folder}/task.toml"
    assert [(one["rule"], one["file"], one["field"]) for one in error.warnings] == [
        ("unknown-field", file, "agent.timout_sec"),
        ("loose-type", file, "environment.cpus"),
        ("schema-version", file, "schema_version"),
    ]
    assert (error.file, error.field) == (file, "agent.timout_sec")
    assert all(name in error.message for name in ("timout_sec", "environment.cpus", "schema_version '9'"))
    assert error.as_dict()["warnings"] == error.warnings


def test_strict_tells_warnings_of_every_file(tmp_path: Path) -> None:
    """A keystroke list has a document of its own."""
    files = {
        **TERMINAL_BENCH_1,
        "solution.yaml": "- {command: b, blocks: true}\n",
        "task.yaml": f"{TASK_YAML}odd: 1\n",
    }
    folder = write_folder(tmp_path / "t", {name: text for name, text in files.items() if name != "solution.sh"})
    with pytest.raises(LooseTask) as caught:
        load_task(folder, strict=True)
    assert [(one["file"], one["field"]) for one in caught.value.warnings] == [
        (f"{folder}/task.yaml", "odd"),
        (f"{folder}/solution.yaml", "0.blocks"),
    ]


def test_strict_names_the_entry_of_a_collection(tmp_path: Path) -> None:
    good = {"task_id": "a", "instruction": "do", "test_script": "true"}
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([good, {**good, "task_id": "b", "categorie": "database", "category": "cooking"}]))
    dataset = load_dataset(file, strict=True)
    assert [task.id for task in dataset] == ["a"]
    (broken,) = dataset.broken
    assert isinstance(broken.error, LooseTask)
    assert [(one["file"], one["field"]) for one in broken.error.warnings] == [
        (f"{file}[1]", "categorie"),
        (f"{file}[1]", "category"),
    ]
