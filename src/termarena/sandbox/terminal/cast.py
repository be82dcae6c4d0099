"""Recordings of terminal sessions: asciicast, versions 2 and 3; version 1 is read too, and what others damaged.

Every event is one line and one `write`, so whatever ends the harness leaves whole lines behind. A disk that is full,
or the size limit, ends the recording and never the session.
"""

from __future__ import annotations

import codecs
import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from termarena.core.scrub_events import EventScrubber, TextEvent
from termarena.sandbox.sides import LARGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.core.scrub import Scrubber

__all__ = ["Cast", "CastEvent", "CastWriter", "parse_cast", "read_cast"]

EventCode = Literal["o", "i", "m", "r", "x"]
WHOLE: Final = frozenset({"m", "r", "x"})
"""Kinds whose texts do not go on from one event to the next."""
DEFAULT_CAST_BYTES: Final = 256 << 20
DECIMALS: Final = 6
RELATIVE_VERSION: Final = 3
"""From this version on times are intervals, sizes are nested, and the exit status is an event."""
EVENT_PARTS: Final = 3
LONGEST_S: Final = 1e9
USUAL_SIZE: Final = (80, 24)


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
        scrubber: Scrubber | None = None,
    ) -> None:
        """Makes the file; raises `FileExistsError` rather than replace one, and other `OSError` from the host.

        With a `scrubber` no secret is ever written: what may be the beginning of one waits for what follows.
        """
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._version = version
        self._is_relative = version == RELATIVE_VERSION
        self._env = dict(env or {})
        self._max_bytes = max_bytes
        self._clock = clock
        self._started: float | None = None
        self._shown_at = 0.0
        self._screen = EventScrubber(scrubber, whole=WHOLE) if scrubber is not None else None
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
        for event in self._screen.rest() if self._screen is not None else ():
            self._write_event(event)
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
        event = TextEvent(self._clock() - self._started, code, text)
        for one in self._screen.add(event) if self._screen is not None else (event,):
            self._write_event(one)

    def _write_event(self, event: TextEvent) -> None:
        if self.problem is not None:
            return
        at = max(round(event.at_s, DECIMALS), self._shown_at)
        # Intervals are taken between the times as written, so that their sum does not drift.
        shown = round(at - self._shown_at, DECIMALS) if self._is_relative else at
        self._shown_at = at
        self._write_line([shown, event.code, event.text])
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


class CastEvent(NamedTuple):
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
    trouble: tuple[str, ...] = ()
    """What had to be forgiven to read it, one sentence each."""

    def text(self, code: str = "o") -> str:
        """The texts of all events of one kind, joined."""
        return "".join(event.text for event in self.events if event.code == code)


