"""What pages and the API ask the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from sqlalchemy import case, func, select
from sqlalchemy.orm import defer

from termarena.arena.rows import entrant_of, run_of, runs_query, trial_of, trials_query
from termarena.arena.schema import Dataset, Entrant, Run, RunTask, Task, Trial
from termarena.arena.standings import leaderboard_of
from termarena.arena.verified import verified_of
from termarena.arena.views import (
    Cell,
    DatasetRow,
    EntrantRow,
    Leaderboard,
    Matrix,
    MatrixRow,
    Rival,
    RunDetail,
    RunRow,
    TaskDetail,
    TaskRow,
    TaskShare,
    TrialRow,
)
from termarena.core.errors import NotFound
from termarena.core.run_folder import RunFolder
from termarena.reports import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.orm import Session

    from termarena.arena.filters import MatrixFilter, RunFilter, TrialFilter
    from termarena.runs.outcome import Outcome

__all__ = [
    "PAGE_TASKS",
    "dataset_rows",
    "entrant_rows",
    "find_dataset",
    "find_entrant",
    "find_run",
    "folder_of",
    "leaderboard",
    "matrix",
    "rivals",
    "run_detail",
    "run_rows",
    "task_detail",
    "task_shares",
    "trial_rows",
    "tries",
]

PAGE_TASKS: Final = 100
"""Tasks on one page of a run's matrix."""
MOST_CELLS: Final = 2_000
"""On one page: a run of many attempts has fewer tasks on each."""


def dataset_rows(session: Session) -> list[DatasetRow]:
    """Every set of tasks that has a run: those with a ranked one first, of them the one that changed last."""
    ranked = func.sum(case((Run.is_ranked & (Run.state == "finished"), 1), else_=0)).label("ranked")
    runs = select(Run.dataset_id, func.count().label("runs"), ranked).group_by(Run.dataset_id).subquery()
    chosen = select(Dataset, runs.c.runs, runs.c.ranked).join(runs, runs.c.dataset_id == Dataset.id)
    chosen = chosen.order_by((runs.c.ranked > 0).desc(), Dataset.updated_at.desc(), Dataset.id)
    chosen = chosen.options(defer(Dataset.standings, raiseload=True))
    return [
        DatasetRow(
            digest=row.digest,
            name=row.name,
            tasks=row.tasks,
            runs=count,
            ranked_runs=ranked_count,
            updated_at=row.updated_at,
        )
        for row, count, ranked_count in session.execute(chosen)
    ]


def leaderboard(session: Session, digest: str) -> Leaderboard:
    """The stored one, or, before there is one, one made now. Raises NotFound."""
    dataset = session.scalars(select(Dataset).where(Dataset.digest == digest)).first()
    if dataset is None:
        raise NotFound("no run of these tasks is known", hint="/api/datasets lists what there is")
    if dataset.standings is None:
        return leaderboard_of(session, dataset)
    return Leaderboard.model_validate_json(dataset.standings)


def run_rows(session: Session, chosen: RunFilter) -> list[RunRow]:
    """The newest first."""
    query = runs_query()
    conditions: list[ColumnElement[bool]] = []
    conditions += [Dataset.digest == chosen.dataset] if chosen.dataset else []
    conditions += [Entrant.agent == chosen.agent] if chosen.agent else []
    conditions += [Entrant.digest == chosen.entrant] if chosen.entrant else []
    conditions += [Run.state == chosen.state] if chosen.state else []
    found = session.execute(query.where(*conditions).limit(chosen.limit).offset(chosen.offset))
    return [run_of(*row) for row in found]


def rivals(session: Session, run: RunRow, *, limit: int) -> list[Rival]:
    """The newest other runs of the same tasks."""
    chosen = select(Run.slug, Run.name, Entrant.agent, Entrant.model).join(Entrant, Run.entrant_id == Entrant.id)
    chosen = chosen.join(Dataset, Run.dataset_id == Dataset.id)
    chosen = chosen.where(Dataset.digest == run.dataset_digest, Run.slug != run.slug)
    found = session.execute(chosen.order_by(Run.started_at.desc(), Run.id.desc()).limit(limit))
    return [Rival(slug=slug, name=name, agent=agent, model=model) for slug, name, agent, model in found]


