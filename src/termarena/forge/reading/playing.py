"""Playing a tape once, with somebody watching at its signs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from termarena.forge.reading.page import Place
from termarena.forge.reading.tape import SignKind
from termarena.sandbox.sides import LARGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.forge.reading.page import Page
    from termarena.forge.reading.tape import Sign, Tape

__all__ = ["Watcher", "play"]

LOG_CHARACTERS: Final = 8 << 20
"""Programs that redraw the screen all the time fill no memory."""
_RIGHT_OF_CURSOR: Final = (SignKind.QUIET, SignKind.EVENT)


class Watcher(Protocol):
    """Who reads from the page at each sign."""

    def at_sign(self, sign: Sign, at_s: float) -> None:
        """The tape has been played up to the sign's end."""

    def at_end(self, at_s: float) -> None:
        """The tape has been played."""


def play(tape: Tape, page: Page, watcher: Watcher, more: Iterable[Sign] = ()) -> str:
    """Play the tape with its own signs and `more`; everything that stood on the page, erased or not."""
    signs = sorted([*tape.signs, *more], key=_order)
    log = _Log(page)
    at = 0
    for sign in signs:
        if sign.end < at:
            continue
        until = sign.start if sign.kind is SignKind.ALTERNATE else sign.end
        if until > at:
            page.feed(tape.content[at:until])
        at = max(at, sign.end)
        if sign.kind is SignKind.ERASE:
            log.keep(sign.value)
        elif sign.kind is SignKind.RESIZE:
            _resize(page, sign.value)
        watcher.at_sign(sign, tape.time_s(max(sign.end - 1, 0)))
    page.feed(tape.content[at:])
    watcher.at_end(tape.times_s[-1] if tape.times_s else 0.0)
    return log.text()


class _Log:
    """Everything that stood on a page, in order, each line once, whatever was erased since."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._kept: list[str] = []
        self._size = 0
        self._from_row = 0

    def keep(self, what: str) -> None:
        """The screen is about to be erased (2), or the lines above it (3), or both (c)."""
        text = self._rest()
        if text and text not in self._kept[-1:] and self._size < LOG_CHARACTERS:
            self._kept.append(text)
            self._size += len(text)
        self._from_row = self._page.top_row() if what == "2" else 0

    def _rest(self) -> str:
        top = min(self._from_row, self._page.top_row())
        return self._page.text(Place(top, 0), Place(self._page.last_row(), 0), to_line_end=True).rstrip("\n")

    def text(self) -> str:
        """All of it."""
        return "\n".join([*self._kept, self._rest()])


def _order(sign: Sign) -> tuple[int, bool]:
    """A stay on the alternate screen comes before all that happened there, the rest when it has been played."""
    at = sign.start if sign.kind is SignKind.ALTERNATE else sign.end
    return at, sign.kind in _RIGHT_OF_CURSOR


def _resize(page: Page, size: str) -> None:
    cols, rows = (int(side) for side in re.findall(r"\d+", size))
    if 1 <= cols <= LARGEST_SIDE and 1 <= rows <= LARGEST_SIDE:
        page.resize(cols, rows)
