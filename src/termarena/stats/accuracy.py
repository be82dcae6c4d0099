"""Accuracy of one run: a mean over tasks, and how far to trust it.

Scores come as one row per task: the scores of the attempts at it that were scored, 1 and 0 or any other reward. A row
may be empty. Every task weighs the same, however often it was tried.

Two questions have two errors. *Generalisation*: on other tasks of the same kind, what would the mean be? Tasks are
drawn, attempts are nested in them, and the task is the unit; `standard_error`, `clustered` and `wilson` answer that.
*Rerun*: on the very same tasks, would it come out again? `rerun_error` answers that, and is always smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Final, TypeAlias

from termarena.stats.quantiles import normal_quantile, student_quantile

__all__ = [
    "CONFIDENCE",
    "Accuracy",
    "Bounds",
    "Interval",
    "Scores",
    "accuracy_of",
    "bounds_of",
    "clustered_interval",
    "filled",
    "mean_of",
    "rerun_variance",
    "spread_of",
    "wilson",
]

Scores: TypeAlias = Sequence[Sequence[float]]
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a mean could still become: every missing score the worst, every missing score the best."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The mean over tasks with its errors; None is what cannot be known from these scores."""

    mean: float
    tasks: int
    """That have a score; the mean is over these."""
    tasks_without_score: int
    attempts: int
    standard_error: float | None
    """Of the mean over tasks that are drawn anew; None with one task."""
    rerun_error: float | None
    """Of the mean over these very tasks; None where no task has two scores."""
    clustered: Interval | None
    """mean ± t · standard_error with tasks - 1 degrees of freedom; None with one task, or where no two tasks differ."""
    wilson: Interval | None
    """Wilson's, with the number of trials that the clustering leaves; None where a score is outside 0 to 1."""
    effective_trials: float | None
    """How many independent trials tell as much as these; None where a score is outside 0 to 1."""

    @property
    def interval(self) -> Interval | None:
        """The one to show: Wilson's where there is one, since it holds what it says near 0 and 1 too."""
        return self.wilson or self.clustered


def accuracy_of(scores: Scores, *, confidence: float = CONFIDENCE) -> Accuracy | None:
    """The accuracy of a run, or None where nothing is scored.

    Mean: the mean over tasks of the mean over a task's attempts. Standard error: sqrt(s² / T), where s² is the variance
    (divisor T - 1) of the task means and T their number. With as many attempts at every task this is the cluster-robust
    error of regression on a constant with the correction T / (T - 1) (CR1; Cameron and Miller, *A Practitioner's Guide
    to Cluster-Robust Inference*, 2015; Miller, *Adding Error Bars to Evals*, 2024); with unequal numbers, that of a
    regression in which every task weighs the same. Assumes that tasks are independent draws; of attempts it assumes
    nothing.
    """
    rows = [row for row in scores if len(row)]
    if not rows:
        return None
    means = [mean_of(row) for row in rows]
    mean, error = mean_of(means), _error(means)
    attempts = sum(len(row) for row in rows)
    is_share = all(0 <= score <= 1 for row in rows for score in row)
    effective = effective_trials(means, attempts, confidence=confidence) if is_share else None
    rerun = rerun_variance(rows)
    clustered = clustered_interval(mean, error, tasks=len(rows), confidence=confidence)
    return Accuracy(
        mean=mean,
        tasks=len(rows),
        tasks_without_score=len(scores) - len(rows),
        attempts=attempts,
        standard_error=error,
        rerun_error=None if rerun is None else sqrt(rerun),
        clustered=_within_one(clustered) if is_share else clustered,
        wilson=None if effective is None else wilson(mean * effective, effective, confidence=confidence),
        effective_trials=effective,
    )