def find_run(session: Session, slug: str) -> Run:
    """Raises NotFound."""
    run = session.scalars(select(Run).where(Run.slug == slug)).first()
    if run is None:
        raise NotFound("no such run is known here", hint="/api/runs lists what there is")
    return run


def folder_of(session: Session, slug: str) -> Path:
    """Where a run lies. Raises NotFound."""
    return Path(find_run(session, slug).folder)


def run_detail(session: Session, slug: str) -> RunDetail:
    """Raises NotFound."""
    row = session.execute(runs_query(has_reports=True).where(Run.slug == slug)).first()
    if row is None:
        raise NotFound("no such run is known here", hint="/api/runs lists what there is")
    verified = verified_of(RunFolder(Path(row[0].folder)))
    return RunDetail(run=run_of(*row), report=Report.model_validate_json(row[0].report), verified=verified)


def trial_rows(session: Session, slug: str, chosen: TrialFilter) -> list[TrialRow]:
    """What counts of each trial, in the order of tasks and attempts. Raises NotFound for the run."""
    run = find_run(session, slug)
    query = trials_query().where(Trial.run_id == run.id, Trial.is_counted)
    query = query.where(Trial.outcome == chosen.outcome) if chosen.outcome else query
    query = query.where(Trial.failure_mode == chosen.failure_mode) if chosen.failure_mode else query
    query = query.where(Task.slug == chosen.task) if chosen.task else query
    return [trial_of(*row) for row in session.execute(query.limit(chosen.limit).offset(chosen.offset))]


def tries(session: Session, run_slug: str, task_slug: str, attempt: int) -> list[TrialRow]:
    """Every try of one trial, the first one first. Raises NotFound where there is none."""
    run = find_run(session, run_slug)
    query = trials_query().where(Trial.run_id == run.id, Task.slug == task_slug, Trial.attempt == attempt)
    found = [trial_of(*row) for row in session.execute(query)]
    if not found:
        raise NotFound("no such trial has come to an outcome", hint=f"/api/runs/{run.slug}/trials lists those that did")
    return found


