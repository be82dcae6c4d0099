"""A takedown: a recording leaves the shelf, the ledger, every folder of tasks and every exported set, for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import NotFound, TaskFormatError
from termarena.core.records import read_record_as
from termarena.forge.exporting import withdraw
from termarena.forge.retrieving.shelf import INFO, KIND, Origin, Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.forge.ledger import Ledger

__all__ = ["TakenDown", "take_down"]


class TakenDown(NamedTuple):
    """What was removed."""

    recording: str
    source: str
    removed: list[str]


def take_down(name: str, ledger: Ledger, recordings: Path) -> TakenDown:
    """Remove a recording by its task, its address or file, or its digest; also one that was only retrieved so far.

    It is blocked first: whatever interrupts the rest, it does not return, and the same call goes on. Raises `NotFound`,
    and `UsageError` for a name that several have.
    """
    on_shelf = list(_on_shelf(recordings))
    try:
        outcome = ledger.find(name)
    except NotFound:
        found = [origin for _, origin in on_shelf if name in (origin.address, origin.digest)]
        if not found:
            raise
        recording, source, removed = found[0].digest, found[0].address, []
        ledger.block(recording, source)
    else:
        recording, source = outcome.recording, outcome.source
        folders = ledger.placed(recording)
        removed = ledger.take_down(outcome)
        withdraw(folders, recording)
    for folder, origin in on_shelf:
        if recording == origin.digest or source == origin.address:
            ledger.block(origin.digest, origin.address)
            Shelf(folder.parent).remove(folder.name)
            removed.append(str(folder))
    return TakenDown(recording, source, removed)


def _on_shelf(recordings: Path) -> Iterator[tuple[Path, Origin]]:
    for info in sorted(recordings.glob(f"*/*/{INFO}")):
        try:
            yield info.parent, read_record_as(Origin, info, KIND)
        except TaskFormatError:
            continue
