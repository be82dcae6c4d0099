"""Finding the lines that were entered while a tape is played: by the shell's marks, and by bracketed paste."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from termarena.forge.reading.draft import Draft
from termarena.forge.reading.tape import SignKind
from termarena.forge.transcript import Tier

if TYPE_CHECKING:
    from termarena.forge.reading.page import Page, Pin, Place
    from termarena.forge.reading.tape import Sign

__all__ = ["LineWatcher"]

MARK_CONFIDENCE: Final = 0.95
TOLD_CONFIDENCE: Final = 1.0
GAP_CONFIDENCE: Final = 0.85
NO_GAP_CONFIDENCE: Final = 0.6
_RIGHT_PROMPT: Final = re.compile(r" {8,}\S.*$")


class LineWatcher:
    """Takes down every entered line with what was printed until the next.

    With `marks` the shell's own marks decide; bracketed paste then only counts inside of a running command, where
    another shell or an interpreter reads lines of its own.
    """

    def __init__(self, page: Page, *, marks: bool) -> None:
        """Watches nothing yet."""
        self.drafts: list[Draft] = []
        self._page = page
        self._uses_marks = marks
        self._cwd: str | None = None
        self._told: str | None = None
        self._pins: dict[str, Pin] = {}
        self._running: Draft | None = None
        self._outer: Draft | None = None
        self._shown_s = 0.0
        self._at = 0
        self._has_prompt = False
        self._is_redrawn = False
        self._is_cleared = False
        if not marks:
            self._put("line")

    def at_sign(self, sign: Sign, at_s: float) -> None:
        """See `Watcher`."""
        self._at = sign.end
        if sign.kind is SignKind.MARK and self._uses_marks:
            self._at_mark(sign.value, at_s)
        elif sign.kind is SignKind.PLACE:
            self._cwd = _path(sign.value) or self._cwd
        elif sign.kind is SignKind.ALTERNATE:
            for draft in (self._running, self._outer):
                if draft is not None:
                    draft.interactive = True
        elif not self._uses_marks or self._outer is not None:
            self._at_edit(sign.kind, at_s)

    def at_end(self, at_s: float) -> None:
        """See `Watcher`."""
        self._finish(at_s)
        self._finish_outer(at_s)
        for pin in self._pins.values():
            pin.free()

    # The shell's marks: A prompt, B its end, C the output begins, D it has ended.

    def _at_mark(self, value: str, at_s: float) -> None:
        letter, _, rest = value.partition(";")
        if letter in ("A", "D"):
            status = rest.partition(";")[0]
            self._finish_outer(at_s, int(status) if letter == "D" and re.fullmatch(r"-?\d{1,4}", status) else None)
        if letter == "A":
            self._put("prompt")
        elif letter == "B":
            self._put("typed")
            self._shown_s = at_s
        elif letter == "E":
            self._told = _unescaped(rest.partition(";")[0])
        elif letter == "C" and "typed" in self._pins:
            self._begin_marked(_told_in(rest) or self._told)

    def _begin_marked(self, told: str | None) -> None:
        typed = self._pins["typed"].place()
        prompt = self._page.text(self._pins["prompt"].place(), typed) if "prompt" in self._pins else ""
        shown = self._page.text(typed, self._page.here(), to_line_end=True)
        text = told if told is not None else _without_right_prompt(shown)
        confidence = TOLD_CONFIDENCE if told is not None else MARK_CONFIDENCE
        draft = Draft(prompt + text, Tier.MARKS, confidence, len(prompt), began_s=self._shown_s, cwd=self._cwd)
        self._told = None
        self._take("typed")
        draft.began_at = self._at
        self._outer = draft
        self.drafts.append(draft)
        self._put("outer output")

    def _finish_outer(self, at_s: float, status: int | None = None) -> None:
        self._finish(at_s)
        if self._outer is None:
            return
        self._outer.output = self._page.text(self._take("outer output"), self._page.here())
        self._outer.exit_status, self._outer.ended_s, self._outer.ended_at = status, at_s, self._at
        self._outer = None

    # Bracketed paste: on while a line is edited. Prompts come in one burst, what is typed comes later.

    def _at_edit(self, kind: SignKind, at_s: float) -> None:
        if kind is SignKind.PROMPT:
            self._at_zsh_prompt(at_s)
        elif kind is SignKind.EDIT:
            self._finish(at_s)
            if not self._has_prompt:
                self._put("line")
            self._has_prompt = False
            self._put("edit")
            self._drop("gap")
            self._is_cleared = False
            self._shown_s = at_s
        elif kind is SignKind.ERASE and "edit" in self._pins:
            # The screen is cleared while a line is edited (Ctrl-L): the prompt is drawn again at its top.
            self._is_cleared = True
            self._drop("gap")
        elif kind is SignKind.QUIET and "edit" in self._pins and "gap" not in self._pins:
            if self._page.here().column:  # else the prompt is still being made, as by fish with a slow one
                self._put("gap")
        elif kind is SignKind.ENTER and "line" in self._pins:
            self._begin_edited()

    def _at_zsh_prompt(self, at_s: float) -> None:
        """A new prompt, or, on the line that was just entered, the same one drawn again in a shorter form."""
        if self._running is not None and self._page.here().row <= self._pins["output"].place().row:
            self._is_redrawn = True
            return
        self._finish(at_s)
        if "edit" not in self._pins:
            self._put("line")
            self._has_prompt = True

    def _begin_edited(self) -> None:
        start = self._take("line")
        edit = self._take("edit") if "edit" in self._pins else None
        gap = self._take("gap") if "gap" in self._pins else None
        here = self._page.here()
        if self._is_cleared:
            start = edit = here._replace(row=self._page.top_row(), column=0)
        if edit is not None and start.row == edit.row:
            start = start._replace(column=0)
        is_seen = edit is not None and gap is not None and start <= gap and gap.row <= here.row
        line = self._page.text(start, here, to_line_end=True)
        prompt = self._page.text(start, gap) if gap is not None and is_seen else ""
        line = prompt + _without_right_prompt(line.removeprefix(prompt))
        draft = Draft(line, Tier.PASTE, GAP_CONFIDENCE if is_seen else NO_GAP_CONFIDENCE)
        draft.prompt_length = len(prompt) if is_seen else None
        draft.began_s, draft.cwd = self._shown_s, self._cwd
        draft.began_at = self._at
        self._running, self._is_redrawn = draft, False
        self.drafts.append(draft)
        self._put("output")

    def _finish(self, at_s: float) -> None:
        """The running command's output ends here."""
        if self._running is None:
            return
        start = self._take("output")
        output = self._page.text(start, self._page.here())
        if self._is_redrawn:
            output = "\n".join(output.split("\n")[self._running.text.count("\n") + 1 :])
        elif start.column:  # the rest of the entered line: a prompt on its right
            output = output.partition("\n")[2]
        self._running.output = output
        self._running.ended_s, self._running.ended_at = at_s, self._at
        self._running = None

    def _drop(self, name: str) -> None:
        if (old := self._pins.pop(name, None)) is not None:
            old.free()

    def _put(self, name: str) -> None:
        self._drop(name)
        self._pins[name] = self._page.pin()

    def _take(self, name: str) -> Place:
        pin = self._pins.pop(name)
        place = pin.place()
        pin.free()
        return place


def _without_right_prompt(line: str) -> str:
    """Text far to the right of the first line is a second prompt, not typed."""
    first, newline, rest = line.partition("\n")
    return _RIGHT_PROMPT.sub("", first) + newline + rest


def _told_in(parameters: str) -> str | None:
    """The command's text where the mark itself tells it, as kitty, fish and our own recorder write it."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name == "cmdline_url":
            return unquote(value, errors="replace")
    return None


def _unescaped(value: str) -> str:
    r"""The text of a 633;E mark: `\\xHH` and doubled backslashes."""
    return re.sub(r"\\(\\|x([0-9a-fA-F]{2}))", lambda found: chr(int(found[2], 16)) if found[2] else "\\", value)


def _path(value: str) -> str | None:
    """A directory out of a `file:` address or as it is; None for anything else."""
    if value.startswith("file:"):
        value = unquote(urlsplit(value).path, errors="replace")
    return value if value.startswith("/") else None
