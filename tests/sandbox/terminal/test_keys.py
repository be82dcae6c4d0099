"""Keys by name."""

from __future__ import annotations

import pytest

from termarena.core.errors import NotFound
from termarena.sandbox.terminal.keys import encode_key, encode_paste, encode_text

EXPECTED = {
    "a": b"a", "é": "é".encode(), "Enter": b"\r", "Tab": b"\t", "BTab": b"\x1b[Z", "S-Tab": b"\x1b[Z", "Space": b" ",
    "Escape": b"\x1b", "BSpace": b"\x7f", "C-c": b"\x03", "C-C": b"\x03", "C-@": b"\0", "C-Space": b"\0",
    "C-[": b"\x1b", "C-\\": b"\x1c", "C-_": b"\x1f", "C-?": b"\x7f", "M-x": b"\x1bx", "C-M-d": b"\x1b\x04",
    "S-a": b"A", "Up": b"\x1b[A", "C-Left": b"\x1b[1;5D", "S-M-End": b"\x1b[1;4F", "F1": b"\x1bOP",
    "C-F1": b"\x1b[1;5P", "F5": b"\x1b[15~", "PageUp": b"\x1b[5~", "PPage": b"\x1b[5~", "C-Delete": b"\x1b[3;5~",
    "-": b"-", "C--": None, "Enterr": None, "": None, "C-": None, "C-é": None, "~": b"~",
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_key(name: str, expected: bytes | None) -> None:
    if expected is not None:
        assert encode_key(name) == expected
        return
    with pytest.raises(NotFound):
        encode_key(name)


def test_application_mode() -> None:
    assert encode_key("Up", is_application=True) == b"\x1bOA"
    assert encode_key("C-Up", is_application=True) == b"\x1b[1;5A"


def test_typed_newlines_are_enter() -> None:
    assert encode_text("a\nb\r\nc") == b"a\rb\rc"


def test_a_paste_cannot_end_itself() -> None:
    pasted = encode_paste("one\n\x1b[201~rm -rf /\n\x9b201~\x03", is_bracketed=True)
    assert pasted == b"\x1b[200~one\r[201~rm -rf /\r201~\x1b[201~"
    assert encode_paste("a\tb\n", is_bracketed=False) == b"a\tb\r"
