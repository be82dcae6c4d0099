from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from support.folders import harbor, simple, terminal_bench_1
from termarena.core.errors import DigestMismatch, NotFound, TaskFormatError, UsageError
from termarena.tasks import Dataset, Selection, load_dataset, load_task, lock_of, read_lock, verify_lock, write_lock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    harbor(
        tmp_path / "set" / "alpha", task_toml='[metadata]\ncategory = "git"\ntags = ["x", "y"]\ndifficulty = "hard"\n'
    )
    terminal_bench_1(tmp_path / "set" / "beta")
    simple(tmp_path / "set" / "gamma")
    (tmp_path / "set" / "docs").mkdir()
    return tmp_path / "set"


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return load_dataset(folder)


def test_a_folder_of_tasks_of_several_formats(dataset: Dataset, folder: Path) -> None:
    assert [task.id for task in dataset] == ["alpha", "beta", "write-one"]
    assert (dataset.name, dataset.broken, dataset.others) == ("set", (), (f"{folder}/docs",))


def test_a_single_task_is_a_dataset_of_one(folder: Path) -> None:
    assert [task.id for task in load_dataset(folder / "alpha")] == ["alpha"]


def test_progress_is_told(folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    load_dataset(folder, seen=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_a_broken_task_is_listed_and_stops_only_itself(folder: Path) -> None:
    harbor(folder / "broken", task_toml="[agent\n")
    dataset = load_dataset(folder)
    assert [task.id for task in dataset] == ["alpha", "beta", "write-one"]
    assert [broken.path for broken in dataset.broken] == [f"{folder}/broken"]
    with pytest.raises(TaskFormatError, match="TOML") as caught:
        dataset.whole()
    assert caught.value.hint == f"see all 1 with: termarena tasks validate {folder}"


def test_an_id_that_stands_twice_is_an_error_that_names_both(folder: Path) -> None:
    simple(folder / "delta")
    with pytest.raises(TaskFormatError) as caught:
        load_dataset(folder)
    assert f"{folder}/delta" in str(caught.value)
    assert f"{folder}/gamma" in str(caught.value)


def test_nothing_to_load_is_an_error_that_says_where_tasks_are(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        load_dataset(tmp_path)
    assert caught.value.hint == f"there are 3 in {folder}"
    with pytest.raises(NotFound, match="no dataset at"):
        load_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(), ["alpha", "beta", "write-one"]),
        (Selection(ids=("beta",)), ["beta"]),
        (Selection(ids=("*a",)), ["alpha", "beta"]),
        (Selection(ids=("write-one", "alpha")), ["alpha", "write-one"]),
        (Selection(exclude=("*a",)), ["write-one"]),
        (Selection(categories=("git", "scripting")), ["alpha", "beta"]),
        (Selection(difficulties=("easy",)), ["beta", "write-one"]),
        (Selection(tags=("y", "files")), ["alpha", "beta"]),
        (Selection(difficulties=("easy",), first=1), ["beta"]),
    ],
)
def test_selection(dataset: Dataset, selection: Selection, ids: list[str]) -> None:
    assert [task.id for task in selection.choose(dataset)] == ids


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(ids=("alpa",)), "no task is called alpa; there is: alpha, beta, write-one"),
        (Selection(ids=("z*",)), "no task is called z*"),
        (Selection(categories=("gti",)), "no task has the category gti; there is: file_operations, git, scripting"),
        (Selection(languages=("c",)), "no task has the language c"),
        (Selection(categories=("git",), difficulties=("easy",)), "no task meets all of these conditions"),
        (Selection(exclude=("*",)), "no task meets all of these conditions"),
    ],
)
def test_a_selection_of_nothing_is_an_error(dataset: Dataset, selection: Selection, message: str) -> None:
    with pytest.raises(NotFound) as caught:
        selection.choose(dataset)
    assert message in str(caught.value)


def test_a_sample_is_the_same_everywhere_and_grows_by_adding(dataset: Dataset) -> None:
    one = {task.id for task in Selection(sample=1, seed=7).choose(dataset)}
    two = {task.id for task in Selection(sample=2, seed=7).choose(dataset)}
    assert one < two
    assert len(two) == 2
    assert {tuple(t.id for t in Selection(sample=1, seed=s).choose(dataset)) for s in range(20)} == {
        ("alpha",),
        ("beta",),
        ("write-one",),
    }


