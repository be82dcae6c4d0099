"""From rows of the database to what is shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from sqlalchemy import select
from sqlalchemy.orm import defer

from termarena.arena.schema import Dataset, Entrant, Run, Task, Trial
from termarena.arena.views import EntrantRow, RunRow, TrialRow

if TYPE_CHECKING:
    from sqlalchemy import Select

    from termarena.runs.outcome import Outcome
    from termarena.runs.reading import RunState

__all__ = ["entrant_of", "run_of", "runs_query", "trial_of", "trials_query"]

_SAME = ("slug", "name", "started_at", "updated_at", "is_ranked", "total", "solved", "unsolved", "unscored", "pending")
_NUMBERS = ("accuracy", "accuracy_low", "accuracy_high", "interval_low", "interval_high", "cost_usd")
_TRIAL = tuple(name for name in TrialRow.model_fields if name not in {"task", "task_slug", "outcome"})


def runs_query(*, has_reports: bool = False) -> Select[Run, Entrant, Dataset]:
    """Runs with whom and at what, the newest first; without what is stored as JSON, which is most of a row."""
    large = [defer(Dataset.standings, raiseload=True), *([] if has_reports else [defer(Run.report, raiseload=True)])]
    chosen = select(Run, Entrant, Dataset).join(Entrant, Run.entrant_id == Entrant.id)
    chosen = chosen.join(Dataset, Run.dataset_id == Dataset.id).order_by(Run.started_at.desc(), Run.id.desc())
    return chosen.options(*large)


def trials_query() -> Select[Trial, Task]:
    """Tries with their tasks, in the order of tasks and attempts."""
    chosen = select(Trial, Task).join(Task, Trial.task_id == Task.id)
    return chosen.order_by(Task.name, Trial.attempt, Trial.retry)


def entrant_of(entrant: Entrant) -> EntrantRow:
    """As it is shown."""
    return EntrantRow(
        id=entrant.digest,
        agent=entrant.agent,
        version=entrant.version,
        model=entrant.model,
        setup=json.loads(entrant.setup),
    )


def run_of(run: Run, entrant: Entrant, dataset: Dataset) -> RunRow:
    """As it is shown."""
    return RunRow(
        entrant=entrant_of(entrant),
        dataset=dataset.name,
        dataset_digest=dataset.digest,
        state=cast("RunState", run.state),
        **{name: getattr(run, name) for name in (*_SAME, *_NUMBERS)},
    )


def trial_of(trial: Trial, task: Task) -> TrialRow:
    """As it is shown."""
    return TrialRow(
        task=task.name,
        task_slug=task.slug,
        outcome=cast("Outcome", trial.outcome),
        **{name: getattr(trial, name) for name in _TRIAL},
    )
