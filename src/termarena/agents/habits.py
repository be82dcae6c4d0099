"""Bad habits of models: refusing, talking without acting, asking for nonsense, doing the same again and again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.agents.toolbox import Action, Outcome

__all__ = ["Habits", "Verdict", "sounds_like_refusal"]

MISTAKES: Final = 5
"""So many turns without anything that could be done, one after the other, end a trial."""
SAME_TOLD: Final = 3
SAME_ENDS: Final = 10
"""The same action with the same result, so often in a row: told, and ended."""
_REFUSAL: Final = re.compile(
    r"^\W*(?:i'm (?:really |very )?sorry|i am sorry|sorry|unfortunately|i apologi[sz]e)?\W*(?:but )?\W*"
    r"i (?:can ?not|can't|won't|will not|am (?:unable|not able)|'m (?:unable|not able)|must decline"
    r"|refuse|do not feel comfortable)\b"
    r"|^\W*(?:i'm|i am) (?:unable|not able)\b|^\W*as an ai\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a habit: a word to the model, or the end."""

    word: str = ""
    end: Literal["parse_error", "refused", "resource_limit"] | None = None


def sounds_like_refusal(text: str) -> bool:
    """Whether a reply begins as refusals do."""
    return bool(_REFUSAL.match(text[:400].replace("\u2019", "'")))


class Habits:
    """Watches one conversation."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._refusals = 0
        self._mistakes = 0
        self._last: object = None
        self._same = 0

    def spoke_only(self, text: str, *, how: str) -> Verdict:
        """The model took no action; `how` says how one is taken."""
        self._mistakes += 1
        if sounds_like_refusal(text):
            self._refusals += 1
            if self._refusals > 1:
                return Verdict(end="refused")
            return Verdict(f"If you do not want to work on this task, say so once more. Otherwise go on: {how}")
        if self._mistakes >= MISTAKES:
            return Verdict(end="parse_error")
        said = "Your reply was empty." if not text.strip() else "Your reply holds no action, so nothing was done."
        return Verdict(f"{said} {how}")

    def acted(self, actions: Sequence[Action], outcomes: Sequence[Outcome]) -> Verdict:
        """The model took these actions, and this came of them."""
        self._refusals = 0
        is_mistaken = bool(outcomes) and all(outcome.is_mistake for outcome in outcomes)
        self._mistakes = self._mistakes + 1 if is_mistaken else 0
        if self._mistakes >= MISTAKES:
            return Verdict(end="parse_error")
        now = [(action.name, str(sorted(action.arguments.items())), action.problem) for action in actions]
        seen = (now, [outcome.text for outcome in outcomes])
        self._same = self._same + 1 if seen == self._last else 1
        self._last = seen
        if self._same >= SAME_ENDS:
            return Verdict(end="resource_limit")
        if self._same >= SAME_TOLD:
            return Verdict(
                f"You have done exactly this {self._same} times, with the same result each time. Try something else."
            )
        return Verdict()
