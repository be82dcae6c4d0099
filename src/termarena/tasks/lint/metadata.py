"""Metadata: what people select and compare tasks by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.tasks.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.view import View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

NO_DIFFICULTY = Rule("missing-difficulty", "info", "no difficulty is given", "set difficulty to easy, medium or hard")
NO_CATEGORY = Rule(
    "missing-category", "info", "no category is given", "set category, so that the task can be selected by it"
)
UNKNOWN_DIFFICULTY = Rule(
    "unknown-difficulty", "info", "a difficulty that others do not use", "use easy, medium or hard"
)
RULES = (NO_DIFFICULTY, NO_CATEGORY, UNKNOWN_DIFFICULTY)

DIFFICULTIES = frozenset({"easy", "medium", "hard", "unknown"})


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    metadata = view.task.metadata
    if metadata.difficulty == "unknown":
        yield NO_DIFFICULTY.found(view.document, "no difficulty is given")
    elif metadata.difficulty not in DIFFICULTIES:
        yield UNKNOWN_DIFFICULTY.found(view.document, f"difficulty is {metadata.difficulty[:60]!r}")
    if metadata.category == "unknown":
        yield NO_CATEGORY.found(view.document, "no category is given")
