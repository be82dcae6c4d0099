"""A run as its journal tells it: the outcome of every trial, and how far it has come. Reads nothing but two files."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from termarena.core.errors import AgentGone, UsageError
from termarena.runs.config_lock import ConfigLock, read_config_lock
from termarena.runs.journal import JournalReader, Tail
from termarena.runs.locking import is_held
from termarena.runs.plan import TrialKey
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.core.run_folder import RunFolder
    from termarena.models.budget import Amount
    from termarena.runs.journal import Event

__all__ = ["Counts", "History", "RunState", "RunView", "history_of", "keep_broken", "read_run"]

RunState = Literal["running", "interrupted", "finished"]
JOURNAL_VERSION: Final = 1

# A summary is kept as a tuple of its values, 0.5 kB each: as an object it would be four times that.
_Row = tuple[Any, ...]
_NAMES: Final = tuple(TrialSummary.model_fields)
_DEFAULTS: Final = tuple(None if f.is_required() else f.default for f in TrialSummary.model_fields.values())
_RETRY: Final = _NAMES.index("retry")
_OUTCOME: Final = _NAMES.index("outcome")


class Counts(NamedTuple):
    """The trials of a run by what they came to; together they are `total`."""

    total: int
    solved: int
    unsolved: int
    unscored: int
    missing: int
    """Without an outcome so far."""


@dataclass(slots=True)
class History:
    """Everything that a journal says, in memory that grows with the trials and not with what they wrote."""

    started_at: str | None = None
    finished_at: str | None = None
    """When everything had an outcome; None while it has not."""
    updated_at: str | None = None
    """Of the last event."""
    resumes: int = 0
    regrades: int = 0
    interruptions: int = 0
    """Trials that were stopped before they came to an outcome, and were left to run again."""
    retries: int = 0
    """Tries that followed one that could not be scored."""
    stopped_by: str | None = None
    """Why it last stopped before its end: a signal, a full disk. None while it goes on, and where it was killed."""
    lacks_agent: bool = False
    """It stopped since nobody was at its agent's address, and has not come to its end after that."""
    source: str | None = None
    """The dataset that the last resume was pointed to, if one was."""
    changed: dict[str, str] = field(default_factory=dict)
    """Digests of tasks whose change was accepted at a resume."""
    open: dict[TrialKey, int] = field(default_factory=dict)
    """Trials that have begun and not ended, with their retry."""
    tail: Tail = field(default_factory=Tail)
    _rows: dict[TrialKey, _Row] = field(default_factory=dict)
    _earlier: dict[TrialKey, list[_Row]] = field(default_factory=dict)

    def __contains__(self, key: TrialKey) -> bool:
        """Whether the trial has an outcome, be it unscored."""
        return key in self._rows

    def __len__(self) -> int:
        """How many trials have an outcome."""
        return len(self._rows)

    def summary(self, key: TrialKey) -> TrialSummary | None:
        """What counts for this trial: its last scored try, else its last; None where it has no outcome."""
        row = self._rows.get(key)
        return None if row is None else _summary(row)

    def summaries(self) -> Iterator[TrialSummary]:
        """What counts, of every trial with an outcome, in the order in which they came to one."""
        return map(_summary, self._rows.values())

    def spent(self) -> Amount:
        """What models have used in all tries together, as far as it was told."""
        from termarena.models.budget import Amount  # noqa: PLC0415 - only who goes on with a run asks

        rows = [*self._rows.values(), *(row for rows in self._earlier.values() for row in rows)]
        every = [_summary(row) for row in rows]
        tokens = sum((one.input_tokens or 0) + (one.output_tokens or 0) for one in every)
        return Amount(usd=sum(one.cost_usd or 0.0 for one in every), tokens=tokens)

    def tries(self, key: TrialKey) -> tuple[TrialSummary, ...]:
        """Every try of this trial that came to an outcome, the first one first."""
        rows = [*self._earlier.get(key, ()), *([self._rows[key]] if key in self._rows else ())]
        return tuple(map(_summary, sorted(rows, key=lambda row: int(row[_RETRY]))))

    def retried(self) -> Iterator[TrialKey]:
        """The trials with more than one try."""
        return iter(self._earlier)

    def outcome(self, key: TrialKey) -> str | None:
        """Of what counts; quicker than the whole summary."""
        row = self._rows.get(key)
        return None if row is None else str(row[_OUTCOME])

    def keep(self, fields: dict[str, Any]) -> None:
        """Take in the outcome of a try."""
        row = tuple(map(_shared, map(fields.get, _NAMES, _DEFAULTS)))
        key = TrialKey(row[0], row[1])
        if self.open.get(key) == row[_RETRY]:
            del self.open[key]
        held = self._rows.get(key)
        if held is None:
            self._rows[key] = row
            return
        rows = [other for other in (*self._earlier.get(key, ()), held) if other[_RETRY] != row[_RETRY]] + [row]
        rows.sort(key=lambda row: (row[_OUTCOME] != "unscored", row[_RETRY]))
        self._rows[key] = rows.pop()
        if rows:
            self._earlier[key] = rows


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it stands: what it was to do, and its history."""

    folder: RunFolder
    lock: ConfigLock
    history: History
    state: RunState

    @property
    def counts(self) -> Counts:
        """By outcome."""
        found = {"solved": 0, "unsolved": 0, "unscored": 0}
        for key in self.lock.trial_keys():
            outcome = self.history.outcome(key)
            if outcome is not None:
                found[outcome] += 1
        return Counts(total=self.lock.trials, **found, missing=self.lock.trials - sum(found.values()))

    def unscored(self) -> Iterator[TrialSummary]:
        """The trials that could not be scored."""
        return (summary for summary in self.history.summaries() if summary.outcome == "unscored")


def read_run(folder: RunFolder) -> RunView:
    """Look at a run, whoever carries it out. Raises NotFound where there is none, and what reading its files raises."""
    lock = read_config_lock(folder)
    is_running = is_held(folder)
    history = history_of(folder.journal)
    keep_broken(history, lock)
    state: RunState = "finished" if history.finished_at is not None else "running" if is_running else "interrupted"
    return RunView(folder, lock, history, state)


def history_of(journal: Path) -> History:
    """Fold a journal, one line in memory at a time. Raises `JournalDamaged`; UsageError if it is of a newer version."""
    history = History()
    reader = JournalReader(journal)
    for event in reader:
        history.updated_at = event.at
        _FOLDS[event.name](history, event)
    history.tail = reader.tail
    return history


def keep_broken(history: History, lock: ConfigLock) -> None:
    """Take in what the lock says already: the trials of tasks that do not load are unscored, by the task's fault."""
    problems = {task.id: task.problem for task in lock.tasks if task.problem is not None}
    for key in lock.trial_keys() if problems else ():
        if key.task_id in problems and key not in history:
            summary = TrialSummary(
                task_id=key.task_id,
                attempt=key.attempt,
                outcome="unscored",
                fault="task",
                failure_mode="TASK_FAULT",
                message=problems[key.task_id] or "",
            )
            history.keep(summary.model_dump())


