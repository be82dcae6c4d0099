"""Instructions and keystroke lists: the small texts that several formats share."""

from __future__ import annotations

from termarena.core.errors import TaskFormatError
from termarena.tasks.checking import Checker, shown
from termarena.tasks.documents import read_text
from termarena.tasks.model import Keystrokes

__all__ = ["asked", "instruction_of", "keystrokes_of", "without_canary"]

_MARK = "\ufeff"
_EXPECTED = "what the agent is asked to do"


def without_canary(text: str) -> str:
    """The text without the canary comment lines it begins with, the blank lines after them, and byte order marks.

    Canaries are data-provenance marks at the top of a file; Harbor hides them from the agent, and so do we. What is
    returned begins with none, so that a task written and loaded again reads the same.
    """
    if not _is_canary(text.partition("\n")[0]):
        return text.lstrip(_MARK)
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _is_canary(lines[start]):
        start += 1
        while start < len(lines) and not lines[start].strip():
            start += 1
    return "\n".join(lines[start:]).lstrip(_MARK)


def _is_canary(line: str) -> bool:
    bare = line.lstrip(_MARK).strip(" \t\r")
    is_comment = bare.startswith("#") or (bare.startswith("<!--") and bare.endswith("-->"))
    return is_comment and "canary" in bare.lower()


def asked(text: str | None, *, file: str, field: str | None = None) -> str:
    """What the agent is asked, without canaries. Raises TaskFormatError if nothing is left to be asked."""
    instruction = without_canary(text or "")
    if not instruction.strip():
        found = "only canary lines" if text and text.strip() else shown(text)
        raise TaskFormatError(file, field=field, found=found, expected=_EXPECTED)
    return instruction


def instruction_of(file: str, *, boundary: str) -> str:
    """What the agent is asked, from a file of the task. Raises TaskFormatError if there is nothing in it."""
    text = read_text(file, boundary=boundary)
    if not text.strip():
        raise TaskFormatError(file, found="an empty file", expected=_EXPECTED)
    return asked(text, file=file)


def keystrokes_of(file: str, *, boundary: str, check: Checker | None = None) -> tuple[Keystrokes, ...]:
    """A Terminal-Bench 1 `solution.yaml`: a list of commands to be typed.

    Findings go to `check`; unknown fields need no other place, since the file itself is kept.
    """
    from termarena.tasks.yaml_documents import parse_yaml  # noqa: PLC0415 - most solutions are scripts

    entries = parse_yaml(read_text(file, boundary=boundary), file=file)
    if not isinstance(entries, list) or not entries:
        raise TaskFormatError(file, found=shown(entries), expected="a list of commands to type")
    inner = Checker(file=file, name=file.removeprefix(f"{boundary}/"))
    typed = tuple(inner.check(Keystrokes, entry, prefix=str(number)) for number, entry in enumerate(entries))
    if check is not None:
        check.findings += inner.findings
    return typed
