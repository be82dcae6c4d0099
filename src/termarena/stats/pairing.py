"""Two runs of the same tasks, task by task.

Much of the variation among scores is that of tasks, and it is the same for both runs: taking differences per task
removes it. The unit is the task; the attempts at a task only make its mean less noisy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, sqrt
from typing import TYPE_CHECKING, Final, Literal

from termarena.stats.accuracy import (
    CONFIDENCE,
    Interval,
    Scores,
    clustered_interval,
    mean_of,
    rerun_variance,
    spread_of,
)
from termarena.stats.flipping import FlipTest, flip_test

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ALPHA", "Difference", "PairWord", "compare_paired", "pair_word"]

ALPHA: Final = 0.05
PairWord = Literal["better", "worse", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second, over tasks that both have scores for."""

    effect: float
    """The mean over tasks of the difference of the two task means."""
    tasks: int
    ahead: int
    """Tasks at which the first did better."""
    behind: int
    standard_error: float | None
    """Of the effect on tasks drawn anew; None with one task."""
    interval: Interval | None
    """effect ± t · standard_error; None with one task, or where no two differences differ."""
    rerun_error: float | None
    """Of the effect on these very tasks; None where a run tried no task twice."""
    unpaired_error: float | None
    """What the standard error would be if the two had run on different tasks; None with one task."""
    test: FlipTest
    """Of the hypothesis that the two do equally well."""


def compare_paired(
    first: Scores,
    second: Scores,
    *,
    confidence: float = CONFIDENCE,
    samples: int | None = None,
    seed: int = 0,
) -> Difference:
    """Compare two runs, row by row the same task, each row with a score in both.

    d_i is the difference of the two means at task i, effect its mean, standard error sqrt(s² / T) with s² the variance
    (divisor T - 1) of d: the cluster-robust error of the paired difference (Miller, *Adding Error Bars to Evals*,
    2024). p is that of the sign-flip test (`flip_test`), which assumes that under no difference d is as likely as -d,
    and nothing of the shape of anything. The interval is Student's and may touch 0 where p is just below alpha, or the
    other way round; p decides. The rerun error takes both runs' attempts as independent.

    Raises ValueError where the rows do not match or one is empty, ModuleNotFoundError as `flip_test`.
    """
    if len(first) != len(second) or not first or not all(map(len, first)) or not all(map(len, second)):
        raise ValueError("a paired comparison needs rows of the same tasks, each with a score in both runs")
    exact = [_difference(ours, theirs) for ours, theirs in zip(first, second, strict=True)]
    differences = [float(one) for one in exact]
    effect = mean_of(differences)
    error = sqrt(spread_of(differences) / len(differences)) if len(differences) > 1 else None
    return Difference(
        effect=effect,
        tasks=len(exact),
        ahead=sum(one > 0 for one in exact),
        behind=sum(one < 0 for one in exact),
        standard_error=error,
        interval=_interval(effect, error, first, second, confidence=confidence),
        rerun_error=_rerun_error(first, second),
        unpaired_error=_unpaired_error(first, second),
        test=flip_test(exact, samples=samples, seed=seed),
    )


def _interval(
    effect: float, error: float | None, first: Scores, second: Scores, *, confidence: float
) -> Interval | None:
    """Student's, no wider than two shares can differ where all scores are shares."""
    found = clustered_interval(effect, error, tasks=len(first), confidence=confidence)
    is_share = all(0 <= score <= 1 for scores in (first, second) for row in scores for score in row)
    if found is None or not is_share:
        return found
    return Interval(max(found.low, -1.0), min(found.high, 1.0), confidence)


def pair_word(effect: float, p: float, *, alpha: float = ALPHA) -> PairWord:
    """What may be said: "better" or "worse" where p is at most alpha, else "cannot tell", which is not "the same"."""
    if p > alpha or not effect:
        return "cannot tell"
    return "better" if effect > 0 else "worse"


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> Fraction:
    """Without rounding, so that two differences that are equal on paper are equal."""
    return _exact_mean(ours) - _exact_mean(theirs)


def _exact_mean(row: Sequence[float]) -> Fraction:
    total = sum(row)
    # Whole numbers, as successes are, add up without rounding, and a fraction for each would take ten times as long.
    if all(score == int(score) for score in row):
        return Fraction(int(total), len(row))
    return sum(map(Fraction, row), Fraction(0)) / len(row)


def _rerun_error(first: Scores, second: Scores) -> float | None:
    variances = rerun_variance(first), rerun_variance(second)
    if variances[0] is None or variances[1] is None:
        return None
    return sqrt(variances[0] + variances[1])


def _unpaired_error(first: Scores, second: Scores) -> float | None:
    if len(first) < 2:  # noqa: PLR2004 - a variance needs two
        return None
    spreads = [spread_of([mean_of(row) for row in scores]) / len(scores) for scores in (first, second)]
    return sqrt(fsum(spreads))
