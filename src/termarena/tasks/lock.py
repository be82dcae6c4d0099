"""Locks: a dataset's name, version and the digest of every task, so that two people can know they ran the same
thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from termarena.core.errors import DigestMismatch, NotFound, TaskFormatError
from termarena.core.records import read_record, write_record
from termarena.tasks.digest import file_digests
from termarena.tasks.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.tasks.dataset import Dataset
    from termarena.tasks.model import Task

__all__ = ["LOCK_NAME", "DatasetLock", "LockedTask", "lock_of", "read_lock", "verify_lock", "write_lock"]

LOCK_NAME = "dataset.lock.json"
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
    """The lock of a dataset as it stands. Raises the error of a task that does not load."""
    tasks = {task.id: LockedTask(digest=task.digest, files=file_digests(task)) for task in dataset.whole()}
    return DatasetLock(name=name or dataset.name, version=version, tasks=tasks)


def write_lock(lock: DatasetLock, folder: Path) -> Path:
    """Write the lock into the dataset's folder."""
    path = folder / LOCK_NAME
    write_record(path, _KIND, lock.model_dump())
    return path


def read_lock(folder: Path) -> DatasetLock:
    """The lock in a dataset's folder. Raises NotFound if there is none, TaskFormatError if it does not hold one."""
    path = folder / LOCK_NAME
    if not path.exists():
        raise NotFound(f"{folder} has no {LOCK_NAME}", hint=f"make one with: termarena datasets lock {folder}")
    try:
        record = read_record(path, _KIND)
        return DatasetLock.model_validate({name: value for name, value in record.items() if name != "schema_version"})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise TaskFormatError(str(path), field=place, found=repr(first["input"])[:80], expected=first["msg"]) from error


def verify_lock(dataset: Dataset, lock: DatasetLock) -> None:
    """Check every task against the lock. Raises DigestMismatch naming each task and file that changed, is missing or
    is new."""
    present = {task.id: task for task in dataset.whole()}
    differences = [f"task {name} is missing" for name in lock.tasks if name not in present]
    differences += [f"task {name} is not in the lock" for name in present if name not in lock.tasks]
    for name, locked in lock.tasks.items():
        if name in present:
            differences += _differences(present[name], locked)
    if differences:
        hint = "restore the files, or lock again as a new version: scores of the two are not comparable"
        raise DigestMismatch(f"dataset {lock.name} {lock.version}", files=tuple(differences), hint=hint)


def _differences(task: Task, locked: LockedTask) -> Iterator[str]:
    if task.digest == locked.digest:
        return
    now = file_digests(task)
    changed = [f"{task.id}/{path} changed" for path, held in locked.files.items() if path in now and now[path] != held]
    changed += [f"{task.id}/{path} is missing" for path in locked.files if path not in now]
    changed += [f"{task.id}/{path} is new" for path in now if path not in locked.files]
    yield from changed or [f"{task.id}: a limit or a setting changed (no file did)"]
