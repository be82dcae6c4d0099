"""How much of a recording stands in a task word for word: what may not be passed on without a licence."""

from __future__ import annotations

import ast
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from termarena.forge.transcript import Transcript

__all__ = ["longest_span", "spans_of"]

LARGEST_FILE_BYTES: Final = 1 << 20
MOST_PLACES: Final = 64
"""Of a line that stands in a recording again and again, so many are followed."""


def spans_of(transcript: Transcript, folder: Path) -> dict[str, int]:
    """For each file of a task that holds some of it, the characters of the longest span of the recording.

    A span is a run of whole lines of one command, or of what one command printed; in Python files also of the texts
    that they quote. A file too large to be looked at counts as one span; a fetched repository is none of the recording.
    """
    lines = list(_lines(transcript))
    places: dict[str, list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        if line and len(places[line]) < MOST_PLACES:
            places[line].append(at)
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix != ".bundle":
            longest = _longest_in(path, places)
            if longest:
                found[path.relative_to(folder).as_posix()] = longest
    return found


def _longest_in(path: Path, places: Mapping[str, Sequence[int]]) -> int:
    size = path.stat().st_size
    if size > LARGEST_FILE_BYTES:
        return size
    text = path.read_text("utf-8", "replace")
    longest = _longest(text.splitlines(), places)
    return max(longest, _longest(_quoted(text), places)) if path.suffix == ".py" else longest


def _quoted(source: str) -> list[str]:
    """The lines of a program's texts, in order: tests hold what a file must hold as such."""
    try:
        texts = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Constant)]
    except (SyntaxError, ValueError, RecursionError):
        return source.replace("\\n", "\n").splitlines()
    texts.sort(key=lambda one: (one.lineno, one.col_offset))
    return [line for one in texts if isinstance(one.value, str) for line in one.value.splitlines()]


def longest_span(spans: Mapping[str, int]) -> int:
    """The longest of all files; 0 where nothing is held."""
    return max(spans.values(), default=0)


def _lines(transcript: Transcript) -> Iterator[str]:
    """The recording's lines; an empty one, which nothing is like, between what was typed and what was printed."""
    for command in transcript.commands:
        for line in chain(command.text.splitlines(), ("",), command.output.splitlines(), ("",)):
            yield line.strip()


def _longest(lines: Sequence[str], places: Mapping[str, Sequence[int]]) -> int:
    longest = 0
    runs: dict[int, int] = {}
    for line in lines:
        text = line.strip()
        runs = {at: runs.get(at - 1, 0) + len(text) for at in places.get(text, ())} if text else {}
        longest = max(longest, max(runs.values(), default=0))
    return longest
