"""Counting trials, one at a time: what is kept grows with the number of tasks, not with that of trials."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from termarena.reports.measures import spread_of
from termarena.reports.report import Score, TaskRow, Totals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.runs.result import TrialSummary

__all__ = ["Sums", "TaskTally", "score_of"]


class Sums:
    """Sums of which parts may be unknown."""

    __slots__ = ("commands", "cost_usd", "duration_s", "input_tokens", "output_tokens", "unpriced", "untold", "work_s")

    def __init__(self) -> None:
        """Nothing yet."""
        self.duration_s = self.work_s = 0.0
        self.unpriced = self.untold = 0
        self.commands: int | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cost_usd: float | None = None

    def add(self, trial: TrialSummary) -> None:
        """One more trial."""
        self.duration_s += trial.duration_s
        self.work_s += trial.work_s or 0.0
        self.untold += trial.input_tokens is None or trial.output_tokens is None
        self.unpriced += trial.cost_usd is None
        if trial.commands is not None:
            self.commands = (self.commands or 0) + trial.commands
        if trial.input_tokens is not None:
            self.input_tokens = (self.input_tokens or 0) + trial.input_tokens
        if trial.output_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + trial.output_tokens
        if trial.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + trial.cost_usd

    def totals(self) -> Totals:
        """As the report holds them."""
        return Totals(
            duration_s=_rounded(self.duration_s),
            work_s=_rounded(self.work_s),
            commands=self.commands,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=_cents(self.cost_usd),
            trials_without_tokens=self.untold,
            trials_without_cost=self.unpriced,
        )


# Rounded, so that the order of the trials cannot be seen in the last digit.
def _rounded(seconds: float) -> float:
    return round(seconds, 3)


def _cents(cost_usd: float | None) -> float | None:
    return None if cost_usd is None else round(cost_usd, 6)


class Weights(NamedTuple):
    """What one task adds to a mean: its accuracy, and that with everything unknown as failed and as solved."""

    accuracy: float | None
    low: float
    high: float


class TaskTally:
    """The trials of one task."""

    __slots__ = (
        "category",
        "difficulty",
        "last_attempt",
        "modes",
        "planned",
        "reward_sum",
        "solved",
        "sums",
        "task_id",
        "tests",
        "unscored",
        "unsolved",
    )

    def __init__(self, task_id: str, *, category: str, difficulty: str, planned: int) -> None:
        """No trial has ended yet."""
        self.task_id, self.category, self.difficulty, self.planned = task_id, category, difficulty, planned
        self.solved = self.unsolved = self.unscored = self.last_attempt = 0
        self.reward_sum = 0.0
        self.modes: dict[str, int] | None = None
        self.tests = (0, 0)
        self.sums = Sums()

    def add(self, trial: TrialSummary) -> None:
        """One more trial has ended."""
        if trial.outcome == "unscored":
            self.unscored += 1
        elif trial.outcome == "solved":
            self.solved += 1
        else:
            self.unsolved += 1
        if trial.outcome != "unscored" and trial.reward is not None:
            self.reward_sum += trial.reward
        if trial.outcome != "solved":
            self.modes = self.modes or {}
            self.modes[trial.failure_mode] = self.modes.get(trial.failure_mode, 0) + 1
        if trial.attempt >= self.last_attempt:
            self.last_attempt, self.tests = trial.attempt, (trial.tests_passed, trial.tests_total)
        self.sums.add(trial)

    @property
    def scored(self) -> int:
        """Trials with a score."""
        return self.solved + self.unsolved

    @property
    def total(self) -> int:
        """Planned trials; more only where a journal holds more than its plan."""
        return max(self.planned, self.scored + self.unscored)

    @property
    def pending(self) -> int:
        """Planned trials that have not ended."""
        return self.total - self.scored - self.unscored

    @property
    def mean_reward(self) -> float | None:
        """Of the scored trials."""
        return self.reward_sum / self.scored if self.scored else None

    def weights(self) -> Weights:
        """What this task adds to the means over tasks."""
        unknown = self.total - self.scored
        accuracy = self.solved / self.scored if self.scored else None
        return Weights(accuracy, low=self.solved / self.total, high=(self.solved + unknown) / self.total)

    def row(self) -> TaskRow:
        """As the report holds it."""
        sums = self.sums
        return TaskRow(
            task_id=self.task_id,
            category=self.category,
            difficulty=self.difficulty,
            solved=self.solved,
            unsolved=self.unsolved,
            unscored=self.unscored,
            pending=self.pending,
            total=self.total,
            accuracy=self.weights().accuracy,
            mean_reward=self.mean_reward,
            failure_modes=dict(sorted((self.modes or {}).items())),
            tests_passed=self.tests[0],
            tests_total=self.tests[1],
            duration_s=_rounded(sums.duration_s),
            work_s=_rounded(sums.work_s),
            commands=sums.commands,
            input_tokens=sums.input_tokens,
            output_tokens=sums.output_tokens,
            cost_usd=_cents(sums.cost_usd),
        )


def score_of(tallies: Iterable[TaskTally]) -> Score:
    """How these tasks went together; tasks of which nothing is planned do not count."""
    tasks = [tally for tally in tallies if tally.total]
    weights = [tally.weights() for tally in tasks]
    scored = [one.accuracy for one in weights if one.accuracy is not None]
    return Score(
        solved=sum(tally.solved for tally in tasks),
        unsolved=sum(tally.unsolved for tally in tasks),
        unscored=sum(tally.unscored for tally in tasks),
        pending=sum(tally.pending for tally in tasks),
        total=sum(tally.total for tally in tasks),
        tasks=len(tasks),
        tasks_scored=len(scored),
        accuracy=_mean(scored),
        accuracy_low=_mean([one.low for one in weights]),
        accuracy_high=_mean([one.high for one in weights]),
        spread=spread_of([(tally.solved, tally.scored) for tally in tasks]),
    )


def _mean(values: list[float]) -> float | None:
    # fsum is exact, so the mean does not depend on the order of the tasks.
    return fsum(values) / len(values) if values else None
