"""Finding entered lines where neither marks nor bracketed paste tell: by the rhythm of somebody typing.

A key's echo is short and comes alone. Where the first one of a line appears, the prompt ends; the first newline after
it is the Enter key.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from termarena.forge.reading.draft import Draft
from termarena.forge.reading.tape import SignKind
from termarena.forge.transcript import Tier

if TYPE_CHECKING:
    from termarena.forge.reading.page import Page, Pin
    from termarena.forge.reading.tape import Sign, Tape

__all__ = ["KeystrokeWatcher"]

TYPED_CONFIDENCE: Final = 0.75
ECHO_BYTES: Final = 12
KEY_GAP_S: Final = 0.02
LEAST_KEYS: Final = 2
_ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|.)")


class KeystrokeWatcher:
    """Takes down every line that was typed key by key, with what was printed until the next."""

    def __init__(self, page: Page, tape: Tape) -> None:
        """Wants to be called at every border between events."""
        self.drafts: list[Draft] = []
        self._page, self._tape = page, tape
        self._typed: Pin | None = None
        self._keys = 0
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
        starts = self._tape.starts
        event = bisect_right(starts, start) - 1
        end = starts[event + 1] if event + 1 < len(starts) else len(self._tape.content)
        piece = self._tape.content[start:end]
        gap_s = self._tape.times_s[event] - at_s
        if b"\n" in piece:
            if self._typed is not None and self._keys >= LEAST_KEYS:
                self._enter(_ESCAPES.sub(b"", piece.partition(b"\n")[0]).decode("utf-8", "replace").strip("\r"))
            self._forget()
        elif len(piece) <= ECHO_BYTES and gap_s >= KEY_GAP_S:
            self._press(at_s + gap_s)
        elif b"\x1b[H" in piece:
            self._forget()

    def _press(self, at_s: float) -> None:
        if self._typed is None:
            self._typed = self._page.pin()
            self._typed_s = at_s
        self._keys += 1

    def _enter(self, rest: str) -> None:
        """`rest` is the end of the line that came together with the newline."""
        assert self._typed is not None  # noqa: S101 - asked by the caller
        typed, here = self._typed.place(), self._page.here()
        start = typed._replace(column=0)
        self._finish(self._typed_s, typed.row)
        line = self._page.text(start, here, to_line_end=True) + rest
        prompt = self._page.text(start, typed)
        draft = Draft(line, Tier.PROMPT, TYPED_CONFIDENCE, began_s=self._typed_s)
        draft.prompt_length = len(prompt) if line.startswith(prompt) else None
        draft.began_at = self._at
        self._running = draft
        self.drafts.append(draft)
        self._output = self._page.pin()

    def _finish(self, at_s: float, row: int) -> None:
        """The running command's output ends before the line on which the next one is typed."""
        if self._running is None or self._output is None:
            return
        start = self._output.place()
        end = self._page.here()._replace(row=row, column=0)
        self._running.output = self._running.output or self._page.text(start, end).partition("\n")[2]
        self._running.ended_s, self._running.ended_at = at_s, self._at
        self._output.free()
        self._running, self._output = None, None

    def _forget(self) -> None:
        if self._typed is not None:
            self._typed.free()
        self._typed, self._keys = None, 0
