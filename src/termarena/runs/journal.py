"""The journal of a run: what happened, one JSON object per line, appended and never changed.

Every line has `seq` (1, 2, 3 …), `at` (UTC), `event`, the event's own fields, and at its end `crc`, the CRC-32 of all
that stands before it in the line. A line is written by one call; whatever stands behind the last newline is torn, by a
kill or a full disk, and is cut off before the next event is written. Any other line that is not as it was
written is an error.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from termarena.core.errors import JournalDamaged, RunNotWritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Event", "EventName", "Journal", "JournalReader", "Tail", "now"]

EventName = Literal[
    "run_started",
    "run_resumed",
    "trial_started",
    "trial_finished",
    "trial_interrupted",
    "trial_regraded",
    "run_interrupted",
    "run_finished",
]

# A reader holds one line at a time; the longest that is written is a summary with a shortened message.
LONGEST_LINE_BYTES: Final = 1 << 20
# `json.loads` looks for encodings and blanks first, which costs a third more over a hundred thousand trials.
_DECODER: Final = json.JSONDecoder()
_CRC_BYTES: Final = len(b',"crc":"01234567"}\n')


class Event(NamedTuple):
    """One line."""

    seq: int
    at: str
    name: str
    fields: dict[str, Any]
    """The whole line as JSON, `seq`, `at` and `event` included."""


class Tail(NamedTuple):
    """Where the good lines of a journal end."""

    seq: int = 0
    size_bytes: int = 0


def now() -> str:
    """This moment as the journal writes it: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JournalReader:
    """The events of a journal in order, one line in memory at a time; `tail` is where it stands.

    A missing file has no events. Raises `JournalDamaged` for a line that is not as it was written or is out of order.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is read before the first event is asked for."""
        self._path = path
        self.tail = Tail()

    def __iter__(self) -> Iterator[Event]:
        """From the first event to the last whole one."""
        self.tail = Tail()
        try:
            file = self._path.open("rb", buffering=1 << 18)
        except FileNotFoundError:
            return
        seq, size_bytes = 0, 0
        with file:
            while (line := file.readline(LONGEST_LINE_BYTES)).endswith(b"\n"):
                seq, size_bytes = seq + 1, size_bytes + len(line)
                fields = self._parse(line, seq)
                self.tail = Tail(seq, size_bytes)
                yield Event(seq, fields["at"], fields["event"], fields)
            if len(line) == LONGEST_LINE_BYTES:
                raise self._damaged(seq + 1, "it does not end")

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        body = line[:-_CRC_BYTES]
        if line[-_CRC_BYTES:] != _crc(body):
            raise self._damaged(number, "its checksum is another")
        fields: dict[str, Any] = _DECODER.raw_decode(line.decode("ascii"))[0]
        if fields["seq"] != number:
            raise self._damaged(number, f"it is event {fields['seq']}, where event {number} is due")
        return fields

    def _damaged(self, line: int, problem: str) -> JournalDamaged:
        return JournalDamaged(str(self._path), line=line, problem=problem)


class Journal:
    """A journal that is being written; whoever opens it holds the run's lock."""

    def __init__(self, path: Path, tail: Tail) -> None:
        """Open for appending after `tail`; a torn rest behind it goes with the first event. Raises `RunNotWritable`."""
        self._path = path
        self._tail = tail
        self._is_torn = True  # for all that is known
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._not_writable(error) from error

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def append(self, event: EventName, fields: Mapping[str, object] | None = None, *, at: str | None = None) -> None:
        """Write one event, whole or not at all. Raises `RunNotWritable`; then the journal is as it was before.

        `at` is when it happened, where that was not now.

        It is in the kernel's hands then and survives this process; `sync` makes it survive the machine.
        """
        line = _encode({"seq": self._tail.seq + 1, "at": at or now(), "event": event, **(fields or {})})
        try:
            self._cut()
            self._write(line)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._cut()
            raise self._not_writable(error) from error
        self._tail = Tail(self._tail.seq + 1, self._tail.size_bytes + len(line))

    def sync(self) -> None:
        """Make everything durable; blocks for as long as the disk takes. Raises `RunNotWritable`."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._not_writable(error) from error

    def close(self) -> None:
        """Write no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: bytes) -> None:
        self._is_torn = True
        if os.write(self._fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._is_torn = False

    def _cut(self) -> None:
        if self._is_torn:
            os.ftruncate(self._fd, self._tail.size_bytes)
            self._is_torn = False

    def _not_writable(self, error: OSError) -> RunNotWritable:
        return RunNotWritable(str(self._path), problem=error.strerror or str(error), errno=error.errno)


def _encode(fields: Mapping[str, object]) -> bytes:
    body = json.dumps(fields, ensure_ascii=True, allow_nan=False, separators=(",", ":"))[:-1].encode()
    return body + _crc(body)


def _crc(body: bytes) -> bytes:
    return b',"crc":"%08x"}\n' % zlib.crc32(body)
