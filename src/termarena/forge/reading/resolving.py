"""From drafts to commands: prompts are cut off, continuation lines joined, noise dropped."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Final

from termarena.forge.reading.prompts import (
    Prompts,
    continuation_length,
    ends_well,
    is_continuation,
    is_interpreter,
    looks_open,
    shape_of,
)
from termarena.forge.transcript import Tier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.reading.draft import Draft
    from termarena.forge.transcript import Command

__all__ = ["agreed", "resolve", "with_prompts", "without_completions"]

ODD_PROMPT: Final = 0.25
"""Taken from the confidence where a prompt does not look like the others."""
INTERRUPTED: Final = "^C"


def resolve(drafts: Sequence[Draft]) -> tuple[Command, ...]:
    """The commands, in order."""
    drafts = _joined(drafts)
    prompts = Prompts.learn(draft.prompt for draft in drafts if draft.prompt is not None)
    for draft in drafts:
        _split(draft, prompts)
    return tuple(draft.command() for draft in drafts if _is_command(draft))


def without_completions(drafts: Sequence[Draft]) -> list[Draft]:
    """Those that were entered: where a list of completions was shown, the same line went on below it."""
    kept: list[Draft] = []
    for draft in drafts:
        if kept and (draft.prompt or "").rstrip() == kept[-1].line.rstrip():
            draft.prompt_length = kept.pop().prompt_length
        kept.append(draft)
    return kept


def agreed(mined: Sequence[Draft], typed: Sequence[Draft], relisted: Iterable[str]) -> list[Draft]:
    """Lines that were found in the text, with what the rhythm of keys knows of them; without those that a list of
    completions was shown for."""
    lists = deque(line.rstrip() for line in relisted)
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number, same in enumerate(typed):
        waiting[same.line.rstrip()].append(number)
    kept: list[Draft] = []
    done = -1
    for draft in mined:
        line = draft.line.rstrip()
        if lists and line == lists[0]:
            lists.popleft()
            continue
        numbers = waiting[line]
        while numbers and numbers[0] <= done:
            numbers.popleft()
        if numbers:
            done = numbers.popleft()
            _take_over(draft, typed[done])
        kept.append(draft)
    return kept


def _take_over(draft: Draft, same: Draft) -> None:
    draft.confidence, draft.interactive = max(draft.confidence, same.confidence), same.interactive
    draft.began_s, draft.ended_s = same.began_s, same.ended_s
    draft.began_at, draft.ended_at = same.began_at, same.ended_at


def with_prompts(drafts: Sequence[Draft]) -> list[Draft]:
    """Those that begin with what can be a prompt: it ends like one, or was seen more than once."""
    seen = Counter(shape_of(draft.prompt) for draft in drafts if draft.prompt)
    return [draft for draft in drafts if draft.prompt and _is_prompt(draft.prompt, seen[shape_of(draft.prompt)])]


def _is_prompt(prompt: str, times: int) -> bool:
    return ends_well(prompt) or (times > 1 and not prompt.strip().isalnum())


def _split(draft: Draft, prompts: Prompts) -> None:
    """Cut the prompt off where that was not seen, and again where what was seen looks unlike the rest."""
    if draft.tier is Tier.MARKS:
        return
    if draft.prompt is None:
        draft.prompt_length = prompts.length(draft.line) or 0
    elif not (prompts.is_usual(draft.prompt) or is_continuation(draft.prompt) or is_interpreter(draft.prompt)):
        usual = prompts.patterns[0].match(draft.line) if prompts.patterns else None
        cut = prompts.cut(draft.prompt) or (usual.end() if usual else None)
        draft.prompt_length = cut or draft.prompt_length
        draft.confidence -= 0 if cut else ODD_PROMPT
    last_line = (draft.prompt or "").rpartition("\n")[2]
    is_other = is_interpreter(last_line) or prompts.is_foreign(last_line)
    draft.shell = not is_other or is_continuation(last_line)


def _joined(drafts: Iterable[Draft]) -> list[Draft]:
    """Lines that a shell asked for because a command was not complete are part of that command."""
    kept: list[Draft] = []
    for draft in drafts:
        length = continuation_length(draft.line)
        before = kept[-1] if kept else None
        if before is None or length is None or not _asks_for_more(before, draft):
            kept.append(draft)
            continue
        before.line += "\n" + draft.line[length:]
        before.output, before.ended_s, before.is_joined = draft.output, draft.ended_s, True
        before.interactive |= draft.interactive
    return kept


def _asks_for_more(before: Draft, draft: Draft) -> bool:
    if draft.tier is not before.tier or before.output.strip():
        return False
    text = before.text if before.prompt_length is not None else before.line
    return before.is_joined or looks_open(text)


def _is_command(draft: Draft) -> bool:
    text = draft.text
    return bool(text) and not text.endswith(INTERRUPTED)
