"""Another wording of an instruction, held against the plain one: what is wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from termarena.forge.telling import LONGEST, leaks

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["wording_problem"]

_BLOCK: Final = re.compile(r"(?ms)^[ ]*(`{3,})\n.*?\n[ ]*\1$")
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w|\.\d)")
_TELLTALE: Final = re.compile(r"(?i)\b(recording|transcript|asciinema|solution script|solve\.sh|test_state)\b")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def wording_problem(text: str, plain: str, solution: str) -> str | None:
    """What is wrong with another wording of an instruction; None for nothing.

    Everything that a test can ask for stands in the plain one between fences, in quotes or as a number, and has to
    stand in the new one.
    """
    return next(_problems(text, plain, solution), None)


def _problems(text: str, plain: str, solution: str) -> Iterator[str]:
    if len(text) > LONGEST:
        yield f"it takes {len(text)} characters; at most {LONGEST}"
    if _CONTROL.search(text):
        yield "it holds control characters"
    if found := leaks(text, solution):
        yield f"it would give away a command of the solution: `{found}`"
    if told := _TELLTALE.search(text):
        yield f"it speaks of {told[0]}"
    blocks = [_bare(found[0]) for found in _BLOCK.finditer(plain)]
    if lost := [block for block in blocks if block not in _bare(text)]:
        yield f"it leaves out what a file must hold: {lost[0][:80]!r}"
    rest, new = _BLOCK.sub(" ", plain), _BLOCK.sub(" ", text)
    for pattern in (_QUOTED, _NUMBER):
        if missing := set(pattern.findall(rest)) - set(pattern.findall(new)):
            yield f"it leaves out {min(missing)!r}"
    if added := {name for name in _QUOTED.findall(new) if name.startswith("/")} - set(_QUOTED.findall(rest)):
        yield f"it speaks of {min(added)!r}, which the plain one does not"


def _bare(text: str) -> str:
    """Without the blanks that a list's indentation puts before lines."""
    return "\n".join(line.strip() for line in text.splitlines())