def read_cast(path: Path) -> Cast:
    """Read a recording of version 1, 2 or 3; raises `ValueError` for another file, `OSError` from the host."""
    try:
        return parse_cast(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse_cast(raw: bytes) -> Cast:
    """What a recording's bytes hold. Lines that are no events are left out and told; `ValueError` if it is no cast."""
    raw = raw.removeprefix(b"\xef\xbb\xbf").lstrip()
    first, _, rest = raw.partition(b"\n")
    header = _json(first)
    if _is_event(header):
        header, rest = {"version": 2}, raw
    version = _version_of(header)
    if version not in (2, RELATIVE_VERSION):
        return _parse_first_version(raw)
    reader = _EventReader(is_relative=version == RELATIVE_VERSION)
    is_cut = not reader.take_all(rest.split(b"\n"))
    size = header.get("term") if version == RELATIVE_VERSION else header
    cols, rows, trouble = _size_of(size, "cols" if version == RELATIVE_VERSION else "width")
    return Cast(version, cols, rows, header, tuple(reader.events), is_cut, (*trouble, *reader.trouble()))


def _parse_first_version(raw: bytes) -> Cast:
    """Version 1 is one object, however it is spread over lines; its times are intervals."""
    value = _json(raw)
    if not isinstance(value, dict) or _version_of(value) != 1 or not isinstance(value.get("stdout"), list):
        raise ValueError("not an asciicast of version 1, 2 or 3")
    reader = _EventReader(is_relative=True)
    for number, frame in enumerate(value.pop("stdout"), start=1):
        reader.add(number, [frame[0], "o", *frame[1:]] if isinstance(frame, list) and frame else frame)
    cols, rows, trouble = _size_of(value, "width")
    return Cast(1, cols, rows, value, tuple(reader.events), is_cut=False, trouble=(*trouble, *reader.trouble("frame")))


def _json(raw: bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _version_of(header: object) -> int | None:
    """A version that is known, also where it is written as a text."""
    told = header.get("version") if isinstance(header, dict) else None
    return next((known for known in (1, 2, RELATIVE_VERSION) if told == known or told == str(known)), None)


def _is_event(value: object) -> bool:
    if not isinstance(value, list) or len(value) < EVENT_PARTS:
        return False
    return isinstance(value[0], int | float) and all(isinstance(part, str) for part in value[1:EVENT_PARTS])


def _size_of(sizes: object, first_name: str) -> tuple[int, int, tuple[str, ...]]:
    names = ("cols", "rows") if first_name == "cols" else ("width", "height")
    cols, rows = (sizes.get(name) if isinstance(sizes, dict) else None for name in names)
    if isinstance(cols, int) and isinstance(rows, int) and 1 <= min(cols, rows) <= max(cols, rows) <= LARGEST_SIDE:
        return cols, rows, ()
    return *USUAL_SIZE, (f"its size is given as {cols!r:.20} x {rows!r:.20}; taken as 80 x 24",)


@dataclass(slots=True)
class _EventReader:
    """Takes events as they stand in files of others: what is no event is counted, time never runs backwards."""

    is_relative: bool
    events: list[CastEvent] = field(default_factory=list)
    _at_s: float = 0.0
    _bad: list[int] = field(default_factory=list)
    _backwards: int = 0
    _from_s: float = 0.0
    _more: int = 0

    def take_all(self, lines: list[bytes]) -> bool:
        """The lines behind the header; whether the last one is whole."""
        # One call of the parser for all lines takes a fifth of the time; it cannot say which line is damaged.
        values = _json(b"[" + b",".join(line for line in lines if line.strip()) + b"]")
        if isinstance(values, list) and len(values) <= len(lines):
            for number, value in enumerate(values, start=2):
                self.add(number, value)
            return True
        for number, line in enumerate(lines[:-1], start=2):
            self.take(number, line)
        return self.take(len(lines) + 1, lines[-1], is_last=True)

    def take(self, number: int, line: bytes, *, is_last: bool = False) -> bool:
        """Whether the line is whole; an unfinished last line is not told as damage."""
        if not line.strip() or line.startswith(b"#"):
            return True
        value = _json(line)
        if value is None and is_last:
            return False
        self.add(number, value)
        return True

    def add(self, number: int, value: object) -> None:
        if isinstance(value, dict) and (version := _version_of(value)) is not None:  # another recording behind this one
            self._more += 1
            self._from_s, self.is_relative = self._at_s, version == RELATIVE_VERSION
            return
        if not isinstance(value, list) or len(value) < EVENT_PARTS:
            self._bad.append(number)
            return
        shown, code, text = value[:EVENT_PARTS]
        if type(shown) not in (int, float) or not 0 <= abs(shown) < LONGEST_S or not isinstance(text, str):
            self._bad.append(number)
            return
        at = self._at_s + shown if self.is_relative else self._from_s + shown
        if at < self._at_s:
            self._backwards += 1
            at = self._at_s
        self._at_s = at
        self.events.append(CastEvent(at, str(code), text))

    def trouble(self, what: str = "line") -> tuple[str, ...]:
        """One sentence for each kind of damage."""
        told = []
        if self._bad:
            shown = ", ".join(map(str, self._bad[:3])) + (", …" if self._bad[3:] else "")
            told.append(f"{len(self._bad)} of its {what}s are no events ({what} {shown}); they were left out")
        if self._more:
            told.append(f"{self._more + 1} recordings stand one behind the other; they were read as one")
        if self._backwards:
            told.append(f"time runs backwards {self._backwards} times; such events count as happening at once")
        return tuple(told)
