"""robots.txt as RFC 9309 has it: groups, the longest rule that matches, `*` and `$`.

Python's own reader knows no wildcards, and the rules of asciinema servers consist of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AGENT", "NOTHING", "Robots", "parse_robots"]

AGENT: Final = "termarena"
LARGEST_BYTES: Final = 512 << 10
"""What the RFC asks a reader to take at least."""
MOST_RULES: Final = 2000
LONGEST_DELAY_S: Final = 60.0


class _Rule(NamedTuple):
    length: int
    allows: bool
    parts: tuple[str, ...]
    """What stands between the stars."""
    is_whole: bool
    """Whether the path must end where the rule does."""

    def matches(self, path: str) -> bool:
        """In one pass: each part where it is found first, and the last one at the end if it must be there."""
        first, *rest = self.parts
        if not path.startswith(first):
            return False
        if not rest:
            return not self.is_whole or path == first
        at, last = len(first), rest.pop() if self.is_whole else ""
        for part in rest:
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return path.endswith(last) and len(path) - len(last) >= at


@dataclass(frozen=True, slots=True)
class Robots:
    """What a server asks of us."""

    rules: tuple[_Rule, ...] = ()
    delay_s: float = 0.0
    """Between two requests, where it says so."""

    def allows(self, path: str) -> bool:
        """Whether a path (with its query) may be asked for; of rules of the same length the one that allows counts."""
        found = [(rule.length, rule.allows) for rule in self.rules if rule.matches(path)]
        return max(found)[1] if found else True


def parse_robots(content: bytes) -> Robots:
    """The rules for us: those for our name, else those for everybody. What cannot be read asks for nothing."""
    groups: dict[str, list[tuple[str, str]]] = {}
    names: list[str] = []
    is_open = False
    for key, value in _lines(content[:LARGEST_BYTES].decode("utf-8-sig", "replace")):
        if key == "user-agent":
            names = [*names, value.lower()] if is_open else [value.lower()]
            is_open = True
            groups.setdefault(value.lower(), [])
        else:
            is_open = False
            for name in names:
                groups[name].append((key, value))
    ours = groups.get(AGENT, groups.get("*", []))
    return Robots(tuple(_rules(ours)), _delay_s(ours))


def _lines(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _rules(lines: list[tuple[str, str]]) -> Iterable[_Rule]:
    for key, value in lines[:MOST_RULES]:
        if key in ("allow", "disallow") and value:
            parts = tuple(value.removesuffix("$").split("*"))
            yield _Rule(len(value), key == "allow", parts, value.endswith("$"))


def _delay_s(lines: list[tuple[str, str]]) -> float:
    said = [value for key, value in lines if key == "crawl-delay"]
    if not said or not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", said[0]):
        return 0.0
    return min(float(said[0]), LONGEST_DELAY_S)


NOTHING: Final = Robots()
"""Of a server without such a file."""
