"""Standings: who is how good at a set of tasks. The statistics are those of `analysis` and `stats`.

An entry is an agent in one setup, with all of its ranked runs together: whoever runs again and again gets a narrower
interval and not a better best. Runs that are not finished, or whose report says that they are not to be ranked, stand
beside the table with the reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select, update
from sqlalchemy.orm import defer

from termarena.analysis import ComparisonOptions, Contestant, TaskScores, compare_contestants
from termarena.arena.rows import entrant_of, run_of, runs_query
from termarena.arena.schema import Dataset, Entrant, Run, RunTask, Task
from termarena.arena.views import Entry, Leaderboard, Unranked
from termarena.reports import NotRanked
from termarena.runs.journal import now
from termarena.stats import CONFIDENCE, RankSet, accuracy_of, bounds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from termarena.analysis import Side
    from termarena.arena.database import Database

__all__ = ["MOST_COMPARED", "leaderboard_of", "refresh_standings"]

MOST_COMPARED: Final = 50
"""Entries that are compared with each other, the best means first: 1,225 pairs."""
MOST_UNRANKED: Final = 100
_ALONE: Final = RankSet(1, 1)
_UNFINISHED: Final = NotRanked(reason="unfinished", message="not every trial has ended")


@dataclass(slots=True)
class _Pooled:
    """All ranked runs of one entrant at one set of tasks."""

    entrant: Entrant
    runs: list[Run] = field(default_factory=list)
    tasks: dict[str, TaskScores] = field(default_factory=dict)
    duration_s: float = 0.0

    def add(self, task: str, row: RunTask) -> None:
        held = self.tasks.setdefault(task, TaskScores(row.digest, planned=0))
        held.planned += row.total
        held.unscored += row.unscored
        held.scores += [1.0] * row.solved + [0.0] * row.unsolved
        held.is_mixed |= row.is_mixed
        self.duration_s += row.duration_s

    @property
    def mean(self) -> float:
        found = accuracy_of([task.scores for task in self.tasks.values()])
        return -1.0 if found is None else found.mean

    @property
    def cost_usd(self) -> float | None:
        costs = [run.cost_usd for run in self.runs if run.cost_usd is not None]
        return sum(costs) if len(costs) == len(self.runs) else None


def refresh_standings(database: Database) -> int:
    """Make the leaderboards of all datasets whose runs have changed; return how many.

    What is taken in meanwhile leaves them stale, and the next call makes them again.
    """
    with database.reading() as session:
        stale = session.scalars(select(Dataset).where(Dataset.changes != Dataset.standings_at_change)).all()
        made = [(dataset.id, dataset.changes, leaderboard_of(session, dataset)) for dataset in stale]
    for dataset_id, changes, board in made:
        values = {"standings": board.model_dump_json(), "standings_at_change": changes}
        with database.writing() as session:
            session.execute(update(Dataset).where(Dataset.id == dataset_id).values(values))
    return len(stale)


def leaderboard_of(session: Session, dataset: Dataset) -> Leaderboard:
    """Computed now, from the runs of this set of tasks; every two of the best entries are compared."""
    pooled = _pooled(session, dataset)
    compared, rest = pooled[:MOST_COMPARED], pooled[MOST_COMPARED:]
    is_out = (Run.dataset_id == dataset.id, ~(Run.is_ranked & (Run.state == "finished")))
    return Leaderboard(
        dataset=dataset.name,
        digest=dataset.digest,
        tasks=dataset.tasks,
        made_at=now(),
        confidence=CONFIDENCE,
        entries=(*_compared(compared), *(_entry(one, None) for one in rest)),
        not_compared=len(rest),
        unranked=tuple(_unranked(session, is_out)),
        unranked_count=session.scalar(select(func.count()).select_from(Run).where(*is_out)) or 0,
    )


def _pooled(session: Session, dataset: Dataset) -> list[_Pooled]:
    """Every entrant with a ranked run, the best mean first."""
    is_in = (Run.dataset_id == dataset.id, Run.is_ranked, Run.state == "finished")
    found: dict[int, _Pooled] = {}
    owners: dict[int, _Pooled] = {}
    runs = select(Run, Entrant).join(Entrant, Run.entrant_id == Entrant.id).where(*is_in)
    runs = runs.options(defer(Run.report, raiseload=True))
    for run, entrant in session.execute(runs.order_by(Run.started_at.desc(), Run.id.desc())):
        owners[run.id] = found.setdefault(entrant.id, _Pooled(entrant))
        owners[run.id].runs.append(run)
    rows = select(RunTask, Task.name).join(Task, RunTask.task_id == Task.id).join(Run, RunTask.run_id == Run.id)
    for row, name in session.execute(rows.where(*is_in)):
        owners[row.run_id].add(name, row)
    return sorted(found.values(), key=lambda one: (-one.mean, one.entrant.digest))


def _compared(pooled: Sequence[_Pooled]) -> list[Entry]:
    if len(pooled) < 2:  # noqa: PLR2004 - nobody to compare it with
        return [_entry(one, _ALONE) for one in pooled]
    contestants = [_contestant(one) for one in pooled]
    sides: Sequence[Side] = compare_contestants(contestants, ComparisonOptions()).sides
    return [_entry(one, side.ranks) for one, side in zip(pooled, sides, strict=True)]


def _contestant(one: _Pooled) -> Contestant:
    entrant = one.entrant
    return Contestant(entrant.digest, entrant.agent, entrant.model, dataset="", tasks=one.tasks, conditions={})


def _entry(one: _Pooled, ranks: RankSet | None) -> Entry:
    tasks = list(one.tasks.values())
    scores = [task.scores for task in tasks]
    accuracy, bounds = accuracy_of(scores), bounds_of(scores, [task.missing for task in tasks])
    interval = None if accuracy is None else accuracy.interval
    trials = sum(task.planned for task in tasks)
    return Entry(
        entrant=entrant_of(one.entrant),
        runs=tuple(run.slug for run in one.runs),
        best_rank=None if ranks is None else ranks.best,
        worst_rank=None if ranks is None else ranks.worst,
        accuracy=None if accuracy is None else accuracy.mean,
        interval_low=None if interval is None else interval.low,
        interval_high=None if interval is None else interval.high,
        standard_error=None if accuracy is None else accuracy.standard_error,
        rerun_error=None if accuracy is None else accuracy.rerun_error,
        accuracy_low=None if bounds is None else bounds.low,
        accuracy_high=None if bounds is None else bounds.high,
        trials=trials,
        unscored=sum(task.missing for task in tasks),
        cost_usd_per_trial=None if one.cost_usd is None or not trials else one.cost_usd / trials,
        duration_s_per_trial=one.duration_s / trials if trials else None,
    )


def _unranked(session: Session, is_out: tuple[ColumnElement[bool], ...]) -> list[Unranked]:
    """The newest of them."""
    found = session.execute(runs_query(has_reports=True).where(*is_out).limit(MOST_UNRANKED))
    return [Unranked(run=run_of(run, entrant, held), reasons=_reasons(run)) for run, entrant, held in found]


def _reasons(run: Run) -> tuple[NotRanked, ...]:
    told = tuple(NotRanked.model_validate(one) for one in json.loads(run.report)["not_ranked"])
    return told if run.state == "finished" else (_UNFINISHED, *told)
