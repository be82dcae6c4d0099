"""Taking in a run: its folder becomes rows. Doing it again changes nothing; a run that goes on is taken in piece by
piece, each in one transaction."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sqlalchemy import Insert, delete, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from termarena.arena.checking import changed_since, check_plan
from termarena.arena.received import is_being_sent, sender_of
from termarena.arena.schema import Dataset, Entrant, Run, RunTask, Table, Task, Trial
from termarena.arena.verified import verified_of
from termarena.core.errors import TaskFormatError, UsageError
from termarena.core.run_folder import folder_name
from termarena.core.trajectory import read_trajectory
from termarena.reports import NotRanked, build_report
from termarena.runs.config_lock import read_config_lock
from termarena.runs.journal import now
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.orm import Session

    from termarena.arena.database import Database
    from termarena.core.run_folder import RunFolder
    from termarena.reports import Report
    from termarena.runs.reading import RunView
    from termarena.runs.result import TrialSummary

__all__ = ["Taken", "add_missing", "plain", "take_in"]

Item = TypeVar("Item")
# SQLite takes 32,766 parameters in a statement, and a trial has 21 columns.
BATCH: Final = 500
NAMED_TRIALS: Final = 50
"""Of the unscored and of the tampered ones in a stored report; pages list the rest."""
LARGEST_TRAJECTORY_BYTES: Final = 8 << 20
LONGEST_INSTRUCTION: Final = 100_000
SETUP: Final = (
    "max_steps",
    "temperature",
    "max_reply_tokens",
    "examples",
    "example_count",
    "tools",
    "trial_budget_usd",
    "trial_budget_tokens",
)
"""Options that make another entrant of the same agent and model."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of it."""

    slug: str
    trials: int
    """Trials that are new or have changed."""
    is_changed: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database holds of the run already."""

    id: int
    seq: int
    state: str
    folder: str
    size_bytes: int


def take_in(database: Database, folder: RunFolder) -> Taken:
    """Take in what the run's folder holds by now.

    Raises what reading a run raises, UsageError where another folder has the same name, and SQLAlchemy's DBAPIError;
    then nothing of it is in the database that was not before.
    """
    slug = folder_name(folder.id)
    known = _known(database, slug)
    if known is not None and known.folder != str(folder.path.resolve()):
        raise UsageError(f"{folder.path} is not taken in: {known.folder} has the same name", hint="rename one of them")
    if known is not None and _is_as_known(folder, known):
        return Taken(slug, trials=0, is_changed=False)
    check_plan(folder, read_config_lock(folder))
    known_seq = known.seq if known else 0
    changed_since(folder, known_seq)  # nothing is made of a journal that was not checked
    view = _view(folder)
    # Looked for after the view is taken: what the run did in between is in here, and comes again the next time.
    changed = {key for key in changed_since(folder, known_seq) if key in view.history}
    piece = _Piece(slug, changed, known_seq=known_seq, is_first=known is None)
    if known is not None and known.seq > view.history.tail.seq:  # put back from a copy: begin anew
        everything = {TrialKey(one.task_id, one.attempt) for one in view.history.summaries()}
        piece = replace(piece, changed=everything, is_first=True)
    elif known is not None and known.seq == view.history.tail.seq and known.state == view.state:
        return Taken(slug, trials=0, is_changed=False)
    report = _flagged(build_report(view), folder)
    with database.writing() as session:
        is_ours = _write(session, view, report, piece)
    return Taken(slug, trials=len(piece.changed), is_changed=is_ours)


def _flagged(report: Report, folder: RunFolder) -> Report:
    """The report, which says so where the run was handed in and found to be less than it should."""
    verified = verified_of(folder)
    if verified is None or verified.is_rankable:
        return report
    word = "not sound" if not verified.is_sound else "not to be compared"
    first = next(one.message for one in verified.findings if one.severity != "note")
    told = NotRanked(reason="verification", message=f"what was handed in is {word}: {first}")
    return report.model_copy(update={"not_ranked": (*report.not_ranked, told)})


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is to be written."""

    slug: str
    changed: set[TrialKey]
    known_seq: int
    """How far it was known when reading began; 0 is not at all."""
    is_first: bool
    """Whether nothing that is there of it counts."""


def _known(database: Database, slug: str) -> _Known | None:
    with database.reading() as session:
        row = session.execute(
            select(Run.id, Run.journal_seq, Run.state, Run.folder, Run.journal_bytes).where(Run.slug == slug)
        ).first()
    return None if row is None else _Known(*row)


