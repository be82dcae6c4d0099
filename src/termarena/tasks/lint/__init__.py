"""Static validation of tasks: what can be said about a task without running anything of it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.tasks.lint.linting import RULES, lint
    from termarena.tasks.lint.rule import Rule
else:
    from termarena.core.doors import door

    __getattr__ = door(
        __name__,
        linting="RULES lint",
        rule="Rule",
    )

__all__ = ["RULES", "Rule", "lint"]
