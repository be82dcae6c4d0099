"""What a command wrote: kept within bounds, and as plain text."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["Capture", "plain_text"]

# CSI; then OSC, DCS, SOS, PM, APC up to their end or the end of the text; then every other escape.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|\Z|(?=\x1b))|\x1b[ -/]*[0-~]?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_OVERWRITTEN: Final = re.compile(r"\r+\n")


def plain_text(raw: bytes) -> str:
    """Bytes of a terminal as text: UTF-8 with replacement, no escape sequences or controls but tab and newline."""
    text = _OVERWRITTEN.sub("\n", _ESCAPES.sub("", raw.decode("utf-8", "replace"))).replace("\r", "\n")
    return _CONTROLS.sub("", text)


class Capture:
    """Keeps the first and the last bytes of a stream of any length, and counts them all."""

    def __init__(self, max_bytes: int) -> None:
        """At most `max_bytes` are returned; at most one and a half times as many are held."""
        self._head_room = max_bytes - max_bytes // 2
        self._tail_room = max_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total_bytes += len(data)
        room = self._head_room - len(self._head)
        self._head += data[:room]
        rest = data[room:] if room > 0 else data
        if not rest or not self._tail_room:
            return
        self._tail += rest[-self._tail_room :]
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: -self._tail_room]

    def kept(self) -> bytes:
        """The beginning and the end; everything, if that is not more than the bound."""
        return bytes(self._head + self._tail[-self._tail_room :] if self._tail_room else self._head)
