"""Instructions and keystroke lists: the small texts that several formats share."""

from __future__ import annotations

import re

from termarena.core.errors import TaskFormatError
from termarena.tasks.checking import Checker, shown
from termarena.tasks.documents import parse_yaml, read_text
from termarena.tasks.model import Keystrokes

__all__ = ["instruction_of", "keystrokes_of", "without_canary"]

# Data-provenance marks at the top of a file; Harbor hides them from the agent, and so do we.
_CANARY = re.compile(r"[ \t]*(?:<!--.*canary.*-->|#.*canary.*)[ \t\r]*(?:\n|\Z)", re.IGNORECASE)


def without_canary(text: str) -> str:
    """The text without the canary comment lines it begins with, and the blank lines after them."""
    if not _CANARY.match(text):
        return text
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start]):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return without_canary("\n".join(lines[start:]))


def instruction_of(file: str, *, boundary: str) -> str:
    """What the agent is asked, from a file of the task. Raises TaskFormatError if there is nothing in it."""
    text = read_text(file, boundary=boundary)
    text = without_canary(text)
    if not text.strip():
        raise TaskFormatError(file, found="an empty file", expected="what the agent is asked to do")
    return text


def keystrokes_of(file: str, *, boundary: str) -> tuple[Keystrokes, ...]:
    """A Terminal-Bench 1 `solution.yaml`: a list of commands to be typed."""
    entries = parse_yaml(read_text(file, boundary=boundary), file=file)
    if not isinstance(entries, list) or not entries:
        raise TaskFormatError(file, found=shown(entries), expected="a list of commands to type")
    check = Checker(file=file, name="solution.yaml")
    return tuple(check.check(Keystrokes, entry, prefix=str(number)) for number, entry in enumerate(entries))
