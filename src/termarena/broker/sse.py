"""Server-sent events: how every one of the interfaces streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from termarena.models.errors import UnusableReply

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Event", "EventReader", "event", "last_event"]

LARGEST_BYTES: Final = 8 << 20
"""Of one event; more than any model writes in one."""


class Event(NamedTuple):
    """One event as it came."""

    raw: bytes
    name: str | None
    data: str

    @property
    def document(self) -> dict[str, Any]:
        """Its data as an object; empty where they are none."""
        try:
            found = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def event(data: object, name: str | None = None) -> bytes:
    """One event as it is sent."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def last_event() -> bytes:
    """What ends OpenAI's streams of chunks."""
    return b"data: [DONE]\n\n"


class EventReader:
    """Cuts a stream into events; what has no end yet waits for the rest."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._rest = b""

    def feed(self, block: bytes) -> Iterator[Event]:
        """The events that are whole now. Raises `UnusableReply` for one without end."""
        self._rest += block
        while True:
            end = _end_of(self._rest)
            if end is None:
                break
            raw, self._rest = self._rest[:end], self._rest[end:]
            yield _parsed(raw)
        if len(self._rest) > LARGEST_BYTES:
            raise UnusableReply(f"an event of the stream is larger than {LARGEST_BYTES} bytes")


def _end_of(content: bytes) -> int | None:
    ends = [place + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if (place := content.find(mark)) >= 0]
    return min(ends, default=None)


def _parsed(raw: bytes) -> Event:
    name: str | None = None
    data: list[str] = []
    for line in raw.decode("utf-8", "replace").splitlines():
        field, _, value = line.partition(":")
        if field == "event":
            name = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
    return Event(raw, name, "\n".join(data))
