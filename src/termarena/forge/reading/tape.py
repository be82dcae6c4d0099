"""A recording's output as one piece, with the signs on it that tell a reader where things begin and end.

A sign may be cut in two by the borders of events, so all output is joined before it is searched. What was drawn on the
alternate screen is left out: it replaces nothing on the primary one, and it is the bulk of what full-screen programs
write.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.sandbox.terminal import CastEvent

__all__ = ["Sign", "SignKind", "Tape", "tape_of"]

LONGEST_MARK: Final = 1 << 16
ALTERNATE: Final = {"47", "1047", "1049"}
BRACKETED_PASTE: Final = "2004"
_SIGNS: Final = re.compile(
    rb"\x1b\](133|633|7|1337);([^\x07\x1b]{0,%d})(?:\x07|\x1b\\)" % LONGEST_MARK
    + rb"|\x1b\[\?([0-9;]{1,64})([hl])"
    + rb"|\x1b\[([23])J|\x1bc|\x1b\[(?:1;1)?H\x1b\[0?J"
    # zsh prepares the line on which it shows its prompt.
    + rb"|\r\x1b\[0m\x1b\[27m\x1b\[24m\x1b\[J"
)
# zsh shows by this mark that the output before its prompt had no newline; a blank of the same length does no harm.
_UNFINISHED_LINE: Final = re.compile(rb"(\x1b\[7m)[%#](\x1b\[27m(?:\x1b\[1m)?\x1b\[0m {20})")
# screen's own way to name a window, which shells use before their prompts; others would show it as text.
_WINDOW_NAME: Final = re.compile(rb"\x1bk([^\x00-\x1f]{0,512}\x1b\\)")
# A line that ends at the edge of the screen is entered so by readline, which leaves it joined to what is printed next.
AT_THE_EDGE: Final = b" \r\x1b[A\r\n"
_MOVE: Final = re.compile(rb"\x1b\[(\d{1,4});\d{1,4}[Hf]")
LEAST_MOVES, LEAST_ROWS = 12, 6
"""A progress bar goes to one row again and again; a program that draws the screen goes to many."""
LEAST_PIECES: Final = 4
LEAST_LINES: Final = 4
LONGEST_FAREWELL: Final = 80
"""`[screen is terminating]`"""
_ALTERNATE_ON: Final = re.compile(rb"\x1b\[\?(?:1049|1047|47)[hl]")
_ESCAPE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_SIZE: Final = re.compile(r"(\d{1,4})x(\d{1,4})")


class SignKind(Enum):
    """What stands at a point of the tape."""

    MARK = "mark"  # OSC 133 or 633; the value is what follows the number
    PLACE = "place"  # a working directory: OSC 7, 633;P;Cwd, 1337;CurrentDir
    EDIT = "edit"  # bracketed paste on: a line is being edited
    ENTER = "enter"  # bracketed paste off: the line was entered
    ALTERNATE = "alternate"  # a full-screen program took the screen here, and gave it back
    ERASE = "erase"  # what is on the screen is about to be erased
    PROMPT = "prompt"  # zsh is about to show its prompt
    RESIZE = "resize"
    QUIET = "quiet"  # nothing was written for a while
    EVENT = "event"  # the border between two events


class Sign(NamedTuple):
    """A sign between `start` and `end` of the tape; it is acted on when the tape has been played to `end`."""

    start: int
    end: int
    kind: SignKind
    value: str = ""


@dataclass(frozen=True, slots=True)
class Tape:
    """All output of a recording; `starts` and `times_s` say where each event begins, and when."""

    content: bytes
    starts: Sequence[int]
    times_s: Sequence[float]
    signs: Sequence[Sign]
    has_alternate: bool
    is_inside: bool = False
    """The whole session is on the alternate screen, line by line, as in a window of `screen`: it is played as it is."""

    def time_s(self, offset: int) -> float:
        """When what stands at `offset` was written."""
        at = bisect_right(self.starts, offset) - 1
        return self.times_s[at] if 0 <= at < len(self.times_s) else 0.0

    def has_marks(self, *names: str) -> bool:
        """Whether the shell marked its lines with each of these letters."""
        found = {sign.value[:1] for sign in self.signs if sign.kind is SignKind.MARK}
        return set(names) <= found

    @property
    def has_edits(self) -> bool:
        """Whether a line editor switched bracketed paste on and off."""
        kinds = {sign.kind for sign in self.signs}
        return SignKind.EDIT in kinds and SignKind.ENTER in kinds

    def is_drawn(self, start: int, end: int) -> bool:
        """Whether a program drew the whole screen there, without asking for the alternate one."""
        rows = [found[1] for found in _MOVE.finditer(self.content, start, end)]
        return len(rows) >= LEAST_MOVES and len(set(rows)) >= LEAST_ROWS

    def slow_lines(self, start: int, end: int) -> int:
        """How many lines there came piece by piece, as they do where somebody types."""
        slow, pieces, before = 0, 0, start
        for at in (*self.starts[bisect_right(self.starts, start) : bisect_right(self.starts, end)], end):
            if self.content.find(b"\n", before, at) >= 0:
                slow += pieces >= LEAST_PIECES
                pieces = 0
            pieces, before = pieces + 1, at
        return slow

    def quiets(self, longer_s: float) -> Iterator[Sign]:
        """The points before which nothing was written for longer than this."""
        for (_, before_s), (start, at_s) in pairwise(zip(self.starts, self.times_s, strict=True)):
            if at_s - before_s > longer_s:
                yield Sign(start, start, SignKind.QUIET)

    def borders(self) -> Iterator[Sign]:
        """Every point between two events."""
        return (Sign(start, start, SignKind.EVENT) for start in self.starts)


def tape_of(events: Sequence[CastEvent]) -> Tape:
    """Join the output of a recording."""
    pieces, starts, times_s, resizes = [], [], [], []
    size = 0
    for event in events:
        if event.code == "o":
            piece = event.text.encode("utf-8", "replace")
            pieces.append(piece)
            starts.append(size)
            times_s.append(event.at_s)
            size += len(piece)
        elif event.code == "r" and (found := _SIZE.fullmatch(event.text)):
            resizes.append(Sign(size, size, SignKind.RESIZE, found[0]))
    content = b"".join(pieces).replace(AT_THE_EDGE, b"\x1b[00m\r\n")
    content = _WINDOW_NAME.sub(b"\x1b]\\1", _UNFINISHED_LINE.sub(rb"\1 \2", content))
    every = [sign for found in _SIGNS.finditer(content) for sign in _signs(found)]
    signs, has_alternate = _without_alternate(every, len(content))
    is_inside = _is_inside(content, signs)
    if is_inside:
        content = _ALTERNATE_ON.sub(lambda on: on[0].replace(b"10", b"99").replace(b"?47", b"?99"), content)
        signs = [sign for sign in every if sign.kind is not SignKind.ALTERNATE]
    ordered = sorted([*signs, *resizes], key=lambda sign: sign.end)
    return Tape(content, starts, times_s, ordered, has_alternate, is_inside)


def _is_inside(content: bytes, signs: Sequence[Sign]) -> bool:
    """Whether nothing is shown before or after one stay on the alternate screen, and lines are printed there, not
    drawn."""
    stays = [sign for sign in signs if sign.kind is SignKind.ALTERNATE]
    if len(stays) != 1:
        return False
    (stay,) = stays
    outside = _ESCAPE.sub(b"", content[: stay.start] + content[stay.end :])
    rows = {found[1] for found in _MOVE.finditer(content, stay.start, stay.end)}
    lines = content.count(b"\r\n", stay.start, stay.end)
    return len(rows) < LEAST_ROWS and lines >= LEAST_LINES and len(outside.strip()) <= LONGEST_FAREWELL


def _signs(found: re.Match[bytes]) -> Iterator[Sign]:
    start, end = found.span()
    if found[1]:
        value = found[2].decode("utf-8", "replace")
        yield from (Sign(start, end, *read) for read in [_mark(found[1], value)] if read)
    elif found[3]:
        for mode in found[3].decode().split(";"):
            if mode == BRACKETED_PASTE:
                yield Sign(start, end, SignKind.EDIT if found[4] == b"h" else SignKind.ENTER)
            elif mode in ALTERNATE:
                yield Sign(start, end, SignKind.ALTERNATE, found[4].decode())
    elif found[0].startswith(b"\r"):
        yield Sign(start, start + 1, SignKind.PROMPT)
    else:  # acted on before it is played
        yield Sign(start, start, SignKind.ERASE, "c" if found[0] == b"\x1bc" else (found[5] or b"2").decode())


def _mark(number: bytes, value: str) -> tuple[SignKind, str] | None:
    if number == b"7":
        return SignKind.PLACE, value
    if number == b"1337":
        name, _, path = value.partition("=")
        return (SignKind.PLACE, path) if name == "CurrentDir" else None
    if number == b"633" and value.startswith("P;"):
        return (SignKind.PLACE, value[6:]) if value.startswith("P;Cwd=") else None
    return SignKind.MARK, value


def _without_alternate(signs: Sequence[Sign], size: int) -> tuple[list[Sign], bool]:
    """One sign for each stay on the alternate screen, and none of what happened there."""
    kept: list[Sign] = []
    entered: Sign | None = None
    has_alternate = False
    for sign in signs:
        if entered is None:
            if sign.kind is not SignKind.ALTERNATE:
                kept.append(sign)
            elif sign.value == "h":
                entered, has_alternate = sign, True
        elif (sign.kind, sign.value) in ((SignKind.ALTERNATE, "l"), (SignKind.ERASE, "c")):
            kept.append(Sign(entered.start, sign.end, SignKind.ALTERNATE))
            entered = None
    if entered is not None:
        kept.append(Sign(entered.start, size, SignKind.ALTERNATE))
    return kept, has_alternate
