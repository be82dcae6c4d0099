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

    from termarena.forge.ledger import Ledger, Outcome

__all__ = ["TakenDown", "take_down"]


class TakenDown(NamedTuple):
    """What was removed."""

    recording: str
    source: str
    removed: list[str]


def take_down(name: str, ledger: Ledger, recordings: Path) -> TakenDown:
    """Remove a recording by its task, its address or file, or its digest; also one that was only retrieved so far.

    It is blocked first: whatever interrupts the rest, it does not return, and the same call goes on. Raises `NotFound`,
    `UsageError` for a name that several have, and `TaskFormatError` where the papers of a set cannot be read, once the
    rest is removed.
    """
    on_shelf = list(_on_shelf(recordings))
    outcome: Outcome | None = None
    try:
        outcome = ledger.find(name)
        recording, source = outcome.recording, outcome.source
    except NotFound:
        found = [origin for _, origin in on_shelf if name in (origin.address, origin.digest)]
        if not found:
            raise
        recording, source = found[0].digest, found[0].address
    ledger.block(recording, source)
    removed = []
    for folder, origin in on_shelf:
        if recording == origin.digest or source == origin.address:
            ledger.block(origin.digest, origin.address)
            Shelf(folder.parent).remove(folder.name)
            removed.append(str(folder))
    if outcome is not None:  # last, because its name is found by what the ledger says
        try:
            withdraw(ledger.placed(recording), recording)
        except TaskFormatError:  # papers that cannot be read keep nothing else
            ledger.take_down(outcome)
            raise
        removed = [*ledger.take_down(outcome), *removed]
    return TakenDown(recording, source, removed)


def _on_shelf(recordings: Path) -> Iterator[tuple[Path, Origin]]:
    for info in sorted(recordings.glob(f"*/*/{INFO}")):
        try:
            yield info.parent, read_record_as(Origin, info, KIND)
        except TaskFormatError:
            continue
