"""Recordings on this machine, as transcripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from termarena.core.errors import RecordingError, TaskFormatError
from termarena.core.records import read_record_as
from termarena.forge.finding import find_recordings
from termarena.forge.reading import read
from termarena.forge.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = ["TRANSCRIPTS", "transcripts_in"]

TRANSCRIPTS: Final = ".transcript.jsonl"
"""The end of the name of a file with transcripts, one per line, as `termarena forge read --json` prints them; such a
file is named, not found in a folder."""
LONGEST_FILE: Final = 256 << 20
_HEAD_BYTES: Final = 200


def transcripts_in(
    paths: Iterable[Path], on_unreadable: Callable[[Path, RecordingError], None] | None = None
) -> Iterator[Transcript]:
    """The recordings in files and folders, read; `on_unreadable` is told of a file that is none, and the others go on.

    Raises `NotFound`, `TaskFormatError`, `OSError`; without `on_unreadable` also `RecordingError`.
    """
    for path in paths:
        if path.name.endswith(TRANSCRIPTS):
            yield from _saved(path)
            continue
        if _is_kept(path):
            yield read_record_as(Transcript, path, "transcript")
            continue
        for file in find_recordings([path]):
            try:
                yield read(file)
            except RecordingError as error:
                if on_unreadable is None:
                    raise
                on_unreadable(file, error)


def _is_kept(path: Path) -> bool:
    """Whether it is one of the records that `termarena forge screen --out` writes."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"kind": "transcript"' in file.read(_HEAD_BYTES)


def _saved(file: Path) -> Iterator[Transcript]:
    if file.stat().st_size > LONGEST_FILE:
        raise TaskFormatError(str(file), found="a larger file", expected=f"at most {LONGEST_FILE} bytes")
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            yield Transcript.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = f"line {number}: {'.'.join(map(str, first['loc']))}"
            raise TaskFormatError(str(file), field=where, found=first["msg"], expected="a transcript") from error
