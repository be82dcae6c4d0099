"""Folders of files that came from outside: listed, measured and moved without ever following a link."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Size", "files_below", "is_real_folder", "measure", "only_folder_in", "remove"]


class Size(NamedTuple):
    """What a folder holds."""

    files: int
    size_bytes: int


def files_below(folder: Path) -> Iterator[Path]:
    """Every entry that is not a folder, in no order; a link is an entry of its own."""
    for base, folders, names in os.walk(folder):
        at = Path(base)
        yield from (at / name for name in names)
        yield from (at / name for name in folders if (at / name).is_symlink())


def measure(folder: Path) -> Size:
    """How many files, and how many bytes."""
    sizes = [file.lstat().st_size for file in files_below(folder)]
    return Size(len(sizes), sum(sizes))


def is_real_folder(root: Path, path: str) -> bool:
    """Whether `path` below `root` is a folder that is reached through no link."""
    at = root
    for part in [".", *filter(None, path.split("/"))]:
        at = at / part
        try:
            if not stat.S_ISDIR(at.lstat().st_mode):
                return False
        except OSError:
            return False
    return True


def only_folder_in(folder: Path) -> Path | None:
    """The one folder that `folder` holds, if it holds nothing else."""
    entries = list(folder.iterdir())
    if len(entries) == 1 and is_real_folder(folder, entries[0].name):
        return entries[0]
    return None


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there; a folder that forbids it is made to allow it first."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for base, folders, _ in os.walk(path):
        for name in folders:
            at = Path(base, name)
            if not at.is_symlink():
                at.chmod(0o700)
    shutil.rmtree(path)
