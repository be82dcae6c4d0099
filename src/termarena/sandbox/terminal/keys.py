"""Keys by name, as the bytes an xterm sends.

A name is a character (`a`, `é`), a word (`Enter`, `Up`, `F5`, `PageUp`; tmux's short forms too), or one of these behind
`C-` (control), `M-` (alt), `S-` (shift) in any order: `C-c`, `M-x`, `C-Left`, `C-M-d`.
"""

from __future__ import annotations

import re
from typing import Final

from termarena.core.errors import NotFound

__all__ = ["KEY_NAMES", "encode_key", "encode_paste", "encode_text"]

_PLAIN: Final = {
    "Enter": "\r", "Tab": "\t", "Escape": "\x1b", "Esc": "\x1b", "Space": " ", "BSpace": "\x7f", "Backspace": "\x7f",
    "BTab": "\x1b[Z",
}  # fmt: skip
_CURSOR: Final = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
_TILDE: Final = {
    "Insert": 2, "IC": 2, "Delete": 3, "DC": 3, "PageUp": 5, "PgUp": 5, "PPage": 5, "PageDown": 6, "PgDn": 6,
    "NPage": 6, "F5": 15, "F6": 17, "F7": 18, "F8": 19, "F9": 20, "F10": 21, "F11": 23, "F12": 24,
}  # fmt: skip
_FUNCTION: Final = {"F1": "P", "F2": "Q", "F3": "R", "F4": "S"}
KEY_NAMES: Final = (*_PLAIN, *_CURSOR, *_TILDE, *_FUNCTION)
_MODIFIER_BITS: Final = {"S": 1, "M": 2, "C": 4}
_SHIFT, _ALT, _CONTROL = 1, 2, 4
_NAME: Final = re.compile(r"((?:[CMS]-)*)(.+)", re.DOTALL)
_PASTE_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def encode_key(name: str, *, is_application: bool = False) -> bytes:
    """The bytes of one key; `is_application` is the mode of the cursor keys (DECCKM).

    Raises `NotFound` for a name that is no key.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise NotFound("an empty key name", known=KEY_NAMES)
    modifiers = 0
    for letter in found[1].replace("-", ""):
        modifiers |= _MODIFIER_BITS[letter]
    key = found[2]
    if key in _CURSOR:
        return _with_final(_CURSOR[key], modifiers, prefix="\x1bO" if is_application else "\x1b[")
    if key in _FUNCTION:
        return _with_final(_FUNCTION[key], modifiers, prefix="\x1bO")
    if key in _TILDE:
        shown = f";{modifiers + 1}" if modifiers else ""
        return f"\x1b[{_TILDE[key]}{shown}~".encode()
    if key in _PLAIN or len(key) == 1:
        return _character(name, _PLAIN.get(key, key), modifiers)
    raise NotFound(f"no key is called {name!r}", known=KEY_NAMES, hint="type_text() takes any text")


def _with_final(final: str, modifiers: int, *, prefix: str) -> bytes:
    return (f"\x1b[1;{modifiers + 1}{final}" if modifiers else f"{prefix}{final}").encode()


def _character(name: str, character: str, modifiers: int) -> bytes:
    if modifiers & _SHIFT:
        character = "\x1b[Z" if character == "\t" else character.upper()
    if modifiers & _CONTROL:
        character = _controlled(name, character)
    return (("\x1b" if modifiers & _ALT else "") + character).encode("utf-8", "surrogateescape")


def _controlled(name: str, character: str) -> str:
    upper = character.upper()
    if character in ("\r", "\t", "\x1b"):
        return character
    if upper in (" ", "@", "2"):
        return "\0"
    if character in ("?", "8"):
        return "\x7f"
    if character == "\x7f":
        return "\x08"
    if len(upper) == 1 and "A" <= upper <= "_":
        return chr(ord(upper) & 0x1F)
    raise NotFound(f"no key is called {name!r}: control goes with a letter or one of @ [ \\ ] ^ _ ?")


def encode_text(text: str) -> bytes:
    """Text as it is typed: a newline is the Enter key."""
    return text.replace("\r\n", "\r").replace("\n", "\r").encode("utf-8", "surrogateescape")


def encode_paste(text: str, *, is_bracketed: bool) -> bytes:
    """Text as a terminal pastes it. Controls but tab and newline are left out: with them, text could end the paste."""
    clean = encode_text(_PASTE_CONTROLS.sub("", text))
    return b"\x1b[200~" + clean + b"\x1b[201~" if is_bracketed else clean
