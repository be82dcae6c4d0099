"""Secrets out of events as they come, before any of them is written: one may be spread over many."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from termarena.core.scrub import Scrubber, Span

__all__ = ["EventScrubber", "TextEvent"]

CONTEXT_BYTES: Final = 16
"""What is kept of the text that was let through: more than any pattern looks back."""
LONGEST_WAIT_S: Final = 5.0
MOST_BEHIND: Final = 1_000
"""How long, and how many, events of other kinds wait behind what may be the beginning of a secret."""


class TextEvent(NamedTuple):
    """Something that happened at a time: a kind and a text. Texts of one kind belong together."""

    at_s: float
    code: str
    text: str


@dataclass(slots=True)
class _Waiting:
    at_s: float
    code: str
    left: int
    """Bytes of it of which nobody knows yet whether they belong to a secret."""
    clean: bytes = b""


@dataclass(slots=True)
class _Kind:
    """The texts of one kind, as if they were one."""

    context: bytes = b""
    pending: bytes = b""
    unsettled: deque[_Waiting] = field(default_factory=deque)
    """Whose texts are pending, in order."""
    overtaken: deque[_Waiting] = field(default_factory=deque)
    """Those that others did not wait for any longer."""


class EventScrubber:
    """Lets events through in their order and at their times, without secrets.

    What may be the beginning of a secret waits for more of its kind, and what comes after it waits too; an event of
    which only the end has to wait is let through in two parts. Events of other kinds do not wait for ever: after five
    seconds, or a thousand events, they overtake it, and it follows at the time when it is known.
    """

    def __init__(self, scrubber: Scrubber, *, whole: frozenset[str] = frozenset()) -> None:
        """At most what the longest secret takes waits. Texts of a `whole` kind do not go on in the next of it."""
        self._scrubber = scrubber
        self._whole = whole
        self._queue: deque[_Waiting] = deque()
        self._kinds: dict[str, _Kind] = {}
        self._now_s = 0.0
        self._shown_s = 0.0

    def add(self, event: TextEvent) -> Iterator[TextEvent]:
        """What can be shown now that this has happened."""
        self._now_s = event.at_s
        content = event.text.encode("utf-8", "surrogatepass")
        waiting = _Waiting(event.at_s, event.code, len(content))
        self._queue.append(waiting)
        kind = self._kinds.setdefault(event.code, _Kind())
        kind.pending += content
        if content:
            kind.unsettled.append(waiting)
        self._settle(kind, is_last=event.code in self._whole)
        return self._let_through([kind])

    def rest(self) -> Iterator[TextEvent]:
        """Everything that waits: no more will come."""
        for kind in self._kinds.values():
            self._settle(kind, is_last=True)
        return self._let_through([*self._kinds.values()])

    def _settle(self, kind: _Kind, *, is_last: bool) -> None:
        """Scrub what is pending as far as what is to come can change nothing in it."""
        joined, at = kind.context + kind.pending, len(kind.context)
        spans = [span for span in self._scrubber.find(joined) if span.start >= at]
        border = len(joined) if is_last else len(joined) - self._scrubber.unsettled(joined)
        border = max(min([border, *(span.start for span in spans if span.start < border < span.end)]), at)
        kind.pending = joined[border:]
        kind.context = b"" if is_last else joined[max(border - CONTEXT_BYTES, 0) : border]
        while at < border:
            one = kind.unsettled[0]
            cut = min(at + one.left, border)
            one.clean += _shown(joined, spans, at, cut)
            one.left -= cut - at
            at = cut
            if not one.left:
                kind.unsettled.popleft()

    def _let_through(self, settled: Sequence[_Kind]) -> Iterator[TextEvent]:
        for kind in settled:
            while kind.overtaken and (yield from self._show(kind.overtaken[0])):
                kind.overtaken.popleft()
        while self._queue:
            first = self._queue[0]
            if not (yield from self._show(first)):
                if self._now_s - first.at_s <= LONGEST_WAIT_S and len(self._queue) <= MOST_BEHIND:
                    return
                self._kinds[first.code].overtaken.append(first)
            self._queue.popleft()

    def _show(self, one: _Waiting) -> Generator[TextEvent, None, bool]:
        """What is clean of it; returns whether that is all."""
        if one.clean or not one.left:
            self._shown_s = max(self._shown_s, one.at_s)
            yield TextEvent(self._shown_s, one.code, one.clean.decode("utf-8", "replace"))
            one.clean = b""
        return not one.left


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
