"""How small a difference can be and still be found, before anything is spent.

Two agents are to be compared, paired per task, on T tasks with K attempts each. The variance of the effect is
(between + within / K) / T: *between* is the variance over tasks of the true difference of the two agents' chances,
*within* the variance of a single attempt of the one plus that of the other, averaged over tasks. Attempts shrink only
the second part, tasks both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final

from termarena.stats.accuracy import mean_of, spread_of
from termarena.stats.pairing import ALPHA
from termarena.stats.quantiles import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.stats.accuracy import Scores

__all__ = [
    "KEPT",
    "POWER",
    "TYPICAL",
    "Variances",
    "minimal_effect",
    "tasks_needed",
    "variances_of_one",
    "variances_of_pair",
]

POWER: Final = 0.8
MOST_TASKS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Variances:
    """What the noise of a paired comparison is made of."""

    between: float
    within: float
    is_split: bool = True
    """False where no task was tried twice: then `between` holds both, and attempts look as if they were of no use."""


TYPICAL: Final = Variances(between=0.1155, within=0.134)
"""Median over the 78 pairs of 13 public Terminal-Bench submissions (`benchmarks/leaderboard_data.py` prints it)."""
KEPT: Final = 0.345
"""Of the variance between tasks of two such runs together, the part left in their difference; the median too."""


def variances_of_pair(first: Scores, second: Scores) -> Variances:
    """Estimated from two runs of the same tasks, row by row, each row with a score in both.

    within = mean s_a² + mean s_b², over tasks tried twice; between = the variance of the differences of task means less
    the part that attempts explain, mean (s_a² / n_a + s_b² / n_b), and not below 0: the usual moment estimates of a
    one-way random-effects model. Raises ValueError for fewer than two tasks, or rows that do not match.
    """
    if len(first) != len(second) or len(first) < 2:  # noqa: PLR2004 - a variance needs two
        raise ValueError("variances need two tasks or more that both runs have scores for")
    differences = [mean_of(ours) - mean_of(theirs) for ours, theirs in zip(first, second, strict=True)]
    return _split(spread_of(differences), [_noise(first), _noise(second)])


def variances_of_one(scores: Scores, *, kept: float = KEPT) -> Variances:
    """Estimated from one run, for a rival that is like it.

    The rival is given the same variances; of the variance between tasks of the two, the share `kept` is taken to be
    left in their difference, since what is hard for one is mostly hard for the other. Raises ValueError for fewer than
    two tasks with a score.
    """
    rows = [row for row in scores if len(row)]
    if len(rows) < 2:  # noqa: PLR2004 - as above
        raise ValueError("variances need two tasks or more with a score")
    noise = _noise(rows)
    single = _split(spread_of([mean_of(row) for row in rows]), [noise])
    if not single.is_split:
        return Variances(between=2 * single.between, within=0.0, is_split=False)
    return Variances(between=2 * kept * single.between, within=2 * single.within)


def minimal_effect(
    tasks: int, attempts: int, variances: Variances, *, alpha: float = ALPHA, power: float = POWER
) -> float | None:
    """The smallest true difference that a paired comparison finds with this power, testing at alpha on both sides.

    (t_(1 - alpha/2) + t_power) · sqrt((between + within / K) / T), Student's quantiles with T - 1 degrees of freedom:
    that of the t test, which the sign-flip test equals for all but a handful of tasks. None where no difference can be
    found: a sign-flip test of T tasks has no p below 2^(1 - T). Raises ValueError for no task, no attempt, or no
    probability.
    """
    if tasks < 1 or attempts < 1 or not 0 < alpha < 1 or not 0 < power < 1:
        raise ValueError(f"no power of {tasks} tasks and {attempts} attempts at {alpha} and {power}")
    if tasks == 1 or 2.0 ** (1 - min(tasks, 1000)) > alpha:
        return None
    quantiles = student_quantile(1 - alpha / 2, tasks - 1) + student_quantile(power, tasks - 1)
    return quantiles * sqrt((variances.between + variances.within / attempts) / tasks)


def tasks_needed(
    effect: float, attempts: int, variances: Variances, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """The fewest tasks on which `minimal_effect` is at most `effect`; None where ten million are too few."""
    if not effect > 0:
        raise ValueError(f"no number of tasks finds a difference of {effect}")

    def is_enough(tasks: int) -> bool:
        found = minimal_effect(tasks, attempts, variances, alpha=alpha, power=power)
        return found is not None and found <= effect

    low, high = 1, 2
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MOST_TASKS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class _Noise:
    """What the attempts of one run do to its task means."""

    within: float | None
    """Variance of one attempt; None where no task was tried twice."""
    in_means: float | None
    """Variance of a task's mean, averaged over tasks."""


def _noise(scores: Scores) -> _Noise:
    spreads = [spread_of(row) for row in scores if len(row) > 1]
    if not spreads:
        return _Noise(None, None)
    within = mean_of(spreads)
    in_means = mean_of([(spread_of(row) if len(row) > 1 else within) / len(row) for row in scores])
    return _Noise(within, in_means)


def _split(total: float, noises: Sequence[_Noise]) -> Variances:
    within = [one.within for one in noises if one.within is not None]
    in_means = [one.in_means for one in noises if one.in_means is not None]
    if len(within) < len(noises):
        return Variances(between=total, within=0.0, is_split=False)
    return Variances(between=max(0.0, total - sum(in_means)), within=sum(within))
