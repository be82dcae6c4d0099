"""`Report`: what a run came to, as data. `report.json` holds it whole; `report.md` and the command line tell it.

The words. A trial is `solved`, `unsolved` or `unscored` once it ended, and `pending` before. *Scored* is solved or
unsolved. `accuracy` is the mean over tasks of solved trials among scored ones: every task weighs the same, however
often it was tried; a task without a scored trial has no accuracy and is left out of the mean. Nothing unscored or
pending is ever counted as a failure or as a success: `accuracy_low` and `accuracy_high` say what the mean over *all*
tasks would be if every such trial had failed, or had been solved. The three are equal exactly when every planned trial
is scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from termarena.reports.measures import PassRate, PerSolved, Spread
from termarena.runs.result import TrialSummary

__all__ = ["Counts", "NotRanked", "Report", "Score", "TaskRow", "Totals", "Unscored"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Counts(_Frozen):
    """Trials by how they ended; `total` is their sum."""

    solved: int = 0
    unsolved: int = 0
    unscored: int = 0
    pending: int = 0
    total: int = 0


class Score(Counts):
    """How a set of tasks went: see the module for what the numbers mean."""

    tasks: int = 0
    tasks_scored: int = 0
    """Those with at least one scored trial: the ones that `accuracy` is the mean of."""
    accuracy: float | None = None
    """None where nothing is scored."""
    accuracy_low: float | None = None
    accuracy_high: float | None = None
    spread: Spread | None = None
    """How far `accuracy` can be trusted, the unscored and pending apart; None where nothing is scored."""


class Totals(_Frozen):
    """Sums over the ended trials. None is a sum that nobody knows: not one of the trials told its part."""

    duration_s: float = 0.0
    """Of all phases of all trials: more than the wall time where trials ran side by side."""
    work_s: float = 0.0
    """The agents' own time."""
    commands: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    trials_without_tokens: int = 0
    """Ended trials whose tokens are unknown: with any, the sums of tokens are lower bounds."""
    trials_without_cost: int = 0


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task: its trials together, counted and summed as in `Counts` and `Totals`.

    A plain dataclass, because a run may have a hundred thousand tasks: it takes a fifth of a model's memory.
    """

    task_id: str
    category: str
    difficulty: str
    solved: int
    unsolved: int
    unscored: int
    pending: int
    total: int
    accuracy: float | None
    mean_reward: float | None
    """Of the scored trials."""
    failure_modes: Mapping[str, int]
    """How often each; a solved trial is in none."""
    tests_passed: int
    """Of the last ended attempt, as is `tests_total`."""
    tests_total: int
    duration_s: float
    work_s: float
    commands: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class Unscored(_Frozen):
    """A trial without a score, and why."""

    task_id: str
    attempt: int
    fault: str | None
    failure_mode: str
    message: str


class NotRanked(_Frozen):
    """Why this run's accuracy is not to be put beside others."""

    reason: str
    """Stable id: `host_root`, `timeout_multiplier`, `changed_limits`, `baseline`,
    `integrity_not_enforced`, `imported`, `substitutes`, `replayed_fetches`; an arena adds `unfinished` and
    `verification`."""
    message: str


class Report(Score):
    """A run, whole. Made from the journal alone, and the same every time it is made."""

    run_id: str
    agent: str
    agent_version: str
    model: str | None = None
    dataset: str
    dataset_digest: str
    """Equal for two runs of the same tasks."""
    driver: str
    imported_from: str | None = None
    """Another harness, where that carried the run out."""
    started_at: str | None = None
    finished_at: str | None = None
    """None while trials are pending."""
    attempts: int
    """Planned for each task."""
    retries: int = 0
    """Attempts that were made again because they could not be scored."""
    tampered: int = 0
    """Trials whose reward a critical integrity finding took away."""
    pass_at_1: float | None = None
    """The chance that one attempt at a task drawn evenly solves it: `accuracy` under its name among pass@k."""
    mean_reward: float | None = None
    """Over tasks, as `accuracy` is, but of rewards: it sees partial ones."""
    pass_rates: tuple[PassRate, ...] = ()
    per_solved: PerSolved | None = None
    """None where nothing was solved."""
    not_ranked: tuple[NotRanked, ...] = ()
    """Empty where nothing stands against a comparison."""
    totals: Totals
    by_category: Mapping[str, Score]
    by_difficulty: Mapping[str, Score]
    by_failure_mode: Mapping[str, int]
    """Ended trials; NONE is solved."""
    by_fault: Mapping[str, int]
    by_agent_end: Mapping[str, int]
    """`not_started` where the agent never did."""
    by_graded_in: Mapping[str, int]
    per_task: tuple[TaskRow, ...]
    unscored_trials: tuple[Unscored, ...]
    """The first of them; `unscored` counts all."""
    tampered_trials: tuple[str, ...]
    """`task/attempt`, the first of them; `tampered` counts all."""
    trials: tuple[TrialSummary, ...] | None = None
    """The last of every trial, where there are few enough (`MOST_TRIAL_ROWS`); else None, and the journal has them."""

    @property
    def is_complete(self) -> bool:
        """Whether every planned trial has ended."""
        return self.pending == 0
