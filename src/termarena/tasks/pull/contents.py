"""What a pulled dataset held when it was put on its shelf, so that a later use can tell whether it still does.

A file of the same size and time of change is taken for the same; only one with another time is read again. A look at
28,000 files takes half a second of processor time.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record, write_record
from termarena.tasks.digest import LOCK_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["differences", "write_contents"]

NAME = "contents.json"
_KIND = "pulled-contents"
# What our own commands, Python and file browsers leave in a folder that somebody looks into.
_NOT_CONTENT = frozenset({LOCK_NAME, "__pycache__", ".DS_Store"})


class _Entry(NamedTuple):
    path: str
    size_bytes: int
    mtime_ns: int
    place: str


def write_contents(folder: Path, name: str) -> None:
    """Record, in `folder`, what its folder `name` holds; reads every file once."""
    files = {entry.path: [entry.size_bytes, entry.mtime_ns, _digest(entry)] for entry in _entries(f"{folder}/{name}")}
    write_record(folder / NAME, _KIND, {"files": files})


def differences(folder: Path, name: str) -> tuple[str, ...]:
    """Each file that is not as it was recorded, and how; nothing where all is as it was."""
    try:
        recorded = read_record(folder / NAME, _KIND).get("files")
    except TaskFormatError:
        recorded = None
    if not isinstance(recorded, dict):
        return (f"{NAME} is missing or damaged",)
    found = []
    left = dict(recorded)
    for entry in _entries(f"{folder}/{name}"):
        if entry.path not in left:
            found.append(f"{entry.path} is new")
        elif not _is_same(entry, left.pop(entry.path)):
            found.append(f"{entry.path} changed")
    return (*found, *(f"{path} is missing" for path in left))


def _is_same(entry: _Entry, recorded: object) -> bool:
    match recorded:
        case [entry.size_bytes, int(mtime_ns), str(digest)]:
            return mtime_ns == entry.mtime_ns or digest == _digest(entry)
        case _:
            return False


def _entries(root: str, below: str = "") -> Iterator[_Entry]:
    """Everything but folders, by path; links are not followed."""
    with os.scandir(root) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        path = f"{below}{os.fsencode(entry.name).decode('utf-8', 'backslashreplace')}"
        if entry.name in _NOT_CONTENT:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path, f"{path}/")
        else:
            status = entry.stat(follow_symlinks=False)
            yield _Entry(path, status.st_size, status.st_mtime_ns, entry.path)


def _digest(entry: _Entry) -> str:
    if os.path.islink(entry.place):  # noqa: PTH114 - tens of thousands of names
        return f"link:{os.fsencode(os.readlink(entry.place)).hex()}"  # noqa: PTH115 - likewise
    with open(entry.place, "rb") as file:  # noqa: PTH123 - likewise
        return hashlib.file_digest(file, "sha256").hexdigest()
