"""Secrets out of events as they come, before any of them is written: one may be spread over many."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.core.scrub import Scrubber, Span

__all__ = ["EventScrubber", "TextEvent"]

CONTEXT_BYTES: Final = 16
"""What is kept of the text that was let through: more than any pattern looks back."""


class TextEvent(NamedTuple):
    """Something that happened at a time: a kind and a text. Texts of one kind belong together."""

    at_s: float
    code: str
    text: str


@dataclass(slots=True)
class _Waiting:
    at_s: float
    code: str
    unsettled: bytes
    clean: bytes = b""


class EventScrubber:
    """Lets events through in their order and at their times, without secrets.

    What may be the beginning of a secret waits for more of its kind, and whatever comes after it waits too; an event
    of which only the end has to wait is let through in two parts.
    """

    def __init__(self, scrubber: Scrubber) -> None:
        """At most what the longest secret takes waits."""
        self._scrubber = scrubber
        self._queue: deque[_Waiting] = deque()
        self._context: dict[str, bytes] = {}

    def add(self, event: TextEvent) -> Iterator[TextEvent]:
        """What can be shown now that this has happened."""
        self._queue.append(_Waiting(event.at_s, event.code, event.text.encode("utf-8", "surrogatepass")))
        self._settle(event.code)
        return self._let_through()

    def rest(self) -> Iterator[TextEvent]:
        """Everything that waits: no more will come."""
        for code in {waiting.code for waiting in self._queue}:
            self._settle(code, is_last=True)
        return self._let_through()

    def _settle(self, code: str, *, is_last: bool = False) -> None:
        """Scrub the texts of one kind as if they were one, as far as what is to come can change nothing in them."""
        waiting = [one for one in self._queue if one.code == code and one.unsettled]
        context = self._context.get(code, b"")
        joined = context + b"".join(one.unsettled for one in waiting)
        spans = [span for span in self._scrubber.find(joined) if span.start >= len(context)]
        border = len(joined) if is_last else len(joined) - self._scrubber.unsettled(joined)
        border = max(min([border, *(span.start for span in spans if span.start < border < span.end)]), len(context))
        at = len(context)
        for one in waiting:
            end = at + len(one.unsettled)
            cut = max(min(end, border), at)
            one.clean += _shown(joined, spans, at, cut)
            one.unsettled = joined[cut:end]
            at = end
        self._context[code] = joined[max(border - CONTEXT_BYTES, 0) : border]

    def _let_through(self) -> Iterator[TextEvent]:
        while self._queue:
            first = self._queue[0]
            if first.clean or not first.unsettled:
                yield TextEvent(first.at_s, first.code, first.clean.decode("utf-8", "replace"))
                first.clean = b""
            if first.unsettled:
                return
            self._queue.popleft()


def _shown(content: bytes, spans: Sequence[Span], start: int, end: int) -> bytes:
    """A part of the content; a secret's name stands where the secret begins."""
    parts = []
    at = start
    for span in spans:
        if span.end <= at or span.start >= end:
            continue
        parts.append(content[at : max(span.start, at)])
        parts.append(span.replacement if span.start >= start else b"")
        at = min(span.end, end)
    return b"".join([*parts, content[at:end]])
