"""Finding commands in text alone: a prompt is a beginning of lines whose shape repeats."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.forge.packages import package_index
from termarena.forge.reading.draft import Draft
from termarena.forge.reading.prompts import PROMPT_ENDS, SURE_PROMPT, continuation_length, kin_of, looks_open, shape_of
from termarena.shell.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.transcript import Tier

__all__ = ["are_calls", "mine"]

MINED_CONFIDENCE: Final = 0.6
SINGLE_CONFIDENCE: Final = 0.45
LONGEST_PROMPT: Final = 120
OFTEN: Final = 2
MOSTLY: Final = 0.8
LEAST_CALLS: Final = 3
_PROMPT: Final = re.compile(rf"(.{{0,{LONGEST_PROMPT}}}?)([{PROMPT_ENDS}]+)(?: |$)")
# Fonts made for prompts have separators of their own; the last of them on a line ends the prompt.
_GLYPHS: Final = "\ue000-\uf8ff"
_GLYPHED: Final = re.compile(rf"(.{{0,{LONGEST_PROMPT}}}[{_GLYPHS}])(?: |$)")
# A sign within the prompt, and the one at its end.
_LATER: Final = re.compile(rf"(.{{0,{LONGEST_PROMPT}}}[\s\])~\w/][$#%])(?: |$)")
_GLYPH: Final = re.compile(f"[{_GLYPHS}]")
# Themes that begin with their sign: a folder follows, and at times the state of a repository.
_THEME: Final = re.compile(r"[➜λ] {1,2}[^\s\ue000-\uf8ff]+(?: git:\([^)\n]*\))?(?: [✗✔→])?(?: |$)")
_SHELL_WORDS: Final = words(
    "cd echo export source . alias unalias exit eval exec set unset read type history pushd popd printf test [ [[ for"
    " while if until case function local declare jobs fg bg kill wait trap umask ulimit sudo time true false : pwd abbr"
    " begin end help let return shift logout clear ll la"
)
_ARROWS: Final = re.compile(r"[-=<>|]>+$|\d%$|[#%>]{2,}$|^[#>]+$|^\s")
# Keys that were pressed before the prompt came are shown before it, and behind it again.
_TYPED_AHEAD: Final = re.compile(r"^(\S{1,40})([\[(]?[\w.-]+@[\w.-]+[\])]?[: ][^\n]{0,80}?[$#%>]) \1")
_PLACE: Final = re.compile(r"[~/@\\]|\w:\w")


class _Line(NamedTuple):
    number: int
    text: str
    prompt: str


def mine(text: str, tier: Tier, known: Iterable[str] = ()) -> list[Draft]:
    """The lines that begin with a prompt, each with the lines up to the next as its output.

    `known` are prompts that were seen by other evidence; their shapes count without being repeated.
    """
    lines = [_TYPED_AHEAD.sub(r"\2 \1", line) if "@" in line[:LONGEST_PROMPT] else line for line in text.split("\n")]
    candidates = _candidates(lines)
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


def are_calls(lines: Sequence[str]) -> bool:
    """Whether lines call programs nearly all of them, but for remarks; one of them at least."""
    typed = [said for line in lines if (said := line.split()) and not said[0].startswith("#")]
    return bool(typed) and sum(map(_is_program, typed)) >= MOSTLY * len(typed)


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


def _candidates(lines: Sequence[str]) -> list[_Line]:
    """The lines that may begin with a prompt. Where it ends in more than one way, what follows tells."""
    numbered = list(enumerate(lines))
    found = _split_by(_PROMPT, numbered)
    glyphed = [(number, text) for number, text in numbered if _GLYPH.search(text)]
    signed = [(number, line.text) for number, line in found.items()]
    for pattern, some in ((_THEME, numbered), (_GLYPHED, glyphed), (_LATER, signed)):
        others = _split_by(pattern, some)
        before = {number: found[number] for number in others if number in found}
        if _share(others.values()) > _share(before.values()):
            found |= others
    return [found[number] for number in sorted(found)]


def _split_by(pattern: re.Pattern[str], lines: Iterable[tuple[int, str]]) -> dict[int, _Line]:
    matched = ((number, text, pattern.match(text)) for number, text in lines)
    # A line of a text may be of any length, and with it what could end a prompt.
    short = ((number, text, found[0]) for number, text, found in matched if found and found.end() <= 2 * LONGEST_PROMPT)
    return {number: _Line(number, text, prompt.rstrip()) for number, text, prompt in short}


def _share(lines: Iterable[_Line]) -> float:
    """How many of the lines call a program that there is."""
    typed = [said for line in lines if (said := line.text[len(line.prompt) :].split())]
    return sum(map(_is_program, typed)) / len(typed) if typed else 0.0


def _is_program(said: Sequence[str]) -> bool:
    if {"$", "#", "%"} & set(said[1:3]):  # a place, and the sign behind it
        return False
    name = said[0].lstrip("({!")
    is_called = name.startswith(("./", "/", "~/", "../")) or "=" in name
    return is_called or name in _SHELL_WORDS or name in package_index()


def _accepted(candidates: Sequence[_Line], known: set[str]) -> dict[str, int]:
    """The shapes that are prompts, with how often each was seen."""
    counted = Counter(shape_of(line.prompt) for line in candidates)
    examples = {shape_of(line.prompt): line.prompt for line in candidates}
    typed = Counter(shape_of(line.prompt) for line in candidates if line.text[len(line.prompt) :].strip())
    sure = {shape for shape, example in examples.items() if shape in known or SURE_PROMPT.fullmatch(example)}
    usable = {shape: count for shape, count in counted.items() if typed[shape] and not _is_arrow(examples[shape])}
    kept = {shape: count for shape, count in usable.items() if shape in sure}
    if not kept:
        often = {shape: count for shape, count in usable.items() if count >= OFTEN}
        kept = {shape: count for shape, count in often.items() if _is_likely(examples[shape])}
        followed = set() if kept else _followed(candidates)
        kept = kept or {shape: count for shape, count in often.items() if shape in followed}
    kin = {kin_of(examples[shape]) for shape in kept} - {""}
    return kept | {shape: count for shape, count in usable.items() if kin_of(examples[shape]) in kin}


def _is_arrow(prompt: str) -> bool:
    return _ARROWS.search(prompt.lstrip() if _GLYPH.search(prompt) else prompt) is not None


def _is_likely(prompt: str) -> bool:
    """A sign that stands in no sentence, or a place before one that does."""
    return prompt[-1] not in "#%>" or _PLACE.search(prompt) is not None


def _followed(candidates: Sequence[_Line]) -> set[str]:
    """The shapes behind which programs are called, often enough that it is no accident."""
    by_shape: dict[str, list[_Line]] = defaultdict(list)
    for line in candidates:
        by_shape[shape_of(line.prompt)].append(line)
    return {shape for shape, lines in by_shape.items() if len(lines) >= LEAST_CALLS and _share(lines) >= MOSTLY}


def _line_above(lines: Sequence[str], prompts: Sequence[_Line]) -> int:
    """1 if the prompts have a first line of their own, no output: of one shape, behind one sign, or set off."""
    above = [(lines[line.number - 1], line.number) for line in prompts if line.number]
    shapes = Counter(shape_of(text) for text, _ in above if text)
    signs = Counter(text[0] for text, _ in above if text and not text[0].isalnum())
    set_off = sum(bool(text) and (number < OFTEN or not lines[number - 2]) for text, number in above)
    most = max(set_off, *(count for counted in (shapes, signs) for _, count in counted.most_common(1)), 0)
    return int(most >= max(OFTEN, MOSTLY * len(prompts)))
