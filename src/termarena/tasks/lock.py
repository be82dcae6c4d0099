"""Locks: a dataset's name, version and the digest of every task, so that two people can know they ran the same
thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from termarena.core.errors import DigestMismatch, NotFound, UsageError
from termarena.core.records import read_record_as, write_record
from termarena.tasks.dataset import is_bundled
from termarena.tasks.digest import LOCK_NAME, file_digests
from termarena.tasks.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.tasks.dataset import Dataset
    from termarena.tasks.model import Task

__all__ = ["LOCK_NAME", "DatasetLock", "LockedTask", "lock_of", "lock_path", "read_lock", "verify_lock", "write_lock"]

_KIND = "dataset-lock"


class LockedTask(Frozen):
    """One task as it was when locked."""

    digest: str
    """What can move a score."""
    files: Mapping[str, str]
    """Every file, to name the one that changed."""


class DatasetLock(Frozen):
    """The manifest of a dataset."""

    name: str
    version: str
    tasks: Mapping[str, LockedTask]


def lock_of(dataset: Dataset, *, version: str, name: str | None = None) -> DatasetLock:
    """The lock of a dataset as it stands. Raises the error of a task that does not load, UsageError for the samples."""
    if is_bundled(dataset):
        raise UsageError(
            "the bundled samples are not yours to lock", hint="convert them into a folder of your own first"
        )
    tasks = {task.id: LockedTask(digest=task.digest, files=file_digests(task)) for task in dataset.whole()}
    return DatasetLock(name=name or dataset.name, version=version, tasks=tasks)


def lock_path(place: Path) -> Path:
    """Where the lock of a dataset stands: in its folder, or beside its `tasks.json`."""
    return (place.parent if place.is_file() else place) / LOCK_NAME


def write_lock(lock: DatasetLock, place: Path) -> Path:
    """Write the lock of the dataset at `place`."""
    path = lock_path(place)
    write_record(path, _KIND, lock.model_dump())
    return path


def read_lock(place: Path) -> DatasetLock:
    """The lock of the dataset at `place`. Raises NotFound if there is none, TaskFormatError if it does not hold one."""
    path = lock_path(place)
    if not path.exists():
        raise NotFound(
            f"{place} has no {LOCK_NAME}", hint=f"make one with: termarena datasets lock {place} --version 1.0"
        )
    return read_record_as(DatasetLock, path, _KIND)


def verify_lock(dataset: Dataset, lock: DatasetLock) -> tuple[str, ...]:
    """Check every task against the lock; gives the files that changed and cannot move a score (a solution, a readme).

    Raises DigestMismatch naming each task and file that changed, is missing or is new, if any of them can.
    """
    present = {task.id: task for task in dataset.whole()}
    differences = [f"task {name} is missing" for name in lock.tasks if name not in present]
    differences += [f"task {name} is not in the lock" for name in present if name not in lock.tasks]
    harmless: list[str] = []
    for name, locked in lock.tasks.items():
        if name in present:
            is_same = present[name].digest == locked.digest
            (harmless if is_same else differences).extend(_differences(present[name], locked))
    if differences:
        hint = "restore the files, or lock again as a new version: scores of the two are not comparable"
        raise DigestMismatch(f"dataset {lock.name} {lock.version}", files=tuple(differences), hint=hint)
    return tuple(harmless)


def _differences(task: Task, locked: LockedTask) -> Iterator[str]:
    now = file_digests(task)
    changed = [f"{task.id}/{path} changed" for path, held in locked.files.items() if path in now and now[path] != held]
    changed += [f"{task.id}/{path} is missing" for path in locked.files if path not in now]
    changed += [f"{task.id}/{path} is new" for path in now if path not in locked.files]
    if not changed and task.digest != locked.digest:
        changed = [f"{task.id} is loaded in another way than when it was locked (no file changed)"]
    yield from changed
