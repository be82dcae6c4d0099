"""Finding entered lines where neither marks nor bracketed paste tell: by the rhythm of somebody typing.

A key's echo is short and comes alone. Where the first one of a line appears, the prompt ends; the first newline after
it is the Enter key, unless it brings a list of completions and the same line again. A line that came as a whole, out of
the history, is known by its prompt.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from termarena.forge.reading.draft import Draft
from termarena.forge.reading.prompts import Prompts, ends_well, shape_of
from termarena.forge.reading.tape import SignKind
from termarena.forge.transcript import Tier

if TYPE_CHECKING:
    from termarena.forge.reading.page import Page, Pin, Place
    from termarena.forge.reading.tape import Sign, Tape

__all__ = ["KeystrokeWatcher"]

TYPED_CONFIDENCE: Final = 0.75
ECHO_BYTES: Final = 12
KEY_GAP_S: Final = 0.02
LEAST_KEYS: Final = 2
MOST_FULL: Final = 64
MOST_PROMPTS: Final = 32
"""A recording may hold any number of lines; what is looked for in each of them may not grow with it."""
_ENTER: Final = re.compile(rb"(?:\x1b\[[0-9;?]*[A-Za-z])*\r*\n")
_WIPE: Final = re.compile(rb"\r(?:\x1b\[[0-9;]*[A-Za-z]|\r| )*")
"""What a pager leaves of its own last line: no key."""
_ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


class KeystrokeWatcher:
    """Takes down every line that was typed key by key, with what was printed until the next."""

    def __init__(self, page: Page, tape: Tape) -> None:
        """Wants to be called at every border between events."""
        self.drafts: list[Draft] = []
        self.relisted: list[str] = []
        """Lines below which a list of completions was shown, and which went on after it."""
        self.full: list[str] = []
        """Lines that end at the edge of the screen: what follows there is not part of them."""
        self._page, self._tape = page, tape
        self._typed: Pin | None = None
        self._prompt: str | None = None
        self._keys = 0
        self._entered: Draft | None = None
        self._has_waited = False
        self._prompts: list[str] = []
        self._known = Prompts.learn(())
        self._output: Pin | None = None
        self._running: Draft | None = None
        self._typed_s = 0.0
        self._at = 0

    def at_sign(self, sign: Sign, at_s: float) -> None:
        """See `Watcher`."""
        self._at = sign.end
        if sign.kind is SignKind.ALTERNATE and self._running is not None:
            self._running.interactive = True
        elif sign.kind is SignKind.ERASE and self._running is not None and self._output is not None:
            # What it printed is about to be gone, as where a demonstration clears the screen before its next line.
            if not self._running.output:
                shown = self._page.text(self._output.place(), self._page.here()).partition("\n")[2]
                self._running.output = shown.rstrip("\n")
        elif sign.kind is SignKind.EVENT:
            self._at_border(sign.end, at_s)

    def at_end(self, at_s: float) -> None:
        """See `Watcher`."""
        self._finish(at_s, self._page.here().row)
        self._forget()

    def _at_border(self, start: int, at_s: float) -> None:
        """What comes next: a key's echo, the Enter key, or a program's words."""
        self._look_again()
        starts = self._tape.starts
        event = bisect_right(starts, start) - 1
        end = starts[event + 1] if event + 1 < len(starts) else len(self._tape.content)
        piece = self._tape.content[start:end]
        gap_s = self._tape.times_s[event] - at_s
        if b"\n" in piece:
            rest = _ESCAPES.sub(b"", piece.partition(b"\n")[0]).decode("utf-8", "replace").strip("\r")
            if self._typed is not None and self._keys >= LEAST_KEYS:
                self._enter(self._typed.place(), rest)
            else:
                self._enter_whole("" if _ENTER.match(piece) else rest.strip(), at_s)
            self._forget()
        elif len(piece) <= ECHO_BYTES and (gap_s >= KEY_GAP_S or self._is_first_key(piece)):
            if self._typed is not None or not _WIPE.fullmatch(piece):
                self._press(at_s + gap_s)
        elif b"\x1b[H" in piece:
            self._forget()

    def _is_first_key(self, piece: bytes) -> bool:
        """Where no prompt is shown, or something else was drawn just before, a line's first key comes at once."""
        return self._typed is None and len(piece) == 1 and piece.isalnum()

    def _press(self, at_s: float) -> None:
        if self._typed is None:
            self._typed = self._page.pin()
            self._typed_s = at_s
        self._keys += 1

    def _enter(self, typed: Place, rest: str) -> None:
        """`rest` is the end of the line that came together with the newline."""
        here = self._page.here()
        start = typed._replace(column=0)
        prompt = self._page.text(start, typed) if self._prompt is None else self._prompt
        is_full = not here.column and here.row > typed.row
        line = self._page.text(start, here, to_line_end=True) + ("" if is_full else rest)
        if is_full and len(self.full) < MOST_FULL:
            self.full.append(line)
        self._begin(line, prompt, typed.row)

    def _enter_whole(self, rest: str, at_s: float) -> None:
        """A line that came at once, out of the history or pasted, behind a prompt that is known."""
        here = self._page.here()
        shown = self._page.text(here._replace(column=0), here, to_line_end=True)
        prompt = self._known_prompt(shown)
        line = f"{shown} {rest}" if rest else shown
        if prompt is not None and bool(rest) != bool(shown[len(prompt) :].strip()):
            self._typed_s = at_s
            self._begin(line, prompt, here.row)

    def _known_prompt(self, line: str) -> str | None:
        return next((found[0] for pattern in self._known.patterns if (found := pattern.match(line))), None)

    def _begin(self, line: str, prompt: str, row: int) -> None:
        self._finish(self._typed_s, row)
        if not ends_well(prompt):  # a line out of the history that was changed: what is known of it is no prompt
            prompt = self._known_prompt(line) or prompt
        draft = Draft(line, Tier.PROMPT, TYPED_CONFIDENCE, began_s=self._typed_s)
        draft.prompt_length = len(prompt) if line.startswith(prompt) else None
        draft.began_at = self._at
        self._running = self._entered = draft
        self._has_waited = False
        self.drafts.append(draft)
        self._output = self._page.pin()
        is_new = len(self._prompts) < MOST_PROMPTS and shape_of(prompt) not in self._known.shapes
        if draft.prompt_length and is_new and ends_well(prompt):
            self._prompts.append(prompt)
            self._known = Prompts.learn(self._prompts)

    def _look_again(self) -> None:
        """The same line below what came with the newline: a list of completions, not the Enter key."""
        entered, self._entered = self._entered, None
        if entered is None or not entered.prompt or self._output is None:
            return
        here = self._page.here()
        shown = self._page.text(here._replace(column=0), here, to_line_end=True)
        if shown.rstrip() != entered.line.rstrip():
            # The line itself may come only after the list; more than one event away it is another, out of the history.
            self._entered = entered if not shown and not self._has_waited else None
            self._has_waited = self._entered is not None
            return
        self.relisted.append(self.drafts.pop().line)
        self._output.free()
        self._running, self._output = None, None
        self._typed, self._prompt, self._keys = self._page.pin(), entered.prompt, LEAST_KEYS

    def _finish(self, at_s: float, row: int) -> None:
        """The running command's output ends before the line on which the next one is typed."""
        if self._running is None or self._output is None:
            return
        start = self._output.place()
        end = self._page.here()._replace(row=row, column=0)
        shown = self._page.text(start, end)
        is_full = self._running.line in self.full
        self._running.output = self._running.output or (
            shown.removeprefix("\n") if is_full else shown.partition("\n")[2]
        )
        self._running.ended_s, self._running.ended_at = at_s, self._at
        self._output.free()
        self._running, self._output = None, None

    def _forget(self) -> None:
        if self._typed is not None:
            self._typed.free()
        self._typed, self._prompt, self._keys = None, None, 0
