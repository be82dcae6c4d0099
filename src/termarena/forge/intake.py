"""Recordings on this machine, as transcripts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from termarena.core.errors import RecordingError, TaskFormatError, TermArenaError
from termarena.core.records import read_record_as
from termarena.forge.finding import find_recordings
from termarena.forge.limiting import limited
from termarena.forge.reading import read_loaded
from termarena.forge.screening.rules import ScreenRules
from termarena.forge.sharding import HERE, map_files
from termarena.forge.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from termarena.forge.casts import Loaded
    from termarena.forge.sharding import Where

__all__ = ["TRANSCRIPTS", "Unreadable", "found_in", "items_in", "transcripts_in", "transcripts_kept_in"]

TRANSCRIPTS: Final = ".transcript.jsonl"
"""The end of the name of a file with transcripts, one per line, as `termarena forge read --json` prints them; such a
file is named, not found in a folder."""
LONGEST_FILE: Final = 256 << 20
_HEAD_BYTES: Final = 200


class Unreadable(NamedTuple):
    """A file that is no recording."""

    source: str
    digest: str
    """Of its bytes, where they could be read."""
    reason: str


def transcripts_in(paths: Iterable[Path]) -> Iterator[Transcript]:
    """The recordings in files and folders, read. Raises `NotFound`, `TaskFormatError`, `RecordingError`, `OSError`."""
    for item in items_in(paths):
        if isinstance(item, Unreadable):
            raise RecordingError(item.reason)
        yield item


def found_in(paths: Iterable[Path]) -> list[Path]:
    """The files that were named, and the recordings in the folders. Raises `NotFound`."""
    named = [[path] if path.is_file() else find_recordings([path]) for path in paths]
    return [file for files in named for file in files]


def items_in(
    paths: Iterable[Path], where: Where = HERE, rules: ScreenRules | None = None
) -> Iterator[Transcript | Unreadable]:
    """The recordings in files and folders, read; of a file that is none, or takes too long, why. Saved transcripts come
    first. Of the rules only how long one may take counts.

    Raises `NotFound`, `TaskFormatError`, `ClusterError`, `OSError`.
    """
    plain = []
    for path in paths:
        if path.name.endswith(TRANSCRIPTS):
            yield from _saved(path)
            continue
        if _is_kept(path):
            yield read_record_as(Transcript, path, "transcript")
            continue
        plain.append(path)
    read = partial(_read, limit_s=(rules or ScreenRules()).most_processor_s)
    yield from map_files(read, find_recordings(plain), where)


def transcripts_kept_in(folder: Path) -> Iterator[Transcript]:
    """What `termarena forge screen --out` wrote there, by name. Raises `TaskFormatError`, `OSError`."""
    for path in sorted(folder.glob("*.json")):
        if _is_kept(path):
            yield read_record_as(Transcript, path, "transcript")


def _read(loaded: Loaded, *, limit_s: float) -> Transcript | Unreadable:
    try:
        return limited(limit_s, read_loaded, loaded)
    except RecordingError as error:
        return Unreadable(loaded.path, loaded.digest, error.message)
    except TermArenaError:
        raise
    except Exception as error:  # noqa: BLE001 - the border of one recording: what cannot be read is refused
        return Unreadable(loaded.path, loaded.digest, f"it could not be read: {type(error).__name__}: {error}"[:500])


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
