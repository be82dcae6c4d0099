"""Folders of the host for files on their way into a sandbox or out of one.

They lie below the home of the drivers that were opened, each locked by its harness: what a killed one leaves is swept
at a later start. The system's temporary folder, where nothing would sweep them, serves only where no home was named.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.sandbox.state import claim, sweep_dead

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["stage_below", "staged", "sweep_staged"]

FOLDER: Final = "staged"


@dataclass(slots=True)
class _Place:
    home: Path | None = None


_PLACE: Final = _Place()


def stage_below(home: Path) -> None:
    """From now on this process stages below this home; nothing is created yet."""
    _PLACE.home = home.absolute()


@contextmanager
def staged(what: str) -> Iterator[Path]:
    """An empty folder, private to this user and gone at the end of the block; `what` is in its name. Raises OSError."""
    if _PLACE.home is None:
        with tempfile.TemporaryDirectory(prefix=f"termarena-{what}-") as place:
            yield Path(place)
        return
    folder = _PLACE.home / FOLDER / f"{what}-{secrets.token_hex(6)}"
    lock_fd = claim(folder, {"harness_pid": os.getpid()})
    try:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            yield Path(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock_fd)


def sweep_staged(home: Path) -> None:
    """Remove what dead harnesses staged below this home."""
    sweep_dead(home / FOLDER)
