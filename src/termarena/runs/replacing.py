"""Putting a later grading in the place of the one before: whatever ends the harness, an attempt has one or the other.

    regrading/before/                   empty; takes the earlier grading and becomes before-regrade-<n>
    regrading/test_output.txt, logs/    what the later tests wrote
    regrading/result.json               written last: from then on it counts, and readers look here first

What has a `result.json` is brought to its end by `settle`, however often that is broken off; the rest is thrown away.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from termarena.core.run_folder import AttemptFolder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["discard", "has_later", "make_place", "settle"]

BEFORE: Final = "before"
KEPT: Final = "before-regrade"


def make_place(folder: AttemptFolder) -> AttemptFolder:
    """An empty place for a later grading of this attempt; what a broken-off one left is gone. Raises OSError."""
    discard(folder)
    (folder.regrading / BEFORE).mkdir(parents=True)
    return AttemptFolder(folder.regrading)


def has_later(folder: AttemptFolder) -> bool:
    """Whether a later grading counts that is not yet in its place."""
    return AttemptFolder(folder.regrading).result.is_file()


def discard(folder: AttemptFolder) -> None:
    """Throw away what is in the place for a later grading; from the first step on it counts no more. Raises OSError."""
    if folder.regrading.is_dir():
        AttemptFolder(folder.regrading).result.unlink(missing_ok=True)
        shutil.rmtree(folder.regrading)


def settle(folder: AttemptFolder) -> None:
    """Keep the earlier grading beside, and put the later one, which is whole, in its place. Raises OSError."""
    later = AttemptFolder(folder.regrading)
    names = [path.name for path in (later.result, later.test_output, later.logs)]
    before = later.path / BEFORE
    if before.is_dir():
        for name in names:
            if (folder.path / name).exists():
                (folder.path / name).rename(before / name)
        before.rename(_kept(folder))
    for name in names:
        _copy(later.path / name, folder.path / name)
    discard(folder)


def _kept(folder: AttemptFolder) -> Path:
    number = 1
    while (kept := folder.path / f"{KEPT}-{number}").exists():
        number += 1
    return kept


def _copy(source: Path, target: Path) -> None:
    """Over a copy that was broken off, and durable if it is a file; nothing where there is nothing."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)
    elif source.is_file():
        # Not through a temporary file: a kill would leave it, and nobody reads this one while the source is there.
        with source.open("rb") as content, target.open("wb") as copy:
            shutil.copyfileobj(content, copy)
            copy.flush()
            os.fsync(copy.fileno())
