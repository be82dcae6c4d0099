"""A run as one side of a comparison: what it scored at each task, and what stands against taking it at its word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from termarena.runs.plan import RunOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.runs.config_lock import ConfigLock
    from termarena.runs.reading import RunView
    from termarena.runs.result import TrialSummary

__all__ = ["Contestant", "Metric", "TaskScores", "contestant_of"]

Metric = Literal["solved", "reward"]


@dataclass(slots=True)
class TaskScores:
    """One task in one run."""

    digest: str
    """Empty where nobody knows: results of other harnesses."""
    planned: int
    scores: list[float] = field(default_factory=list)
    unscored: int = 0
    is_mixed: bool = False
    """The task was changed while the run went on, and the change was accepted."""

    @property
    def missing(self) -> int:
        """Attempts without a score: unscored, or not run yet."""
        return max(self.unscored, self.planned - len(self.scores))


@dataclass(frozen=True, slots=True)
class Contestant:
    """One run, by its scores."""

    name: str
    """The run's id."""
    agent: str
    model: str | None
    dataset: str
    tasks: Mapping[str, TaskScores]
    conditions: Mapping[str, str]
    """Under what the scores were made; where two runs differ in one, a difference may be due to that."""

    @property
    def unscored(self) -> int:
        """Trials that ended without a score."""
        return sum(task.unscored for task in self.tasks.values())

    @property
    def pending(self) -> int:
        """Planned trials that have not ended."""
        return sum(task.missing - task.unscored for task in self.tasks.values())


def contestant_of(view: RunView, metric: Metric) -> Contestant:
    """The run's side. A scored trial without a reward counts as unscored where rewards are compared."""
    lock, history = view.lock, view.history
    tasks = {
        task.id: TaskScores(task.digest, planned=lock.options.attempts, is_mixed=task.id in history.changed)
        for task in lock.tasks
    }
    for trial in history.summaries():
        task = tasks.setdefault(trial.task_id, TaskScores("", planned=0))
        score = _score(trial, metric)
        if score is None:
            task.unscored += 1
        else:
            task.scores.append(score)
    return Contestant(
        name=view.folder.id,
        agent=lock.options.agent,
        model=lock.options.model,
        dataset=lock.dataset.name,
        tasks=tasks,
        conditions=_conditions(lock),
    )


def _score(trial: TrialSummary, metric: Metric) -> float | None:
    if trial.outcome == "unscored":
        return None
    return float(trial.outcome == "solved") if metric == "solved" else trial.reward


def _conditions(lock: ConfigLock) -> dict[str, str]:
    options, origin = lock.options, lock.origin
    limits = {"timeout multiplier": f"{options.timeout_multiplier:g}"} if options.timeout_multiplier != 1 else {}
    if origin is not None:
        limits |= {f"limit {name}": value for name, value in origin.changed_limits.items()}
        return {"harness": origin.tool, **limits}
    usual_s = RunOptions.model_fields["default_timeout_s"].default
    if options.default_timeout_s != usual_s:
        limits["time for tasks without a limit"] = f"{options.default_timeout_s:g} s"
    return {"harness": "termarena", "grading": options.grading, "integrity": options.integrity, **limits}