def matrix(session: Session, slug: str, chosen: MatrixFilter) -> Matrix:
    """The tasks of a run with the trials of each. Raises NotFound for the run."""
    run = find_run(session, slug)
    query = _matrix_query(run, chosen)
    found = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    attempts = max(1, run.total // max(1, _task_count(session, run)))
    size = max(1, min(PAGE_TASKS, MOST_CELLS // attempts))
    pages = max(1, -(-found // size))
    page = min(max(1, chosen.page), pages)
    rows = session.execute(query.order_by(Task.name).limit(size).offset((page - 1) * size)).all()
    cells = _cells(session, run, [task.id for _, task in rows])
    made = tuple(_matrix_row(row, task, cells.get(task.id, {})) for row, task in rows)
    return Matrix(rows=made, found=found, page=page, pages=pages)


def _task_count(session: Session, run: Run) -> int:
    return session.scalar(select(func.count()).where(RunTask.run_id == run.id)) or 0


def _matrix_query(run: Run, chosen: MatrixFilter) -> Select[RunTask, Task]:
    query = select(RunTask, Task).join(Task, RunTask.task_id == Task.id).where(RunTask.run_id == run.id)
    query = query.where(RunTask.category == chosen.category) if chosen.category else query
    query = query.where(RunTask.difficulty == chosen.difficulty) if chosen.difficulty else query
    query = query.where(Task.name.icontains(chosen.text, autoescape=True)) if chosen.text else query
    if chosen.outcome or chosen.failure_mode:
        trials = select(Trial.task_id).where(Trial.run_id == run.id, Trial.is_counted)
        trials = trials.where(Trial.outcome == chosen.outcome) if chosen.outcome else trials
        trials = trials.where(Trial.failure_mode == chosen.failure_mode) if chosen.failure_mode else trials
        query = query.where(RunTask.task_id.in_(trials))
    return query


_CELL = (Trial.task_id, Trial.attempt, Trial.retry, Trial.outcome, Trial.failure_mode, Trial.is_tampered)


def _cells(session: Session, run: Run, tasks: Sequence[int]) -> dict[int, dict[int, Cell]]:
    counted = select(*_CELL).where(Trial.run_id == run.id, Trial.is_counted, Trial.task_id.in_(tasks))
    found: dict[int, dict[int, Cell]] = {}
    for task_id, attempt, retry, outcome, mode, is_tampered in session.execute(counted):
        cell = Cell(
            attempt=attempt,
            outcome=cast("Outcome", outcome),
            failure_mode=mode,
            is_tampered=is_tampered,
            tries=retry + 1,
        )
        found.setdefault(task_id, {})[attempt] = cell
    return found


def _matrix_row(row: RunTask, task: Task, cells: dict[int, Cell]) -> MatrixRow:
    places = range(1, max(row.total, *cells, 0) + 1) if cells else range(1, row.total + 1)
    return MatrixRow(
        task=task.name,
        slug=task.slug,
        category=row.category,
        difficulty=row.difficulty,
        solved=row.solved,
        scored=row.solved + row.unsolved,
        duration_s=row.duration_s,
        cost_usd=row.cost_usd,
        cells=tuple(cells.get(place) or Cell(attempt=place, outcome="pending") for place in places),
    )


def task_detail(session: Session, slug: str, *, limit: int = 200) -> TaskDetail:
    """Raises NotFound."""
    task = session.scalars(select(Task).where(Task.slug == slug)).first()
    if task is None:
        raise NotFound("no run has met such a task", hint="/api/datasets/DIGEST/tasks lists those of a set")
    query = runs_query().join(RunTask, RunTask.run_id == Run.id).where(RunTask.task_id == task.id).add_columns(RunTask)
    rows = tuple(
        TaskRow(
            run=run_of(run, entrant, dataset),
            **{name: getattr(row, name) for name in ("digest", "total", "solved", "unsolved", "unscored")},
        )
        for run, entrant, dataset, row in session.execute(query.limit(limit))
    )
    return TaskDetail(name=task.name, slug=task.slug, instruction=task.instruction, runs=rows)


def find_dataset(session: Session, digest: str) -> DatasetRow:
    """Raises NotFound."""
    found = next((row for row in dataset_rows(session) if row.digest == digest), None)
    if found is None:
        raise NotFound("no run of these tasks is known", hint="/api/datasets lists what there is")
    return found


def task_shares(session: Session, digest: str, *, limit: int = 100, offset: int = 0) -> list[TaskShare]:
    """The tasks of a set over all of its runs, the hardest first; empty for a set that is not known."""
    solved, scored = func.sum(RunTask.solved), func.sum(RunTask.solved + RunTask.unsolved)
    chosen = (
        select(Task.name, Task.slug, func.min(RunTask.category), solved, scored)
        .join(RunTask, RunTask.task_id == Task.id)
        .join(Run, RunTask.run_id == Run.id)
        .join(Dataset, Run.dataset_id == Dataset.id)
        .where(Dataset.digest == digest)
        .group_by(Task.id, Task.name, Task.slug)
        .order_by(solved * 1.0 / func.nullif(scored, 0), Task.name)
    )
    return [
        TaskShare(
            name=name,
            slug=slug,
            category=category,
            solved=int(won),
            scored=int(number),
            share=won / number if number else None,
        )
        for name, slug, category, won, number in session.execute(chosen.limit(limit).offset(offset))
    ]


def entrant_rows(session: Session) -> list[EntrantRow]:
    """By name."""
    chosen = select(Entrant).order_by(Entrant.agent, Entrant.model, Entrant.version, Entrant.id)
    return [entrant_of(one) for one in session.scalars(chosen)]


def find_entrant(session: Session, digest: str) -> EntrantRow:
    """Raises NotFound."""
    found = session.scalars(select(Entrant).where(Entrant.digest == digest)).first()
    if found is None:
        raise NotFound("no such agent is known here", hint="/api/agents lists those that are")
    return entrant_of(found)
