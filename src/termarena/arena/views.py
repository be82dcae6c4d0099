"""What the arena shows: one set of types for the API and for the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from termarena.arena.verified import Verified
from termarena.reports import NotRanked, Report
from termarena.runs.outcome import Outcome
from termarena.runs.reading import RunState

__all__ = [
    "Cell",
    "DatasetRow",
    "EntrantRow",
    "Entry",
    "Leaderboard",
    "Matrix",
    "MatrixRow",
    "Rival",
    "RunDetail",
    "RunRow",
    "TaskDetail",
    "TaskRow",
    "TaskShare",
    "TrialRow",
    "Unranked",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EntrantRow(_Frozen):
    """An agent in one setup."""

    id: str
    agent: str
    version: str
    model: str | None
    setup: Mapping[str, str]
    """What it was given beyond the usual: steps, temperature, examples …"""


class RunRow(_Frozen):
    """A run in a list."""

    slug: str
    """Its name in addresses."""
    name: str
    entrant: EntrantRow
    dataset: str
    dataset_digest: str
    state: RunState
    started_at: str | None
    updated_at: str | None
    is_ranked: bool
    total: int
    solved: int
    unsolved: int
    unscored: int
    pending: int
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    interval_low: float | None
    interval_high: float | None
    cost_usd: float | None
    """None is unknown: some trial did not tell its part."""


class Rival(_Frozen):
    """A run that another can be compared with."""

    slug: str
    name: str
    agent: str
    model: str | None


class Entry(_Frozen):
    """One place of a leaderboard: every ranked run of one agent in one setup, together."""

    entrant: EntrantRow
    runs: tuple[str, ...]
    """Their slugs, the newest first."""
    best_rank: int | None
    """None where it was not compared: see `Leaderboard.not_compared`."""
    worst_rank: int | None
    accuracy: float | None
    interval_low: float | None
    interval_high: float | None
    standard_error: float | None
    rerun_error: float | None
    accuracy_low: float | None
    """With every missing score as failed; `accuracy_high` with every one as solved."""
    accuracy_high: float | None
    trials: int
    unscored: int
    cost_usd_per_trial: float | None
    duration_s_per_trial: float | None


class Unranked(_Frozen):
    """A run that is shown beside the leaderboard, and why."""

    run: RunRow
    reasons: tuple[NotRanked, ...]


class Leaderboard(_Frozen):
    """Who is how good at one set of tasks, and how far that can be told apart."""

    dataset: str
    digest: str
    tasks: int
    made_at: str
    confidence: float
    entries: tuple[Entry, ...]
    """The best mean first."""
    not_compared: int = 0
    """Entries below the first so many, which alone are compared with each other."""
    unranked: tuple[Unranked, ...]
    """The newest of them."""
    unranked_count: int


class DatasetRow(_Frozen):
    """A set of tasks in a list."""

    digest: str
    name: str
    tasks: int
    runs: int
    ranked_runs: int
    updated_at: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One trial in the matrix of a run; it and its matrix are for pages only."""

    attempt: int
    outcome: Outcome | Literal["pending"]
    failure_mode: str = ""
    is_tampered: bool = False
    tries: int = 1


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One task of a run."""

    task: str
    slug: str
    category: str
    difficulty: str
    solved: int
    scored: int
    duration_s: float
    cost_usd: float | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A part of the tasks of a run."""

    rows: tuple[MatrixRow, ...]
    found: int
    """Tasks that the filter lets through."""
    page: int
    pages: int


class RunDetail(_Frozen):
    """A run and its report; the report's tasks and trials have addresses of their own."""

    run: RunRow
    report: Report
    verified: Verified | None = None
    """What was found in it, where it was handed in as a bundle."""


class TrialRow(_Frozen):
    """One try of a trial."""

    task: str
    task_slug: str
    attempt: int
    retry: int
    is_counted: bool
    outcome: Outcome
    agent_end: str | None
    fault: str | None
    failure_mode: str
    reward: float | None
    is_tampered: bool
    graded_in: str | None
    tests_passed: int
    tests_total: int
    duration_s: float
    work_s: float | None
    commands: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    message: str


class TaskRow(_Frozen):
    """How one run did at one task."""

    run: RunRow
    digest: str
    total: int
    solved: int
    unsolved: int
    unscored: int


class TaskShare(_Frozen):
    """How often a task of a set was solved, over all runs of the set."""

    name: str
    slug: str
    category: str
    solved: int
    scored: int
    share: float | None
    """None where no trial has a score."""


class TaskDetail(_Frozen):
    """A task, and how runs did at it, the newest first."""

    name: str
    slug: str
    instruction: str | None
    """As an agent was told it; None where no trajectory has it."""
    runs: tuple[TaskRow, ...]
