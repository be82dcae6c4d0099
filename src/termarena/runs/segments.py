"""A recording in segments: a player that wants a moment fetches the piece around it, not the whole.

`index.json` and `0.json`, `1.json` … are as asciinema-player has them: each segment begins with what the screen shows
at its start, so that none needs those before it. Pauses are cut, and `corners` says how: pairs of a time in the
recording and the time at which it is shown, between which time runs evenly. `markers` are those of the recording, each
with the time at which it is shown: a player that has fetched one piece knows them all.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.sandbox.terminal.screen import Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["INDEX", "LONGEST_PAUSE_S", "cut_recording"]

INDEX: Final = "index.json"
LONGEST_PAUSE_S: Final = 2.0
SEGMENT_BYTES: Final = 512 << 10
"""Of text, about: a browser takes 10 ms for it."""
EVENT_BYTES: Final = 16
"""What an event takes beyond its text: a recording may have millions without any."""
LONGEST_LINE_BYTES: Final = 16 << 20
LARGEST_SIDE: Final = 1_000
"""Columns or rows."""
TICK_S: Final = 0.000001
RELATIVE_VERSION: Final = 3
MOST_CORNERS: Final = 10_000
MOST_MARKERS: Final = 1_000
LONGEST_LABEL: Final = 200


def cut_recording(path: Path, into: Path) -> bool:
    """Write the segments of a recording of version 2 or 3 into a folder that is there; False if it has no output.

    Takes memory for one segment. Raises ValueError for what is no recording, OSError.
    """
    with path.open("rb") as source:
        header = _object(source.readline(LONGEST_LINE_BYTES))
        if header.get("version") not in (2, RELATIVE_VERSION):
            raise ValueError("it is no recording of version 2 or 3")
        term = header.get("term") if header["version"] == RELATIVE_VERSION else header
        cols, rows = _size(term if isinstance(term, dict) else {})
        clock = _Clock(is_relative=header["version"] == RELATIVE_VERSION)
        cutter = _Cutter(into, cols, rows)
        for row in _events(source):
            (cutter.mark if row[1] == "m" else cutter.add)(clock.shown(row[0]), *row[1:])
    return cutter.finish(clock)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _size(term: dict[str, Any]) -> tuple[int, int]:
    sides = (term.get("width", term.get("cols")), term.get("height", term.get("rows")))
    cols, rows = (side if isinstance(side, int) and 0 < side <= LARGEST_SIDE else None for side in sides)
    return cols or 80, rows or 24


def _events(source: IO[bytes]) -> Iterator[tuple[float, str, str]]:
    """Output, changes of size and markers; a recording that breaks off ends there."""
    while line := source.readline(LONGEST_LINE_BYTES):
        if not line.startswith(b"["):
            continue
        try:
            at, code, text = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            return
        if code in ("o", "r", "m") and isinstance(text, str) and isinstance(at, int | float) and math.isfinite(at):
            yield float(at), code, text


@dataclass(slots=True)
class _Clock:
    """From the recording's own time to the shown one."""

    is_relative: bool
    own: float = 0.0
    at: float = 0.0
    corners: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])

    def shown(self, at: float) -> float:
        gap = max(0.0, at if self.is_relative else at - self.own)
        cut = min(gap, LONGEST_PAUSE_S)
        self.own += gap
        self.at = round(self.at + cut, 6)
        if cut < gap and len(self.corners) < MOST_CORNERS:
            self.corners.append((round(self.own, 6), self.at))
        return self.at


class _Cutter:
    """Puts events into segments, each with the screen before its first."""

    def __init__(self, into: Path, cols: int, rows: int) -> None:
        self._into = into
        self._first = self._size = (cols, rows)
        self._screen = Emulator(cols, rows, scrollback_lines=0, reply=lambda _: None)
        self._starts: list[float] = []
        self._events: list[tuple[float, str, str]] = []
        self._text_bytes = 0
        self._before = (self._size, "")
        self._last = -1.0
        self._markers: list[tuple[float, str]] = []

    def mark(self, at: float, _code: str, label: str) -> None:
        if len(self._markers) < MOST_MARKERS:
            self._markers.append((at, label[:LONGEST_LABEL]))

    def add(self, at: float, code: str, text: str) -> None:
        at = max(at, self._last)
        if self._text_bytes > SEGMENT_BYTES:
            self._write()
            at = max(at, round(self._last + TICK_S, 6))  # a segment begins after the last event of the one before
            self._before = (self._size, self._screen.redrawn())
        if not self._events:
            self._starts.append(at if self._starts else 0.0)
        self._last = at
        self._events.append((at, code, text))
        self._text_bytes += len(text) + EVENT_BYTES
        self._show(code, text)

    def _show(self, code: str, text: str) -> None:
        if code == "o":
            self._screen.feed(text.encode("utf-8", "replace"))
            return
        cols, _, rows = text.partition("x")
        if cols.isdecimal() and rows.isdecimal() and 0 < int(cols) <= LARGEST_SIDE and 0 < int(rows) <= LARGEST_SIDE:
            self._size = (int(cols), int(rows))
            self._screen.resize(*self._size)

    def _write(self) -> None:
        (cols, rows), init = self._before
        segment = {"snapshot": {"cols": cols, "rows": rows, "init": init}, "events": self._events}
        _dump(self._into / f"{len(self._starts) - 1}.json", segment)
        self._events, self._text_bytes = [], 0

    def finish(self, clock: _Clock) -> bool:
        self._screen.close()
        if not self._starts:
            return False
        if self._events:
            self._write()
        clock.corners.append((round(clock.own, 6), self._last))
        index = {
            "version": 1,
            "duration": self._last,
            "term": {"cols": self._first[0], "rows": self._first[1]},
            "segments": [{"start": start, "url": f"{number}.json"} for number, start in enumerate(self._starts)],
            "corners": clock.corners,
            "markers": [(min(at, self._last), label) for at, label in self._markers],
        }
        _dump(self._into / INDEX, index)
        return True


def _dump(path: Path, content: object) -> None:
    path.write_bytes(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
