"""pass@k and pass^k: at least one success in k attempts, and success in all of k."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, TypeAlias

from termarena.stats.accuracy import CONFIDENCE, Accuracy, accuracy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Passing", "Tally", "all_of_k", "any_of_k", "pass_all", "pass_any"]

Tally: TypeAlias = tuple[int, int]
"""Successes and scored attempts at one task."""


@dataclass(frozen=True, slots=True)
class Passing:
    """pass@k or pass^k of a run. `over` is None where no task was tried often enough."""

    k: int
    over: Accuracy | None
    """The mean over the tasks with k scored attempts or more, with its errors."""
    too_few: tuple[int, ...]
    """Places of the tasks with fewer than k scored attempts, which the mean leaves out."""

    @property
    def value(self) -> float | None:
        """The mean itself."""
        return None if self.over is None else self.over.mean


def any_of_k(successes: int, attempts: int, k: int) -> float:
    """The chance that k attempts, drawn from these without replacement, hold a success: 1 - C(n - c, k) / C(n, k).

    Unbiased for 1 - (1 - p)^k if attempts are independent (Chen et al., *Evaluating Large Language Models Trained on
    Code*, 2021), where 1 - (1 - c/n)^k is not. Raises ValueError unless 0 <= c <= n and 1 <= k <= n.
    """
    _check(successes, attempts, k)
    ways = comb(attempts, k)
    return (ways - comb(attempts - successes, k)) / ways


def all_of_k(successes: int, attempts: int, k: int) -> float:
    """The chance that k attempts, drawn from these without replacement, are all successes: C(c, k) / C(n, k).

    Unbiased for p^k if attempts are independent (Yao et al., *τ-bench*, 2024). Raises ValueError as `any_of_k`.
    """
    _check(successes, attempts, k)
    return comb(successes, k) / comb(attempts, k)


def pass_any(tallies: Sequence[Tally], k: int, *, confidence: float = CONFIDENCE) -> Passing:
    """pass@k of a run: the mean of `any_of_k` over tasks; those with fewer than k attempts are told, not counted."""
    return _passing(any_of_k, tallies, k, confidence)


def pass_all(tallies: Sequence[Tally], k: int, *, confidence: float = CONFIDENCE) -> Passing:
    """pass^k of a run: the mean of `all_of_k` over tasks; those with fewer than k attempts are told, not counted."""
    return _passing(all_of_k, tallies, k, confidence)


def _passing(chance: Callable[[int, int, int], float], tallies: Sequence[Tally], k: int, confidence: float) -> Passing:
    if k < 1:
        raise ValueError(f"k is {k}; it counts attempts, from 1")
    rows = [[chance(won, tried, k)] for won, tried in tallies if tried >= k]
    too_few = tuple(place for place, (_, tried) in enumerate(tallies) if tried < k)
    return Passing(k, accuracy_of(rows, confidence=confidence), too_few)


def _check(successes: int, attempts: int, k: int) -> None:
    if not 0 <= successes <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"no pass rate of {k} among {attempts} attempts with {successes} successes")
