"""From drafts to commands: prompts are cut off, continuation lines joined, noise dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.forge.reading.prompts import Prompts, is_continuation, is_interpreter, looks_open
from termarena.forge.transcript import Tier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.reading.draft import Draft
    from termarena.forge.transcript import Command

__all__ = ["resolve"]

ODD_PROMPT: Final = 0.25
"""Taken from the confidence where a prompt does not look like the others."""
INTERRUPTED: Final = "^C"


def resolve(drafts: Sequence[Draft]) -> tuple[Command, ...]:
    """The commands, in order."""
    prompts = Prompts.learn(draft.prompt for draft in drafts if draft.prompt is not None)
    for draft in drafts:
        _split(draft, prompts)
    joined = _joined(drafts)
    return tuple(draft.command() for draft in joined if _is_command(draft))


def _split(draft: Draft, prompts: Prompts) -> None:
    """Cut the prompt off where that was not seen, and again where what was seen looks unlike the rest."""
    if draft.tier is Tier.MARKS:
        return
    if draft.prompt is None:
        draft.prompt_length = prompts.length(draft.line) or 0
    elif not (prompts.is_usual(draft.prompt) or is_continuation(draft.prompt) or is_interpreter(draft.prompt)):
        usual = prompts.patterns[0].match(draft.line) if prompts.patterns else None
        cut = usual.end() if usual else prompts.cut(draft.prompt)
        draft.prompt_length = cut or draft.prompt_length
        draft.confidence -= 0 if cut else ODD_PROMPT
    last_line = (draft.prompt or "").rpartition("\n")[2]
    is_other = is_interpreter(last_line) or prompts.is_foreign(last_line)
    draft.shell = not is_other or is_continuation(last_line)


def _joined(drafts: Iterable[Draft]) -> list[Draft]:
    kept: list[Draft] = []
    for draft in drafts:
        before = kept[-1] if kept else None
        if before is not None and _continues(draft, before):
            before.line += "\n" + draft.line[draft.prompt_length or 0 :]
            before.output, before.ended_s, before.is_joined = draft.output, draft.ended_s, True
            before.interactive |= draft.interactive
            before.confidence = min(before.confidence, draft.confidence)
        else:
            kept.append(draft)
    return kept


def _continues(draft: Draft, before: Draft) -> bool:
    if draft.tier is Tier.MARKS or not is_continuation((draft.prompt or "").rpartition("\n")[2]):
        return False
    return not before.output.strip() and (before.is_joined or looks_open(before.text))


def _is_command(draft: Draft) -> bool:
    text = draft.text
    return bool(text) and not text.endswith(INTERRUPTED)
