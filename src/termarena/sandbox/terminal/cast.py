"""Recordings of terminal sessions: asciicast, versions 2 and 3.

Every event is one line and one `write`, so whatever ends the harness leaves whole lines behind. A disk that is full,
or the size limit, ends the recording and never the session.
"""

from __future__ import annotations

import codecs
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["Cast", "CastEvent", "CastWriter", "read_cast"]

EventCode = Literal["o", "i", "m", "r", "x"]
DEFAULT_CAST_BYTES: Final = 256 << 20
DECIMALS: Final = 6
RELATIVE_VERSION: Final = 3
"""From this version on times are intervals, sizes are nested, and the exit status is an event."""


class CastWriter:
    """Writes one recording, live. `problem` says why it stopped early, if it did."""

    def __init__(
        self,
        path: Path,
        *,
        version: Literal[2, 3] = 2,
        env: Mapping[str, str] | None = None,
        max_bytes: int = DEFAULT_CAST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the file; raises `FileExistsError` rather than replace one, and other `OSError` from the host."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._version = version
        self._is_relative = version == RELATIVE_VERSION
        self._env = dict(env or {})
        self._max_bytes = max_bytes
        self._clock = clock
        self._started: float | None = None
        self._shown_at = 0.0
        self._size_bytes = 0
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[EventCode, codecs.IncrementalDecoder] = {"i": decoder("replace"), "o": decoder("replace")}
        self.dropped_bytes = 0
        self.problem: str | None = None

    def begin(self, cols: int, rows: int) -> None:
        """Write the header; time counts from here."""
        self._started = self._clock()
        size: dict[str, object] = {"width": cols, "height": rows}
        if self._is_relative:
            size = {"term": {"cols": cols, "rows": rows, "type": self._env.get("TERM", "xterm-256color")}}
        header = {"version": self._version, **size, "timestamp": int(time.time())}
        self._write_line({**header, **({"env": self._env} if self._env else {})})

    def output(self, data: bytes) -> None:
        """What the programs wrote; a character split between two calls is written whole."""
        self._bytes("o", data)

    def input(self, data: bytes) -> None:
        """What was typed."""
        self._bytes("i", data)

    def marker(self, label: str) -> None:
        """A point that players can jump to."""
        self._event("m", label)

    def resize(self, cols: int, rows: int) -> None:
        """The terminal has another size from here."""
        self._event("r", f"{cols}x{rows}")

    def close(self, exit_status: int | None = None) -> None:
        """Write what is left, with version 3 the exit status; safe to call again."""
        if self._fd < 0:
            return
        for code, decoder in self._decoders.items():
            if rest := decoder.decode(b"", final=True):
                self._event(code, rest)
        if exit_status is not None and self._is_relative:
            self._event("x", str(exit_status))
        os.close(self._fd)
        self._fd = -1

    def _bytes(self, code: EventCode, data: bytes) -> None:
        if self.problem is not None:
            self.dropped_bytes += len(data)
            return
        if text := self._decoders[code].decode(data):
            self._event(code, text)

    def _event(self, code: EventCode, text: str) -> None:
        if self._started is None or self.problem is not None:
            return
        at = max(round(self._clock() - self._started, DECIMALS), self._shown_at)
        # Intervals are taken between the times as written, so that their sum does not drift.
        shown = round(at - self._shown_at, DECIMALS) if self._is_relative else at
        self._shown_at = at
        self._write_line([shown, code, text])
        if self._size_bytes > self._max_bytes and self.problem is None:
            self._write_line([0 if self._is_relative else at, "m", "recording stopped: size limit"])
            self.problem = f"it reached its limit of {self._max_bytes} bytes"

    def _write_line(self, value: object) -> None:
        line = json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode("utf-8", "replace") + b"\n"
        try:
            written = os.write(self._fd, line)
            if written < len(line):
                os.ftruncate(self._fd, self._size_bytes)
                self.problem = "the disk is full"
                return
        except OSError as error:
            self.problem = error.strerror or str(error)
            return
        self._size_bytes += written


@dataclass(frozen=True, slots=True)
class CastEvent:
    """One event, at its time since the beginning."""

    at_s: float
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A recording that was read."""

    version: int
    cols: int
    rows: int
    header: Mapping[str, Any]
    events: tuple[CastEvent, ...]
    is_cut: bool
    """The last line was not whole: the recording program was killed in the middle of it."""

    def text(self, code: str = "o") -> str:
        """The texts of all events of one kind, joined."""
        return "".join(event.text for event in self.events if event.code == code)


def read_cast(path: Path) -> Cast:
    """Read a recording of version 2 or 3; raises `ValueError` for another file, `OSError` from the host."""
    raw = path.read_bytes()
    lines = raw.split(b"\n")
    header = json.loads(lines[0])
    version = header.get("version") if isinstance(header, dict) else None
    if version not in (2, 3):
        raise ValueError(f"{path}: not an asciicast of version 2 or 3")
    is_relative = version == RELATIVE_VERSION
    size = header["term"] if is_relative else {"cols": header["width"], "rows": header["height"]}
    events = []
    at = 0.0
    for line in lines[1:-1]:
        if line and not line.startswith(b"#"):
            shown, code, text = json.loads(line)
            at = at + shown if is_relative else shown
            events.append(CastEvent(at, code, text))
    return Cast(version, size["cols"], size["rows"], header, tuple(events), is_cut=lines[-1] != b"")
