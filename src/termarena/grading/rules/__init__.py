"""Rules of integrity: which changes of the file system could bend the grading, and how much each weighs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from termarena.grading.rules import places, python, system, tools
from termarena.grading.rules.rule import Evidence, Rule, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.grading.contract import IntegrityFinding

__all__ = ["RULES", "Evidence", "Rule", "Scene", "check", "is_interesting"]

_FAMILIES = (tools, python, system, places)
RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for family in _FAMILIES for rule in family.RULES})
"""Every rule by its id; `docs/grading.md` has a row for each."""


def check(scene: Scene) -> Iterator[IntegrityFinding]:
    """What every family finds."""
    for family in _FAMILIES:
        yield from family.check(scene)


def is_interesting(path: str) -> bool:
    """Whether some rule needs to know what is in a changed file, and who put it there."""
    return any(family.is_interesting(path) for family in _FAMILIES)
