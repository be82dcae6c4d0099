"""Files whose whole content a command's output tells: what a start state can be rebuilt from, and nothing else."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.forge.messages import created_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from termarena.forge.steps import Step

__all__ = ["InputFile", "shown_by"]

LONGEST_INPUT: Final = 64 << 10
HEAD_LINES: Final = 10
"""What `head` and `tail` show unless they are told; of a file with fewer lines, all."""
_NUMBERED: Final = re.compile(r" *(\d+)\t(.*)")
_FRAMED: Final = re.compile(r" *(\d+) +│(?: (.*))?")
_EMPTY: Final = re.compile(r"^-[rwxsStT-]{9}[.+]?\s+\d+\s+\S+\s+\S+\s+0\s+\w{3}\s+\d+\s+[\d:]+\s(.+)$", re.MULTILINE)
_FAILED: Final = re.compile(r"No such file|Permission denied|Is a directory")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the start state, as the recording shows it."""

    path: str
    content: str


def shown_by(step: Step) -> Iterator[InputFile]:
    """The files that the step shows whole: by `cat`, `bat`, `head` and `tail` of short ones, `jq .`; empty ones by
    `ls -l`, and by a commit that adds them."""
    if not step.line.is_plain or step.exit_status not in (0, None) or not step.output.strip():
        return
    if _FAILED.search(step.output) or len(step.output) > LONGEST_INPUT:
        return
    name, *words = step.line.simples[0].words
    if [name, *words[:1]] == ["git", "commit"]:
        yield from (InputFile(posixpath.join(step.cwd, path), "") for path in created_empty(step.output))
        return
    if name in ("ls", "ll"):
        yield from _listed(step, words)
        return
    reader = _READERS.get(name)
    operands = [word for word in words if not word.startswith("-") and not word.isdecimal() and word != "."]
    text = reader(words, _text_of(step.output)) if reader and len(operands) == 1 else None
    if text is not None:
        yield InputFile(posixpath.normpath(posixpath.join(step.cwd, operands[0])), text)


def _text_of(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.replace("\r\n", "\n").rstrip("\n").split("\n")) + "\n"


def _cat(words: list[str], text: str) -> str | None:
    options = [word for word in words if word.startswith("-")]
    if options == ["-n"]:
        return _without_numbers(text)
    return text if not options else None


def _bat(words: list[str], text: str) -> str | None:
    """Between its rules, each line behind its number."""
    rows = [found for line in text.splitlines() if (found := _FRAMED.fullmatch(line))]
    numbers = [int(row[1]) for row in rows]
    is_whole = not any(word.startswith("-") for word in words) and numbers == list(range(1, len(rows) + 1))
    return "".join(f"{row[2] or ''}\n" for row in rows) if rows and is_whole else None


def _without_numbers(text: str) -> str | None:
    rows = [_NUMBERED.fullmatch(line) or re.fullmatch(r" *(\d+)()", line) for line in text.splitlines()]
    numbers = [int(row[1]) for row in rows if row]
    return "".join(f"{row[2]}\n" for row in rows if row) if numbers == list(range(1, len(rows) + 1)) else None


def _some_lines(words: list[str], text: str) -> str | None:
    """What `head` or `tail` shows is all there is where it shows fewer lines than it may."""
    told = re.fullmatch(r"(?:-n ?|-)(\d+) \S+|\S+", " ".join(words))
    most = int(told[1] or HEAD_LINES) if told and not words[-1].startswith("-") else 0
    return text if text.count("\n") < most else None


def _json(words: list[str], text: str) -> str | None:
    """`jq . FILE` shows the whole value, if not its white space, which means nothing in JSON."""
    if words[0] != "." or len(words) != 2:  # noqa: PLR2004 - the filter and one file
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return text


_READERS: Final[Mapping[str, Callable[[list[str], str], str | None]]] = {
    "cat": _cat,
    "bat": _bat,
    "batcat": _bat,
    "head": _some_lines,
    "tail": _some_lines,
    "jq": _json,
}


def _listed(step: Step, words: list[str]) -> Iterator[InputFile]:
    """A file of size 0 in a long list is known whole."""
    operands = [word for word in words if not word.startswith("-")]
    if len(operands) > 1 or any("R" in word for word in words if word.startswith("-")):
        return
    folder = posixpath.join(step.cwd, *operands)
    for name in _EMPTY.findall(step.output.replace("\r\n", "\n")):
        # `ls -l FILE` lists the file by the name it was given.
        path = step.cwd if operands and name == operands[0] else folder
        yield InputFile(posixpath.normpath(posixpath.join(path, name)), "")
