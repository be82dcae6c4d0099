"""What a peer's folder says of one agent on one set of tasks, in our words, and how its files are read."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from termarena.core.errors import UsageError
from termarena.runs.config_lock import scrubbed
from termarena.runs.outcome import failure_mode_of
from termarena.runs.plan import TrialKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from termarena.runs.config_lock import LockedTask, Origin
    from termarena.runs.outcome import AgentEnd, FailureMode, Fault, Outcome
    from termarena.runs.result import TrialSummary

__all__ = ["Ended", "ForeignRun", "Judged", "Loose", "Reader", "duration_s", "numbered", "pooled", "shortened", "utc"]

# The public aggregate of 400 trials is 2 MB; one with every parser result of thousands of trials stays below.
LONGEST_FILE_BYTES: Final = 256 << 20
LONGEST_MESSAGE: Final = 500
_Model = TypeVar("_Model", bound="Loose")


class Loose(BaseModel):
    """A peer's record: the fields that we use; whatever else it holds is theirs."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@dataclass(frozen=True, slots=True)
class Ended:
    """A trial that came to an outcome, and when."""

    summary: TrialSummary
    ended_at: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """How a trial ended, in our three words."""

    outcome: Outcome
    end: AgentEnd | None = None
    fault: Fault | None = None
    reward: float | None = None
    message: str = ""
    tests_timed_out: bool = False

    @property
    def failure_mode(self) -> FailureMode:
        """As for our own trials."""
        return failure_mode_of(
            self.outcome, self.end, self.fault, is_tampered=False, tests_timed_out=self.tests_timed_out
        )


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """One agent on one set of tasks."""

    origin: Origin
    agent: str
    agent_version: str
    model: str | None
    driver: str
    dataset: str
    attempts: int
    """Planned for each task, or, where that is not known, made at the task that was tried most."""
    tasks: tuple[LockedTask, ...]
    trials: tuple[Ended, ...]
    stopped: tuple[TrialKey, ...] = ()
    """Trials that were begun and came to no outcome."""
    timeout_multiplier: float = 1.0


def pooled(runs: Sequence[ForeignRun]) -> ForeignRun:
    """Several runs of one agent as one, in the order given; one run is itself.

    A task has as many attempts as the runs that hold it planned for it: runs of other tasks are no attempts at it.

    Raises UsageError where they are not of one agent, model and dataset, or one is given twice.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    _refuse_unlike(runs)
    trials, stopped, before = [], [], Counter[str]()
    for run in runs:
        trials += [_moved(ended, before[ended.summary.task_id]) for ended in run.trials]
        stopped += [TrialKey(key.task_id, key.attempt + before[key.task_id]) for key in run.stopped]
        before.update({task.id: run.attempts for task in run.tasks})
    tasks = {task.id: task for run in reversed(runs) for task in run.tasks}
    return replace(
        first,
        origin=_pooled_origin(runs),
        attempts=max(before.values()),
        tasks=tuple(tasks[name] for name in sorted(tasks)),
        trials=tuple(trials),
        stopped=tuple(stopped),
    )


def _refuse_unlike(runs: Sequence[ForeignRun]) -> None:
    kinds = sorted({f"{run.agent}, {run.model or 'no model'}, {run.dataset}" for run in runs})
    if len(kinds) > 1:
        raise UsageError(
            f"these are not runs of one agent on one dataset: {'; '.join(kinds)}", hint="import each apart"
        )
    paths = [run.origin.path for run in runs]
    twice = [path for path in paths if paths.count(path) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is given twice", hint="give every folder once")


def _moved(ended: Ended, attempts: int) -> Ended:
    return Ended(ended.summary.model_copy(update={"attempt": ended.summary.attempt + attempts}), ended.ended_at)


def _pooled_origin(runs: Sequence[ForeignRun]) -> Origin:
    origins = [run.origin for run in runs]
    notes = [f"pooled from {len(runs)} runs: {', '.join(origin.name for origin in origins)}"]
    notes += [note for origin in origins for note in origin.notes]
    if any(origin.changed_limits != origins[0].changed_limits for origin in origins):
        notes.append("not all of the runs had the same limits")
    digests = {(task.id, task.digest) for run in runs for task in run.tasks if task.digest}
    if len(digests) > len({name for name, _ in digests}):
        notes.append("not all of the runs had the same versions of the tasks")
    limits = {name: value for origin in origins for name, value in origin.changed_limits.items()}
    starts = [origin.started_at for origin in origins if origin.started_at is not None]
    ends = [origin.finished_at for origin in origins if origin.finished_at is not None]
    return origins[0].model_copy(
        update={
            "started_at": min(starts, default=None),
            "finished_at": max(ends, default=None),
            "changed_limits": limits,
            "notes": tuple(notes),
        }
    )


@dataclass(slots=True)
class Reader:
    """Reads JSON files of others; what cannot be read is a note, never an error, and never silence."""

    notes: list[str] = field(default_factory=list)

    def read(self, path: Path, model: type[_Model]) -> _Model | None:
        """The file's record, or None with a note; None without one where there is no such file."""
        try:
            document = self._document(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.notes.append(f"{path} cannot be read: {shortened(str(error))}")
            return None
        return self.check(document, model, place=str(path))

    def check(self, document: Any, model: type[_Model], *, place: str) -> _Model | None:  # noqa: ANN401 - whatever JSON holds
        """The record that a document is, or None with a note."""
        try:
            return model.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            self.notes.append(f"{place} is not as expected: {where}: {first['msg']}")
            return None

    def _document(self, path: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
        with path.open("rb") as file:
            content = file.read(LONGEST_FILE_BYTES + 1)
        if len(content) > LONGEST_FILE_BYTES:
            raise ValueError(f"it is larger than {LONGEST_FILE_BYTES >> 20} MiB")
        return json.loads(content)


def numbered(names: Iterable[str]) -> list[int]:
    """For each task name in order, which attempt at it this is: 1, 2, 3 …"""
    seen: dict[str, int] = {}
    numbers = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        numbers.append(seen[name])
    return numbers


def utc(moment: datetime | None) -> str | None:
    """As the journal writes it; None for a time without a zone, which could be any."""
    if moment is None or moment.tzinfo is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_s(start: datetime | None, end: datetime | None) -> float | None:
    """Between two times of one clock; None where one is missing, or only one has a zone, or they are the wrong way."""
    if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None):
        return None
    seconds = (end - start).total_seconds()
    return seconds if seconds >= 0 else None


def shortened(text: str) -> str:
    """On one line, no longer than a message needs to be, and without secrets: peers quote whole command lines."""
    flat = " ".join(scrubbed(text.split(), os.environ))
    return flat if len(flat) <= LONGEST_MESSAGE else flat[:LONGEST_MESSAGE] + "…"