def _view(folder: RunFolder) -> RunView:
    """As it is read; a run that is being sent goes on somewhere else, where its lock is held."""
    view = read_run(folder)
    is_sent = view.state == "interrupted" and is_being_sent(folder)
    return replace(view, state="running") if is_sent else view


def _is_as_known(folder: RunFolder, known: _Known) -> bool:
    """Whether a run that is finished has had no event since: then its journal need not be read."""
    try:
        return known.state == "finished" and folder.journal.stat().st_size == known.size_bytes
    except OSError:
        return False


def _write(session: Session, view: RunView, report: Report, piece: _Piece) -> bool:
    """Whether it was written: someone else may have taken in more of it meanwhile."""
    dataset_id = _dataset(session, view)
    columns = _run_columns(view, report) | {"dataset_id": dataset_id, "entrant_id": _entrant(session, view)}
    add_missing(session, Run, [columns | {"slug": piece.slug}])
    run_id, seq = session.execute(select(Run.id, Run.journal_seq).where(Run.slug == piece.slug).with_for_update()).one()
    if seq > max(view.history.tail.seq, piece.known_seq):
        return False
    session.execute(update(Run).where(Run.id == run_id).values(columns))
    names = {row.task_id for row in report.per_task}
    tasks = _tasks(session, names)
    _write_tasks(session, view, report, run_id=run_id, tasks=tasks)
    if piece.is_first:
        session.execute(delete(Trial).where(Trial.run_id == run_id))
    _write_trials(session, view, piece, run_id=run_id, tasks=tasks)
    _tell_instructions(session, view, piece.changed)
    return True


def _dataset(session: Session, view: RunView) -> int:
    locked, tasks = view.lock.dataset, len(view.lock.tasks)
    row = {"digest": plain(locked.digest), "name": plain(locked.name), "tasks": tasks, "updated_at": now()}
    add_missing(session, Dataset, [row | {"changes": 0, "standings_at_change": 0}])
    found = session.scalars(select(Dataset.id).where(Dataset.digest == row["digest"])).one()
    session.execute(update(Dataset).where(Dataset.id == found).values(changes=Dataset.changes + 1, updated_at=now()))
    return found


def _entrant(session: Session, view: RunView) -> int:
    options, usual = view.lock.options, RunOptions()
    given = {name: getattr(options, name) for name in SETUP if getattr(options, name) != getattr(usual, name)}
    row = {
        "agent": plain(options.agent),
        "version": plain(view.lock.versions.agent),
        "model": None if options.model is None else plain(options.model),
        "setup": json.dumps({name: plain(_told(value)) for name, value in given.items()}, sort_keys=True),
    }
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]
    add_missing(session, Entrant, [row | {"digest": digest}])
    return session.scalars(select(Entrant.id).where(Entrant.digest == digest)).one()


