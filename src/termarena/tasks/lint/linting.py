"""Every rule, and what all of them find in a task."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from termarena.tasks.lint import (
    build,
    environment,
    files,
    grading,
    instruction,
    limits,
    metadata,
    network,
    reachability,
)
from termarena.tasks.lint.rule import LOADER_RULES, Rule
from termarena.tasks.lint.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.tasks.model import Finding, Task

__all__ = ["RULES", "lint"]

_FAMILIES = (files, instruction, environment, build, grading, reachability, limits, network, metadata)
RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.id: rule for rules in (LOADER_RULES, *(f.RULES for f in _FAMILIES)) for rule in rules}
)
"""Every rule by its id, the loaders' own among them; `docs/rules.md` has a section for each."""


def lint(task: Task) -> tuple[Finding, ...]:
    """What the rules find in a task; what its loader noticed is in `task.findings`, and not repeated here.

    Nothing is run, and no content makes it raise; only a folder that has changed since it was loaded may raise the
    TaskFormatError that loading it now would. Files are read up to 256 kB each and forgotten with the call.
    """
    view = View(task)
    found = [finding for family in _FAMILIES for finding in family.check(view)]
    return (*found, *files.unreadable(view))
