"""Playing a tape once, with somebody watching at its signs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from termarena.forge.reading.tape import SignKind
from termarena.sandbox.terminal.contract import LARGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.forge.reading.page import Page
    from termarena.forge.reading.tape import Sign, Tape

__all__ = ["Watcher", "play"]

_RIGHT_OF_CURSOR: Final = (SignKind.QUIET, SignKind.EVENT)


class Watcher(Protocol):
    """Who reads from the page at each sign."""

    def at_sign(self, sign: Sign, at_s: float) -> None:
        """The tape has been played up to the sign's end."""

    def at_end(self, at_s: float) -> None:
        """The tape has been played."""


def play(tape: Tape, page: Page, watcher: Watcher, more: Iterable[Sign] = ()) -> str:
    """Play the tape with its own signs and `more`; everything that stood on the page, erased or not."""
    signs = sorted([*tape.signs, *more], key=lambda sign: (sign.end, sign.kind in _RIGHT_OF_CURSOR))
    erased: list[str] = []
    at = 0
    for sign in signs:
        if sign.end < at:
            continue
        until = sign.start if sign.kind is SignKind.ALTERNATE else sign.end
        if until > at:
            page.feed(tape.content[at:until])
        at = max(at, sign.end)
        if sign.kind is SignKind.ERASE and (text := page.everything()):
            erased.append(text)
        elif sign.kind is SignKind.RESIZE:
            _resize(page, sign.value)
        watcher.at_sign(sign, tape.time_s(max(sign.end - 1, 0)))
    page.feed(tape.content[at:])
    watcher.at_end(tape.times_s[-1] if tape.times_s else 0.0)
    return "\n".join([*erased, page.everything()])


def _resize(page: Page, size: str) -> None:
    cols, rows = (int(side) for side in re.findall(r"\d+", size))
    if 1 <= cols <= LARGEST_SIDE and 1 <= rows <= LARGEST_SIDE:
        page.resize(cols, rows)
