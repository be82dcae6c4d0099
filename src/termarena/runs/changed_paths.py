"""What an agent changed, on disk: every path, because a later grading must see what the first one saw."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record, write_record
from termarena.sandbox import Change, FileChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.core.records import Json
    from termarena.core.run_folder import AttemptFolder
    from termarena.core.scrub import Scrubber

__all__ = ["read_changes", "write_changes"]

CHANGES_KIND: Final = "file-changes"
LARGEST_CHANGES: Final = 100_000
"""So many changed paths are listed in `changes.json`; further ones stand one per line beside it."""
LARGEST_PATHS: Final = 32 << 20
"""Characters of all paths in `changes.json`: with every one of them escaped, a record still holds it."""


def write_changes(folder: AttemptFolder, changes: FileChanges, scrubber: Scrubber) -> None:
    """Write them all, secrets scrubbed, and wait for no disk; raises `OSError` when the folder takes no more."""
    every = changes.changes
    listed = _listed(every)
    first: list[Json] = [scrubber.scrub_json(_row(change)) for change in every[:listed]]
    if len(every) > listed:
        with folder.further_changes.open("w", encoding="ascii") as file:
            file.writelines(json.dumps(scrubber.scrub_json(_row(change))) + "\n" for change in every[listed:])
    write_record(folder.changes, CHANGES_KIND, {"total": len(every), "changes": first}, is_durable=False)


@functools.cache
def _reader() -> TypeAdapter[Change]:
    """Made when first needed: that takes longer than all else that a run imports here."""
    return TypeAdapter(Change)


def read_changes(folder: AttemptFolder) -> FileChanges:
    """What the agent changed, read back; none where nothing was recorded. Raises `TaskFormatError`, also where some of
    the paths are missing: what is not listed cannot be judged."""
    if not folder.changes.is_file():
        return FileChanges()
    record = read_record(folder.changes, CHANGES_KIND)
    listed = record["changes"]
    if not isinstance(listed, list):
        raise TaskFormatError(str(folder.changes), field="changes", found="no list", expected="the changed paths")
    found = [_reader().validate_python(row) for row in listed]
    found += _further(folder)
    if len(found) != record["total"]:
        raise TaskFormatError(
            str(folder.changes), field="changes", found=f"{len(found)} paths", expected=f"all {record['total']}"
        )
    return FileChanges(tuple(found))


def _further(folder: AttemptFolder) -> Iterator[Change]:
    """One line at a time: there may be millions."""
    path = folder.further_changes
    if not path.is_file():
        return
    with path.open(encoding="ascii") as file:
        for line in file:
            try:
                yield _reader().validate_python(json.loads(line))
            except ValueError as error:
                raise TaskFormatError(str(path), found=str(error), expected="a changed path on each line") from error


def _listed(changes: Sequence[Change]) -> int:
    """How many of them `changes.json` holds."""
    room = LARGEST_PATHS
    for number, change in enumerate(changes[:LARGEST_CHANGES]):
        room -= len(change.path) + len(change.target or "")
        if room < 0:
            return number
    return min(len(changes), LARGEST_CHANGES)


def _row(change: Change) -> dict[str, Json]:
    return {name: value for name, value in dataclasses.asdict(change).items() if value is not None}
