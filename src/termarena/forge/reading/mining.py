"""Finding commands in text alone: a prompt is a beginning of lines whose shape repeats."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.forge.reading.draft import Draft
from termarena.forge.reading.prompts import PROMPT_ENDS, SURE_PROMPT, continuation_length, looks_open, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.transcript import Tier

__all__ = ["mine"]

MINED_CONFIDENCE: Final = 0.6
SINGLE_CONFIDENCE: Final = 0.45
LONGEST_PROMPT: Final = 120
OFTEN: Final = 2
MOSTLY: Final = 0.8
_PROMPT: Final = re.compile(rf"(.{{0,{LONGEST_PROMPT}}}?)([{PROMPT_ENDS}]+)(?: |$)")
_ARROWS: Final = re.compile(r"[-=<>|]>+$|\d%$|[#%>]{2,}$|^[#>]+$|^\s")
_PLACE: Final = re.compile(r"[~/@\\]|\w:\w")


class _Line(NamedTuple):
    number: int
    text: str
    prompt: str


def mine(text: str, tier: Tier, known: Iterable[str] = ()) -> list[Draft]:
    """The lines that begin with a prompt, each with the lines up to the next as its output.

    `known` are prompts that were seen by other evidence; their shapes count without being repeated.
    """
    lines = text.split("\n")
    candidates = [line for number, shown in enumerate(lines) if (line := _candidate(number, shown)) is not None]
    shapes = _accepted(candidates, {shape_of(prompt) for prompt in known})
    prompts = [line for line in candidates if shape_of(line.prompt) in shapes]
    if not prompts:
        return []
    above = _line_above(lines, prompts)
    ends = [*(line.number for line in prompts[1:]), len(lines)]
    drafts = []
    for line, end in zip(prompts, ends, strict=True):
        confidence = MINED_CONFIDENCE if shapes[shape_of(line.prompt)] >= OFTEN else SINGLE_CONFIDENCE
        draft = Draft(line.text, tier, confidence, len(line.prompt))
        printed = _with_continuations(draft, lines[line.number + 1 : end - above if end < len(lines) else end])
        draft.output = "\n".join(printed).rstrip("\n")
        drafts.append(draft)
    return drafts


def _with_continuations(draft: Draft, lines: list[str]) -> list[str]:
    """Take the lines that the shell asked for into the command; those that are left are its output."""
    taken = 0
    while taken < len(lines) and (draft.is_joined or looks_open(draft.text)):
        length = continuation_length(lines[taken])
        if length is None:
            break
        draft.line += "\n" + lines[taken][length:]
        draft.is_joined = True
        taken += 1
    return lines[taken:]


def _candidate(number: int, text: str) -> _Line | None:
    found = _PROMPT.match(text)
    return _Line(number, text, found[0].rstrip()) if found else None


def _accepted(candidates: Sequence[_Line], known: set[str]) -> dict[str, int]:
    """The shapes that are prompts, with how often each was seen."""
    counted = Counter(shape_of(line.prompt) for line in candidates)
    examples = {shape_of(line.prompt): line.prompt for line in candidates}
    typed = Counter(shape_of(line.prompt) for line in candidates if line.text[len(line.prompt) :].strip())
    sure = {shape for shape, example in examples.items() if shape in known or SURE_PROMPT.fullmatch(example)}
    usable = {shape: count for shape, count in counted.items() if typed[shape] and not _ARROWS.search(examples[shape])}
    kept = {shape: count for shape, count in usable.items() if shape in sure}
    if not kept:
        kept = {shape: count for shape, count in usable.items() if count >= OFTEN and _is_likely(examples[shape])}
    return kept


def _is_likely(prompt: str) -> bool:
    """A sign that stands in no sentence, or a place before one that does."""
    return prompt[-1] not in "#%>" or _PLACE.search(prompt) is not None


def _line_above(lines: Sequence[str], prompts: Sequence[_Line]) -> int:
    """1 if the prompts have a first line of their own, which is no output."""
    shapes = Counter(shape_of(lines[line.number - 1]) for line in prompts if line.number)
    if len(prompts) < OFTEN or not shapes:
        return 0
    shape, count = shapes.most_common(1)[0]
    return int(bool(shape) and count >= max(OFTEN, MOSTLY * len(prompts)))