def _told(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _run_columns(view: RunView, report: Report) -> dict[str, object]:
    spread, totals = report.spread, report.totals
    stored = report.model_copy(
        update={
            "per_task": (),
            "trials": None,
            "unscored_trials": report.unscored_trials[:NAMED_TRIALS],
            "tampered_trials": report.tampered_trials[:NAMED_TRIALS],
        }
    )
    return {
        "name": plain(view.folder.id),
        "folder": str(view.folder.path.resolve()),
        "sender": sender_of(view.folder),
        "state": view.state,
        "started_at": report.started_at,
        "updated_at": view.history.updated_at,
        "journal_seq": view.history.tail.seq,
        "journal_bytes": view.history.tail.size_bytes,
        "is_ranked": not report.not_ranked,
        **{name: getattr(report, name) for name in ("total", "solved", "unsolved", "unscored", "pending")},
        **{name: getattr(report, name) for name in ("accuracy", "accuracy_low", "accuracy_high")},
        "interval_low": None if spread is None else spread.low,
        "interval_high": None if spread is None else spread.high,
        "cost_usd": None if totals.trials_without_cost else totals.cost_usd,
        "report": plain(stored.model_dump_json()),
    }


def _tasks(session: Session, names: Iterable[str]) -> dict[str, int]:
    """The id of every task by its name."""
    clean = {name: _held_name(name) for name in names}
    add_missing(session, Task, [{"name": value, "slug": folder_name(name)} for name, value in clean.items()])
    found: dict[str, int] = {}
    for some in _batched(clean.values(), BATCH):
        chosen = select(Task.name, Task.id).where(Task.name.in_(some))
        found |= {name: task_id for name, task_id in session.execute(chosen)}  # noqa: C416 - a result has keys of its own
    return {name: found[value] for name, value in clean.items()}


def _held_name(name: str) -> str:
    """A name that no database can hold as it is must not become another's."""
    return name if plain(name) == name else folder_name(name)


def _write_tasks(session: Session, view: RunView, report: Report, *, run_id: int, tasks: dict[str, int]) -> None:
    locked = {task.id: task for task in view.lock.tasks}
    rows = [
        {
            "run_id": run_id,
            "task_id": tasks[row.task_id],
            "digest": plain(locked[row.task_id].digest) if row.task_id in locked else "",
            "is_mixed": row.task_id in view.history.changed,
            "category": plain(row.category),
            "difficulty": plain(row.difficulty),
            **{name: getattr(row, name) for name in ("total", "solved", "unsolved", "unscored")},
            "duration_s": row.duration_s,
            "cost_usd": row.cost_usd,
        }
        for row in report.per_task
    ]
    session.execute(delete(RunTask).where(RunTask.run_id == run_id))
    _insert(session, RunTask, rows)


def _write_trials(session: Session, view: RunView, piece: _Piece, *, run_id: int, tasks: dict[str, int]) -> None:
    history = view.history
    keys = piece.changed
    if piece.is_first:  # those of tasks that do not load have no line in the journal
        keys = keys | {key for key in _broken_keys(view) if key in history}
    if not piece.is_first:
        _forget(session, run_id, [(tasks[key.task_id], key.attempt) for key in keys])
    rows = [row for key in sorted(keys) for row in _trial_rows(view, key, run_id=run_id, task_id=tasks[key.task_id])]
    _insert(session, Trial, rows)


def _broken_keys(view: RunView) -> Iterator[TrialKey]:
    broken = [task.id for task in view.lock.tasks if task.problem is not None]
    return (TrialKey(name, attempt) for name in broken for attempt in range(1, view.lock.options.attempts + 1))


def _forget(session: Session, run_id: int, keys: list[tuple[int, int]]) -> None:
    for some in _batched(keys, BATCH):
        session.execute(delete(Trial).where(Trial.run_id == run_id, tuple_(Trial.task_id, Trial.attempt).in_(some)))


_TRIAL_NAMES: Final = tuple(
    column.name for column in Trial.__table__.columns if column.name not in {"run_id", "task_id", "is_counted"}
)


def _trial_rows(view: RunView, key: TrialKey, *, run_id: int, task_id: int) -> Iterator[dict[str, object]]:
    counted = view.history.summary(key)
    for summary in view.history.tries(key):
        is_counted = counted is not None and summary.retry == counted.retry
        yield {"run_id": run_id, "task_id": task_id, "is_counted": is_counted, **_columns(summary)}


def _columns(summary: TrialSummary) -> dict[str, object]:
    row = {name: getattr(summary, name) for name in _TRIAL_NAMES}
    row["message"] = plain(summary.message)
    row["graded_in"] = None if summary.graded_in is None else plain(summary.graded_in)
    return row


def _tell_instructions(session: Session, view: RunView, changed: set[TrialKey]) -> None:
    """Take the words of a task from the first trajectory that has them; what no trajectory tells stays unknown."""
    keys = {key.task_id: key for key in sorted(changed)}
    for some in _batched(keys, BATCH):
        asked = select(Task.name).where(Task.name.in_([_held_name(name) for name in some]), Task.instruction.is_(None))
        untold = set(session.scalars(asked))
        for name in some:
            instruction = _instruction(view, keys[name]) if _held_name(name) in untold else None
            if instruction is not None:
                session.execute(update(Task).where(Task.name == _held_name(name)).values(instruction=instruction))


def _instruction(view: RunView, key: TrialKey) -> str | None:
    summary = view.history.summary(key)
    folder = view.folder.attempt(*key, retry=summary.retry if summary else 0)
    try:
        if folder.trajectory.stat().st_size > LARGEST_TRAJECTORY_BYTES:
            return None
        first = read_trajectory(folder.trajectory).steps[0]
    except (OSError, TaskFormatError):
        return None
    is_told = first.source == "user" and isinstance(first.message, str)
    return plain(cast("str", first.message))[:LONGEST_INSTRUCTION] if is_told else None


def add_missing(session: Session, table: type[Table], rows: list[dict[str, Any]]) -> None:
    """Insert the rows that are not there yet; two servers may do so at once."""
    make = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    for some in _batched(rows, BATCH):
        session.execute(cast("Insert", make(table).on_conflict_do_nothing()), list(some))


def _insert(session: Session, table: type[Table], rows: list[dict[str, Any]]) -> None:
    for some in _batched(rows, BATCH):
        session.execute(insert(table), list(some))


def _batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    rest = iter(items)
    while some := tuple(islice(rest, size)):
        yield some


def plain(text: str) -> str:
    """The text as any database holds it: without NUL, and without halves of characters."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()