def wilson(successes: float, trials: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval for a share: all p with |p̂ - p| <= z · sqrt(p (1 - p) / n).

    (p̂ + z²/2n ± z · sqrt(p̂ (1 - p̂) / n + z²/4n²)) / (1 + z²/n); Wilson, JASA 22 (1927). Assumes independent trials of
    one chance; `trials` may be an effective number and need not be whole. Never leaves 0 to 1, and is of use at 0 and
    at n successes, where the normal ± is a point. Raises ValueError for no trials or more successes than trials.
    """
    if not trials > 0 or not 0 <= successes <= trials * (1 + 1e-12):
        raise ValueError(f"no interval for {successes} successes in {trials} trials")
    z = normal_quantile((1 + confidence) / 2)
    share, extra = min(successes / trials, 1.0), z * z / trials
    middle = share + extra / 2
    half = z * sqrt(share * (1 - share) / trials + extra / (4 * trials))
    low, high = (middle - half) / (1 + extra), (middle + half) / (1 + extra)
    return Interval(max(low, 0.0) if share else 0.0, min(high, 1.0) if share < 1 else 1.0, confidence)


def effective_trials(means: Sequence[float], attempts: int, *, confidence: float) -> float:
    """How many independent trials with the same mean would have the variance that is seen among the tasks.

    n = T · p (1 - p) / v, where v is the variance (divisor T) of the task means: the number of attempts divided by the
    design effect (Kish, *Survey Sampling*, 1965), at most `attempts`; times (z / t)², since v is an estimate of T - 1
    degrees of freedom (Korn and Graubard, *Survey Methodology* 24, 1998); and at least T, since no mean of a task can
    vary more than a single trial does. With one attempt per task it is T, so that `wilson` is the textbook's; so it is
    where all tasks are 0 or all are 1, and nothing is known of the clustering.
    """
    tasks, mean = len(means), mean_of(means)
    if tasks == 1 or not 0 < mean < 1:
        return float(tasks)
    variance = fsum((one - mean) ** 2 for one in means) / tasks
    most = tasks * mean * (1 - mean)
    trials = float(attempts) if most >= attempts * variance else most / variance
    probability = (1 + confidence) / 2
    return max(tasks, trials * (normal_quantile(probability) / student_quantile(probability, tasks - 1)) ** 2)


def clustered_interval(mean: float, error: float | None, *, tasks: int, confidence: float) -> Interval | None:
    """mean ± t · error, where t is Student's quantile with tasks - 1 degrees of freedom.

    None where there is no error to speak of: one task, or tasks that do not differ at all, from which it does not
    follow that others would not.
    """
    if not error:
        return None
    half = student_quantile((1 + confidence) / 2, tasks - 1) * error
    return Interval(mean - half, mean + half, confidence)


def rerun_variance(scores: Scores) -> float | None:
    """The variance of the mean over tasks if the same tasks were run again: Σ (s_i² / n_i) / T².

    s_i² is the variance (divisor n_i - 1) of the n_i attempts at task i; for 0 and 1 a term is p_i (1 - p_i) /
    (n_i - 1), which is what the Terminal-Bench leaderboard prints the root of. A task tried once gets the mean variance
    of the others; None where no task was tried twice. Assumes independent attempts.
    """
    rows = [row for row in scores if len(row)]
    spreads = [spread_of(row) for row in rows if len(row) > 1]
    if not spreads:
        return None
    usual = mean_of(spreads)
    terms = [(spread_of(row) if len(row) > 1 else usual) / len(row) for row in rows]
    return fsum(terms) / len(rows) ** 2


def bounds_of(scores: Scores, missing: Sequence[int], *, worst: float = 0.0, best: float = 1.0) -> Bounds | None:
    """What the mean over all tasks would be if every missing score were the worst, and if it were the best.

    `missing` says for each task how many attempts have no score. A task with neither score nor missing attempt was not
    part of the run and does not count. None where there is nothing at all.
    """
    low, high = ([mean_of(row) for row in filled(scores, missing, with_=score) if row] for score in (worst, best))
    return Bounds(mean_of(low), mean_of(high)) if low else None


def filled(scores: Scores, missing: Sequence[int], *, with_: float) -> list[list[float]]:
    """The rows with every missing score put in."""
    return [[*row, *[with_] * gap] for row, gap in zip(scores, missing, strict=True)]


def mean_of(values: Sequence[float]) -> float:
    """Exactly rounded, and so the same in whatever order the values come."""
    return fsum(values) / len(values)


def spread_of(values: Sequence[float]) -> float:
    """The variance with divisor n - 1, of two values at least."""
    mean = mean_of(values)
    return fsum((one - mean) ** 2 for one in values) / (len(values) - 1)


def _error(means: Sequence[float]) -> float | None:
    return sqrt(spread_of(means) / len(means)) if len(means) > 1 else None


def _within_one(interval: Interval | None) -> Interval | None:
    if interval is None:
        return None
    return Interval(max(interval.low, 0.0), min(interval.high, 1.0), interval.confidence)
