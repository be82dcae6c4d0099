"""What a command's options come to: a run's own, and which tasks, also when some of the folders do not load."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

import pytest

from support.folders import harbor
from termarena.cli.main import main
from termarena.cli.meaning import meant_by
from termarena.cli.run import run
from termarena.cli.tasks import list_tasks
from termarena.core.errors import NotFound, TaskError
from termarena.runs.plan import RunOptions
from termarena.tasks import Selection, load_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.tasks import Dataset

LEFT_TO_THE_LIBRARY = {"cpus", "memory_mb", "default_timeout_s", "retry_wait_s", "keep_state", "state_limit_bytes"}


def test_every_option_is_one_of_the_run_one_of_the_selection_or_the_commands_own() -> None:
    of_runs, of_selections = RunOptions.model_fields.keys() - LEFT_TO_THE_LIBRARY, Selection.model_fields.keys()
    own = {"dataset", "path", "out", "arena", "dry_run", "strict", "json"}
    assert signature(run).parameters.keys() == of_runs | of_selections | own
    assert signature(list_tasks).parameters.keys() == of_selections | {"source", "strict", "json"}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    for name in ("good-a", "good-b"):
        harbor(tmp_path / name)
    for name in ("bad-a", "bad-b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.toml").write_text("[[")
    return load_dataset(tmp_path)


def _names(dataset: Dataset, **selection: object) -> tuple[list[str], list[str], int]:
    meant = meant_by(Selection.model_validate(selection), dataset)
    return [task.id for task in meant.tasks], [*meant.broken], len(meant.unjudged)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, (["good-a", "good-b"], ["bad-a", "bad-b"], 0)),
        ({"ids": ("good-a",)}, (["good-a"], [], 0)),
        ({"ids": ("good-a", "bad-a")}, (["good-a"], ["bad-a"], 0)),
        ({"ids": ("*-a",)}, (["good-a"], ["bad-a"], 0)),
        ({"exclude": ("bad-*",)}, (["good-a", "good-b"], [], 0)),
        ({"exclude": ("bad-a", "good-b")}, (["good-a"], ["bad-b"], 0)),
        ({"sample": 1, "seed": 3}, (["good-b"], [], 2)),
        ({"first": 1}, (["good-a"], [], 2)),
        ({"seed": 3}, (["good-a", "good-b"], ["bad-a", "bad-b"], 0)),
    ],
)
def test_broken_folders_neither_stop_the_good_ones_nor_vanish(
    dataset: Dataset, selection: dict[str, object], expected: tuple[list[str], list[str], int]
) -> None:
    assert _names(dataset, **selection) == expected


def test_a_broken_task_alone_is_its_own_error(dataset: Dataset) -> None:
    with pytest.raises(TaskError, match=r"bad-a/task\.toml"):
        _names(dataset, ids=("bad-a",))


@pytest.mark.parametrize("selection", [{"ids": ("none",)}, {"ids": ("bad-a",), "exclude": ("bad-a",)}])
def test_what_names_nothing_is_not_found(dataset: Dataset, selection: dict[str, object]) -> None:
    with pytest.raises(NotFound):
        _names(dataset, **selection)


def test_a_folder_whose_name_a_task_has_is_told_apart_by_its_path(tmp_path: Path) -> None:
    harbor(tmp_path / "a", task_toml='schema_version = "1.4"\n[task]\nname = "org/b"\n')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "task.toml").write_text("[[")
    tasks, broken, _ = _names(load_dataset(tmp_path))
    assert (tasks, broken) == (["org/b"], ["b"])


def test_a_task_without_its_option_is_told_which_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "hello-world", "--agent", "nop"]) == 2
    assert "did you mean --task hello-world?" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    assert main(["run", "--agent", "nop", "mine"]) == 2
    assert "did you mean --path mine?" in capsys.readouterr().err
    assert main(["run", "x" * 300]) == 2
    assert "did you mean --task xxx" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
