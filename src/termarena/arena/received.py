"""Runs that were sent: who sent them, and whether more is to come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record, write_record

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.run_folder import RunFolder

__all__ = ["is_being_sent", "mark_received", "sender_of"]

KIND: Final = "received-run"
SILENCE_S: Final = 120
"""A run of which nothing came for so long is taken for interrupted."""


def mark_received(folder: RunFolder, sender: str) -> None:
    """Write down who sent it. Raises OSError."""
    write_record(_mark(folder), KIND, {"sender": sender})


def sender_of(folder: RunFolder) -> str | None:
    """The name of the key that it was sent with; None for a run that was not sent."""
    try:
        found = read_record(_mark(folder), KIND).get("sender")
    except TaskFormatError:
        return None
    return found if isinstance(found, str) else None


def is_being_sent(folder: RunFolder) -> bool:
    """Whether something of it came lately."""
    try:
        return _mark(folder).is_file() and time.time() - folder.journal.stat().st_mtime < SILENCE_S
    except OSError:
        return False


def _mark(folder: RunFolder) -> Path:
    return folder.path / "received.json"
