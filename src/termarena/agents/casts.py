"""Secrets out of recordings of terminals: one may be spread over many events."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from termarena.core.run_folder import AttemptFolder
    from termarena.core.scrub import Scrubber

__all__ = ["scrub_cast", "scrub_casts"]

WINDOW_BYTES: Final = 1 << 20
OVERLAP_BYTES: Final = 1 << 15
"""More than the longest secret."""


@dataclass(slots=True)
class _Line:
    """A line of the file: an event, or anything else, which is kept as it is."""

    raw: bytes
    event: list[Any] | None = None
    text: bytes = b""

    @classmethod
    def parse(cls, raw: bytes) -> _Line:
        try:
            event = json.loads(raw)
        except ValueError:
            return cls(raw)
        if isinstance(event, list) and event[1:] and all(isinstance(part, str) for part in event[1:]):
            return cls(raw, event, event[-1].encode("utf-8", "surrogatepass"))
        return cls(raw)

    def replace(self, text: bytes) -> None:
        assert self.event is not None  # noqa: S101 - only events have a text
        self.text = text
        shown = [*self.event[:-1], text.decode("utf-8", "replace")]
        self.raw = json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def scrub_casts(folder: AttemptFolder, scrubber: Scrubber) -> None:
    """Take the secrets out of the recordings of a try that came to no end; one that cannot be cleaned is removed.

    Raises OSError for one that cannot be removed either.
    """
    for path in sorted(folder.path.glob("terminal*.cast")):
        try:
            scrub_cast(path, scrubber)
        except OSError:
            path.unlink(missing_ok=True)


def scrub_cast(path: Path, scrubber: Scrubber) -> int:
    """Replace a recording by one without secrets, in constant memory; how many there were. Raises OSError.

    A recording without any is not touched. Events keep their number and their times.
    """
    with path.open("rb") as source:
        found = sum(window.found for window in _scrubbed(source, scrubber))
    if not found:
        return 0
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with path.open("rb") as source, temporary.open("xb") as target:
            for window in _scrubbed(source, scrubber):
                target.writelines(line.raw for line in window.lines[: window.whole])
        shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return found


def _scrubbed(source: BinaryIO, scrubber: Scrubber) -> Iterator[_Window]:
    for window in _windows(source):
        for code in {line.event[1] for line in window.lines if line.event is not None}:
            events = [line for line in window.lines if line.event is not None and line.event[1] == code]
            window.found += _scrub_events(events, scrubber)
        for line in window.lines[: window.whole]:
            clean = scrubber.scrub_bytes(line.raw)
            window.found += clean is not line.raw
            line.raw = clean
        yield window


@dataclass(slots=True)
class _Window:
    lines: list[_Line]
    whole: int
    """How many of them are not in the next window too."""
    found: int = 0


def _windows(source: BinaryIO) -> Iterator[_Window]:
    lines: list[_Line] = []
    size = 0
    for raw in source:
        lines.append(_Line.parse(raw))
        size += len(lines[-1].text)
        if size > WINDOW_BYTES:
            whole = _border(lines)
            yield _Window(lines, whole)
            lines = lines[whole:]
            size = sum(len(line.text) for line in lines)
    yield _Window(lines, len(lines))


def _border(lines: Sequence[_Line]) -> int:
    """Where the last events begin that together hold a secret's length."""
    kept = 0
    for number in range(len(lines) - 1, -1, -1):
        kept += len(lines[number].text)
        if kept > OVERLAP_BYTES:
            return number if number > 0 else len(lines)
    return len(lines)


def _scrub_events(lines: Sequence[_Line], scrubber: Scrubber) -> int:
    """Scrub the texts of one kind of event as if they were one; how many secrets there were."""
    spans = scrubber.find(b"".join(line.text for line in lines))
    at = first = 0
    for line in lines:
        start, end = at, at + len(line.text)
        at = end
        while first < len(spans) and spans[first].end <= start:
            first += 1
        if first == len(spans):
            break
        clean = bytearray()
        shown = start
        for span in spans[first:]:
            if span.start >= end:
                break
            clean += line.text[shown - start : max(span.start, shown) - start]
            clean += span.replacement if span.start >= start else b""
            shown = min(span.end, end)
        if shown > start or clean:
            line.replace(bytes(clean) + line.text[shown - start :])
    return len(spans)