def _run_started(history: History, event: Event) -> None:
    version = event.fields["journal_version"]
    if version > JOURNAL_VERSION:
        raise UsageError(
            f"the journal is of version {version}; this TermArena reads version {JOURNAL_VERSION}",
            hint="a newer TermArena wrote this run: update this one",
        )
    history.started_at = event.at


def _run_resumed(history: History, event: Event) -> None:
    history.resumes += 1
    history.stopped_by = None
    history.finished_at = None
    history.source = event.fields["source"] or history.source
    history.changed.update(event.fields["changed"])


def _trial_started(history: History, event: Event) -> None:
    fields = event.fields
    history.open[TrialKey(sys.intern(fields["task_id"]), fields["attempt"])] = fields["retry"]


def _trial_finished(history: History, event: Event) -> None:
    history.retries += event.fields["retry"] > 0
    history.keep(event.fields)


def _trial_interrupted(history: History, event: Event) -> None:
    history.interruptions += 1
    history.open.pop(TrialKey(event.fields["task_id"], event.fields["attempt"]), None)


def _trial_regraded(history: History, event: Event) -> None:
    history.regrades += 1
    history.keep(event.fields)


def _run_interrupted(history: History, event: Event) -> None:
    history.stopped_by = event.fields["reason"]
    history.lacks_agent |= history.stopped_by == AgentGone.__name__


def _run_finished(history: History, event: Event) -> None:
    history.finished_at = event.at
    history.lacks_agent = False


_FOLDS: Final[dict[str, Callable[[History, Event], None]]] = {
    "run_started": _run_started,
    "run_resumed": _run_resumed,
    "trial_started": _trial_started,
    "trial_finished": _trial_finished,
    "trial_interrupted": _trial_interrupted,
    "trial_regraded": _trial_regraded,
    "run_interrupted": _run_interrupted,
    "run_finished": _run_finished,
}


def _shared(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """The value; of equal texts, which most are, one and the same object."""
    return sys.intern(value) if type(value) is str else value


def _summary(row: _Row) -> TrialSummary:
    return TrialSummary.model_construct(**dict(zip(_NAMES, row, strict=True)))
