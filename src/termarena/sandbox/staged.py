"""Folders of the host for files on their way into a sandbox or out of one.

They lie below the home of the drivers that were opened, in a folder of this harness's own that is locked as long as
something is staged in it: what a killed one leaves is swept at a later start. The system's temporary folder, where
nothing would sweep them, serves only where no home was named.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.sandbox.state import claim, remove_tree, sweep_dead

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["stage_below", "staged", "staging", "sweep_staged"]

FOLDER: Final = "staged"


@dataclass(slots=True)
class _Claim:
    """A locked folder of this process's, and how many use it."""

    folder: Path
    lock_fd: int
    users: int = 0


@dataclass(slots=True)
class _Place:
    home: Path | None = None
    claims: dict[tuple[Path, int], _Claim] = field(default_factory=dict)
    """By the home and the process: one that was forked has none of its parent's."""
    guard: threading.Lock = field(default_factory=threading.Lock)


_PLACE: Final = _Place()


def stage_below(home: Path) -> None:
    """From now on this process stages below this home; nothing is created yet."""
    _PLACE.home = home.absolute()


@contextmanager
def staging() -> Iterator[None]:
    """Keep the harness's own folder for the length of the block: whoever stages often need not make it each time.

    Raises OSError.
    """
    if _PLACE.home is None:
        yield
        return
    with _claimed(_PLACE.home):
        yield


@contextmanager
def staged(what: str) -> Iterator[Path]:
    """An empty folder, private to this user and gone at the end of the block; `what` is in its name. Raises OSError."""
    if _PLACE.home is None:
        with tempfile.TemporaryDirectory(prefix=f"termarena-{what}-") as place:
            yield Path(place)
        return
    with _claimed(_PLACE.home) as claimed:
        folder = claimed / f"{what}-{secrets.token_hex(6)}"
        folder.mkdir(0o700)
        try:
            yield folder
        finally:
            remove_tree(folder)


@contextmanager
def _claimed(home: Path) -> Iterator[Path]:
    """This process's folder below the home, made by its first user and removed by its last."""
    key = (home, os.getpid())
    with _PLACE.guard:
        held = _PLACE.claims.get(key)
        if held is None:
            folder = home / FOLDER / f"harness-{secrets.token_hex(6)}"
            held = _PLACE.claims[key] = _Claim(folder, claim(folder, {"harness_pid": os.getpid()}))
        held.users += 1
    try:
        yield held.folder
    finally:
        with _PLACE.guard:
            held.users -= 1
            if held.users == 0:
                del _PLACE.claims[key]
                remove_tree(held.folder)
                os.close(held.lock_fd)


def sweep_staged(home: Path) -> None:
    """Remove what dead harnesses staged below this home."""
    sweep_dead(home / FOLDER)