def test_a_lock_holds_until_a_file_changes(dataset: Dataset, folder: Path) -> None:
    write_lock(lock_of(dataset, version="1.0"), folder)
    lock = read_lock(folder)
    assert (lock.name, lock.version, sorted(lock.tasks)) == ("set", "1.0", ["alpha", "beta", "write-one"])
    verify_lock(load_dataset(folder), lock)

    (folder / "alpha" / "tests" / "test.sh").write_text("exit 0\n")
    (folder / "beta" / "tests" / "new.py").write_text("")
    (folder / "beta" / "data.txt").unlink()
    with pytest.raises(DigestMismatch) as caught:
        verify_lock(load_dataset(folder), lock)
    assert caught.value.files == (
        "alpha/tests/test.sh changed",
        "beta/data.txt is missing",
        "beta/tests/new.py is new",
    )


def test_a_lock_sees_changed_limits_and_other_tasks(dataset: Dataset, folder: Path) -> None:
    lock = lock_of(dataset, version="1.0", name="mine")
    harbor(folder / "alpha", task_toml="[agent]\ntimeout_sec = 1.0\n")
    harbor(folder / "omega")
    (folder / "gamma").rename(folder.parent / "gone")
    with pytest.raises(DigestMismatch, match=r"dataset mine 1\.0 does not match its lock") as caught:
        verify_lock(load_dataset(folder), lock)
    assert caught.value.files == (
        "task write-one is missing",
        "task omega is not in the lock",
        "alpha/task.toml changed",
    )


def test_a_solution_may_be_mended_under_a_lock(dataset: Dataset, folder: Path) -> None:
    lock = lock_of(dataset, version="1.0")
    (folder / "alpha" / "solution" / "solve.sh").write_text("#!/bin/sh\ntrue\n")
    assert verify_lock(load_dataset(folder), lock) == ("alpha/solution/solve.sh changed",)


def test_a_lock_that_is_not_one_is_refused(dataset: Dataset, folder: Path) -> None:
    with pytest.raises(NotFound, match=r"has no dataset\.lock\.json"):
        read_lock(folder)
    path = write_lock(lock_of(dataset, version="1.0"), folder)
    record = json.loads(path.read_text())
    assert (record["schema_version"], record["kind"]) == (1, "dataset-lock")
    path.write_text(json.dumps({**record, "tasks": 3}))
    with pytest.raises(TaskFormatError, match="tasks: found 3"):
        read_lock(folder)
    path.write_text(json.dumps({**record, "schema_version": 99}))
    with pytest.raises(TaskFormatError, match="schema_version"):
        read_lock(folder)


def test_the_samples_cannot_be_locked() -> None:
    with pytest.raises(UsageError, match="not yours to lock"):
        lock_of(load_dataset("samples"), version="1.0")


def test_a_lock_stands_beside_a_collection_and_holds_odd_names(tmp_path: Path) -> None:
    entries = [{"task_id": "a", "instruction": "A.", "test_script": "true"}]
    (tmp_path / "tasks.json").write_text(json.dumps(entries))
    assert write_lock(lock_of(load_dataset(tmp_path), version="1"), tmp_path / "tasks.json").parent == tmp_path
    verify_lock(load_dataset(tmp_path), read_lock(tmp_path / "tasks.json"))
    folder = harbor(tmp_path / "set" / "odd")
    (folder / "tests" / "\udcff").write_text("not UTF-8")
    dataset = load_dataset(folder.parent)
    write_lock(lock_of(dataset, version="1"), folder.parent)
    verify_lock(load_dataset(folder.parent), read_lock(folder.parent))


def test_a_link_in_a_circle_hides_no_task(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    dataset = load_dataset(folder)
    assert len(dataset) == 3
    assert f"{folder}/loop" in dataset.others


def test_a_collection_beside_task_folders_is_an_error(folder: Path) -> None:
    (folder / "tasks.json").write_text("[]")
    with pytest.raises(TaskFormatError, match="3 task folders beside it"):
        load_dataset(folder)


def test_tasks_that_share_a_document_share_nothing_that_can_be_changed(tmp_path: Path) -> None:
    document = '[environment]\nenv = { A = "1" }\n[metadata]\nfree = { list = [1] }\n'
    one, two = (harbor(tmp_path / name, task_toml=document) for name in ("one", "two"))
    first = load_task(one)
    with pytest.raises(TypeError, match="immutable"):
        first.environment.env["X"] = "1"  # type: ignore[index]  # that is the point
    with pytest.raises(TypeError, match="immutable"):
        first.metadata.extra["free"].update(x=1)
    assert load_task(two).environment.env == {"A": "1"}
    assert pickle.loads(pickle.dumps(first)) == first  # noqa: S301 - our own
