"""Agreement of two people about the same things, beyond what chance would give (Cohen's kappa)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["Agreement", "agreement_of"]


class Agreement(NamedTuple):
    """How often two agree."""

    pairs: int
    observed: float | None
    """The share of pairs that are equal; None without any."""
    expected: float | None
    """The share that chance would make equal, given how often each says what."""
    kappa: float | None
    """1 is full agreement, 0 is chance; None where chance alone would give full agreement: both always said the
    same."""


def agreement_of(pairs: Sequence[tuple[Hashable, Hashable]]) -> Agreement:
    """Of what the first and the second said about each thing."""
    if not pairs:
        return Agreement(0, None, None, None)
    count = len(pairs)
    firsts, seconds = Counter(first for first, _ in pairs), Counter(second for _, second in pairs)
    observed = sum(first == second for first, second in pairs) / count
    expected = sum(firsts[word] * seconds[word] for word in firsts) / count**2
    kappa = None if expected == 1 else (observed - expected) / (1 - expected)
    return Agreement(count, observed, expected, kappa)
