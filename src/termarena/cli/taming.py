"""What a recording may do to the terminal that it is played on.

A recording holds whatever an agent's programs wrote. Text, colours, cursor movements and the modes of the picture are
played. Everything else is left out: what makes the terminal answer (and so type into the reader's shell), writes its
clipboard or title, prints, or turns its mouse and keyboard over to somebody.
"""

from __future__ import annotations

import re
from typing import Final, Literal

__all__ = ["RESET", "Tamer"]

LONGEST_SEQUENCE: Final = 256
# Where plain text ends: ESC, ENQ (which some terminals answer), and the C1 codes, which UTF-8 terminals may still obey.
_SPECIAL: Final = re.compile("[\x05\x1b\x80-\x9f]")
_CANCEL: Final = "\x18\x1a"
_STRINGS: Final = "]PX^_"
_C1: Final = {"\x9b": "[", "\x9d": "]", "\x90": "P", "\x98": "X", "\x9e": "^", "\x9f": "_"}
_CONTROL: Final = re.compile(r"([<-?]*)([0-9;:]*)([ -/]*)([@-~])")
_PLAIN_FINALS: Final = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmrsu")
# Columns, reverse video, origin, wrap, cursor, its blinking, reverse wrap, margins, other screens, synchronised output.
_PICTURE_MODES: Final = frozenset(map(str, (3, 5, 6, 7, 12, 25, 45, 47, 66, 69, 1047, 1048, 1049, 2026)))
_TEXT_MODES: Final = frozenset(map(str, (4, 20)))
_ESCAPES: Final = re.compile(r"[78=>DEHMNOc]|[()*+\-./][0-~]|#[3-8]|%[@G]")

# Soft reset; margins, wrap, charset, keypad; the ordinary screen; mouse and paste modes off; cursor shown; plain text.
RESET: Final = (
    b"\x1b[!p\x1b[r\x1b[?7h\x1b(B\x0f\x1b>\x1b[?2026l\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"
    b"\x1b[?2004l\x1b[?1l\x1b[?5l\x1b[?25h\x1b[0m"
)


class Tamer:
    """Lets the harmless part of a stream of output through; a sequence may be split between calls."""

    def __init__(self) -> None:
        """At the beginning of a stream."""
        self._inside: Literal["text", "escape", "control", "string"] = "text"
        self._held = ""

    def pass_on(self, text: str) -> str:
        """What of this, and of what was held back before, can be shown now."""
        shown: list[str] = []
        at = 0
        while at < len(text):
            if self._inside == "text":
                special = _SPECIAL.search(text, at)
                end = special.start() if special else len(text)
                shown.append(text[at:end])
                at = end
            if at < len(text):
                shown.append(self._take(text[at]))
                at += 1
        return "".join(shown)

    def _take(self, char: str) -> str:
        """One character that begins, continues or ends a sequence."""
        if char == "\x1b":
            return self._begin("escape")
        if char in _C1:
            self._begin("escape")
            return self._in_escape(_C1[char])
        if char in _CANCEL or (self._inside == "string" and char in "\x07\x9c"):
            return self._begin("text")
        if self._inside in ("text", "string"):
            return ""
        if char < " ":
            return char if char != "\x05" else ""
        return self._in_escape(char) if self._inside == "escape" else self._in_control(char)

    def _begin(self, inside: Literal["text", "escape", "control", "string"]) -> str:
        self._inside, self._held = inside, ""
        return ""

    def _in_escape(self, char: str) -> str:
        if not self._held and char == "[":
            return self._begin("control")
        if not self._held and char in _STRINGS:
            return self._begin("string")
        self._held += char
        if " " <= char <= "/":
            return ""
        return self._end("\x1b" + self._held if _ESCAPES.fullmatch(self._held) else "")

    def _in_control(self, char: str) -> str:
        self._held = (self._held + char)[: LONGEST_SEQUENCE + 1]
        if " " <= char <= "?":
            return ""
        is_harmless = len(self._held) <= LONGEST_SEQUENCE and _is_harmless(self._held)
        return self._end(f"\x1b[{self._held}" if is_harmless else "")

    def _end(self, shown: str) -> str:
        self._begin("text")
        return shown


def _is_harmless(control: str) -> bool:
    """Whether a control sequence, without its introducer, only draws."""
    parts = _CONTROL.fullmatch(control)
    if parts is None:
        return False
    prefix, numbers, between, final = parts.groups()
    if final in "hl":
        known = {"": _TEXT_MODES, "?": _PICTURE_MODES}.get(prefix, frozenset())
        return not between and known.issuperset(numbers.split(";"))
    if between:
        return not prefix and (between, final) in {(" ", "q"), ("!", "p")}
    return final in "JK" if prefix == "?" else not prefix and final in _PLAIN_FINALS
