"""Rules of integrity: which changes of the file system could bend the grading, and how much each weighs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from termarena.grading.rules import places, python, system, tools
from termarena.grading.rules.rule import Evidence, Rule, Scene

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from termarena.grading.contract import IntegrityFinding
    from termarena.sandbox.contract import Change

__all__ = ["RULES", "Evidence", "Rule", "Scene", "check", "is_interesting", "is_watched"]

_FAMILIES = (tools, python, system, places)
RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for family in _FAMILIES for rule in family.RULES})
"""Every rule by its id; `docs/grading.md` has a row for each."""


# Where something can bend a grading; everything else is the agent's work, and there may be a hundred thousand of it.
_PLACES = (
    *("/bin", "/sbin", "/lib", "/etc/", "/root/.", "/home/", "/opt/", "/tests", "/logs", "/solution", "/var/spool/"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib"),
)
_SETUID = 0o6000


def is_watched(change: Change, folders: Iterable[str] = ()) -> bool:
    """Whether any rule could have a word about a change; `folders` are where programs are looked for besides."""
    path = change.path
    return (
        path.startswith((*_PLACES, *folders))
        or path.rpartition("/")[2] in python.NAMES
        or python.is_module(path)
        or "/.git/hooks/" in path
        or change.change == "removed"
        or (change.mode is not None and bool(change.mode & _SETUID))
    )


def check(scene: Scene) -> Iterator[IntegrityFinding]:
    """What every family finds."""
    for family in _FAMILIES:
        yield from family.check(scene)


def is_interesting(path: str) -> bool:
    """Whether some rule needs to know what is in a changed file, and who put it there."""
    return any(family.is_interesting(path) for family in _FAMILIES)
