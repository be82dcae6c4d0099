"""Finding recordings on this machine: files, and what lies in folders and checkouts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["find_recordings"]

SUFFIXES: Final = (".cast", ".asciicast", ".typescript", ".script")
VERSION_1_SUFFIX: Final = ".json"
HEAD_BYTES: Final = 4096
_SKIPPED_FOLDERS: Final = {".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"}


def find_recordings(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that were named, and in folders whatever looks like a recording, in order.

    Raises `NotFound`, also for a folder without any.

    A file that was named is taken whatever it looks like. In a folder, hidden folders and links are passed by, and a
    `.json` or `.txt` file counts only if it begins like a recording.
    """
    for path in paths:
        if path.is_dir():
            found = False
            for recording in _in_folder(path):
                found = True
                yield recording
            if not found:
                hint = f"in a folder a recording ends with {', '.join(SUFFIXES)}; name any other file itself"
                raise NotFound(f"no recording is in {path}", hint=hint)
        elif path.is_file():
            yield path
        else:
            raise NotFound(f"no file and no folder is at {path}", hint="name recordings, or folders that hold some")


def _in_folder(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(parent, name)
            if not path.is_symlink() and path.is_file() and _looks_like_one(path):
                yield path


def _looks_like_one(path: Path) -> bool:
    if path.suffix in SUFFIXES or path.name == "typescript":
        return True
    if path.suffix == ".txt":
        return path.name == "recording.txt" or _begins_with(path, b"Script started on ")
    return path.suffix == VERSION_1_SUFFIX and _is_version_1(path)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def _begins_with(path: Path, start: bytes) -> bool:
    return _head(path).startswith(start)


def _is_version_1(path: Path) -> bool:
    head = _head(path).replace(b" ", b"").replace(b"\n", b"")
    return head.startswith(b"{") and b'"version":1' in head and b'"width":' in head
