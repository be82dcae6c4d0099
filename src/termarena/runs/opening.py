"""Beginning a run, and opening one that was begun: what is left to do, and the task of each trial."""

from __future__ import annotations

import contextlib
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from termarena import __version__
from termarena.core.errors import NotFound, TaskError, UsageError
from termarena.runs.config_lock import check_digests, lock_of, read_config_lock, write_config_lock
from termarena.runs.engine import Job
from termarena.runs.journal import Journal, Tail
from termarena.runs.locking import hold
from termarena.runs.plan import TrialKey, TrialPlan
from termarena.runs.reading import JOURNAL_VERSION, History, history_of, keep_broken
from termarena.runs.recording import read_result
from termarena.runs.retry import may_retry
from termarena.tasks.dataset import SAMPLES, load_dataset
from termarena.tasks.load import is_task, load_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder, RunFolder
    from termarena.runs.config_lock import ConfigLock, LockedTask, RunFacts
    from termarena.runs.plan import RunOptions
    from termarena.runs.result import TrialSummary
    from termarena.tasks.model import Task

__all__ = [
    "OpenRun",
    "Resume",
    "begin_run",
    "make_room",
    "open_run",
    "plan_of",
    "start_run",
    "started",
    "tasks_again",
]

# Of a task that asks for nothing: what most tasks that do ask, ask for.
DEFAULT_CPUS: Final = 1.0
DEFAULT_MEMORY_MB: Final = 1024


@dataclass(frozen=True, slots=True)
class Resume:
    """How a run is to go on."""

    source: Path | str | None = None
    """The dataset, where it is no longer where it was."""
    retry_unscored: bool = False
    """Try again what could not be scored and has used up its retries, faults of tasks included."""
    allow_changed: bool = False
    """Go on with tasks that are not those the run began with; the journal keeps their digests."""
    concurrency: int | None = None
    """Trials at once, where it is to be another number than the run began with."""


@dataclass(slots=True)
class OpenRun:
    """A run that this process holds; `with` lets go of it."""

    folder: RunFolder
    lock: ConfigLock
    history: History
    journal: Journal
    tasks: Mapping[str, Task]
    """Those that still have trials to run."""
    jobs: tuple[Job, ...]
    """What is left to do, in the order of the run; empty where nothing is."""
    resume: Resume | None
    """None for a run that begins."""
    adopted: tuple[TrialSummary, ...] = ()
    """Trials whose result is whole, though the harness ended before the journal had it: they are not run again."""
    notices: tuple[str, ...] = ()
    """What whoever resumes it should be told."""
    _held: ExitStack = field(default_factory=ExitStack)

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing to do, and the journal says so."""
        return not self.jobs and self.history.finished_at is not None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self.close()

    def close(self) -> None:
        """Close the journal and the lock."""
        self._held.close()


def start_run(options: RunOptions, tasks: Sequence[Task], folder: RunFolder, facts: RunFacts) -> OpenRun:
    """Begin a run: its folder, its lock and the first line of its journal are written and durable.

    Raises UsageError where there is nothing to run, two tasks share an id or the folder is not empty or takes nothing,
    `RunBusy`, `RunNotWritable`, and OSError if a file of a task can no longer be read.
    """
    _refuse_bad_choice(tasks)
    lock = lock_of(options, tasks, facts)
    with ExitStack() as stack:
        journal = stack.enter_context(begin_run(folder, lock))
        history = History()
        keep_broken(history, lock)
        by_id = {task.id: task for task in tasks}
        jobs = tuple(_jobs(lock, history, by_id, Resume()))
        return OpenRun(folder, lock, history, journal, by_id, jobs, None, _held=stack.pop_all())


@contextmanager
def begin_run(folder: RunFolder, lock: ConfigLock, *, at: str | None = None) -> Iterator[Journal]:
    """Hold a new run for the length of the block; its lock and the first line of its journal, of `at`, are durable.

    Raises UsageError where the folder is not empty or takes nothing, `RunBusy`, `RunNotWritable`.
    """
    with ExitStack() as stack:
        with _a_folder_that_takes_nothing_refused(folder):
            folder.path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold(folder))
            _refuse_used(folder)
            write_config_lock(folder, lock)
        journal = stack.enter_context(Journal(folder.journal, Tail()))
        journal.append("run_started", started(lock), at=at)
        journal.sync()
        _make_durable(folder.path)
        yield journal


def open_run(folder: RunFolder, resume: Resume | None = None) -> OpenRun:
    """Open a run to go on with it; nothing of it is changed before it does.

    Only tasks with something left to do are loaded. Raises NotFound where there is no run or a task is gone, UsageError
    for one that was imported, `RunBusy`, `JournalDamaged`, `RunNotWritable`, DigestMismatch for changed tasks, and what
    loading them raises.
    """
    resume = resume or Resume()
    lock = read_config_lock(folder)
    if lock.origin is not None:
        raise UsageError(
            f"{folder.path} was imported from {lock.origin.tool} and cannot be carried on here",
            hint=f"go on with it in {lock.origin.tool}, and import it again into a new folder",
        )
    with ExitStack() as stack:
        stack.enter_context(hold(folder))
        history = history_of(folder.journal)
        keep_broken(history, lock)
        adopted = tuple(_adopt(folder, history))
        left = {key.task_id for key in lock.trial_keys() if _tries_left(lock, history, key, resume) is not None}
        tasks = tasks_again(lock, left, resume.source or history.source)
        if not resume.allow_changed:
            expected = {task.id: task.digest for task in lock.tasks} | history.changed
            # Without a digest it did not load when the run began, and now it does.
            check_digests(expected, [task for task in tasks.values() if expected[task.id]])
        journal = stack.enter_context(Journal(folder.journal, history.tail))
        jobs = tuple(_jobs(lock, history, tasks, resume))
        return OpenRun(folder, lock, history, journal, tasks, jobs, resume, adopted, _notices(lock), stack.pop_all())


def started(lock: ConfigLock) -> dict[str, object]:
    """The fields of `run_started`."""
    return {"journal_version": JOURNAL_VERSION, "termarena": __version__, "trials": lock.trials}


def plan_of(task: Task, attempt: int, *, concurrency: int | None = None) -> TrialPlan:
    """The plan of one attempt at a task.

    A task that asks for no processors counts as one that asks for one, unless the run says itself how many trials it
    wants at once: most of them wait for a model most of the time.
    """
    environment = task.environment
    return TrialPlan(
        key=TrialKey(task.id, attempt),
        task_digest=task.digest,
        cpus=environment.cpus or (DEFAULT_CPUS if concurrency is None else 0.0),
        memory_mb=environment.memory_mb or DEFAULT_MEMORY_MB,
    )


def make_room(folder: AttemptFolder) -> None:
    """Make the folder of a try, empty. One that is there is of a try that came to no outcome: it is kept beside it.

    Raises OSError.
    """
    path = folder.path
    number = 1
    while path.exists():
        aside = path.with_name(f"{path.name}-interrupted-{number}")
        if not aside.exists():
            path.rename(aside)
        number += 1
    path.mkdir(parents=True)


def _adopt(folder: RunFolder, history: History) -> Iterator[TrialSummary]:
    """Take in what ended and was not said: `result.json` is written last, and whole or not at all."""
    for key, retry in [*history.open.items()]:
        attempt = folder.attempt(key.task_id, key.attempt, retry=retry)
        if attempt.result.is_file():
            with contextlib.suppress(ValueError):  # not a result: the trial is run again, and its folder is kept
                summary = read_result(attempt).summary()
                if (summary.task_id, summary.attempt, summary.retry) == (*key, retry):
                    history.keep(summary.model_dump())
                    yield summary


def _jobs(lock: ConfigLock, history: History, tasks: Mapping[str, Task], resume: Resume) -> Iterator[Job]:
    for order, key in enumerate(lock.trial_keys()):
        tries = _tries_left(lock, history, key, resume)
        if tries is not None and key.task_id in tasks:
            plan = plan_of(tasks[key.task_id], key.attempt, concurrency=resume.concurrency or lock.options.concurrency)
            plan = plan._replace(
                cpus=lock.options.cpus or plan.cpus, memory_mb=lock.options.memory_mb or plan.memory_mb
            )
            yield Job(plan, order, tries.start, tries.stop - 1)


def _tries_left(lock: ConfigLock, history: History, key: TrialKey, resume: Resume) -> range | None:
    """The retry numbers that a trial may still use; None where it is done."""
    retries = lock.options.retries
    outcome = history.outcome(key)
    if outcome != "unscored":
        return range(retries + 1) if outcome is None else None
    last = history.tries(key)[-1]
    if resume.retry_unscored or (history.lacks_agent and may_retry(last)):
        return range(last.retry + 1, last.retry + 2 + retries)
    if may_retry(last) and last.retry < retries:  # stopped between two tries
        return range(last.retry + 1, retries + 1)
    return None


def tasks_again(lock: ConfigLock, ids: set[str], source: Path | str | None) -> dict[str, Task]:
    """Tasks of a run, loaded from where it found them or from `source`; raises NotFound for one that is gone."""
    wanted = [task for task in lock.tasks if task.id in ids]
    found = _from_source(source) if source is not None and wanted else _from_paths(lock, wanted)
    missing = [task.id for task in wanted if task.id not in found and task.problem is None]
    if missing:
        shown = ", ".join(missing[:5]) + (f" … ({len(missing)} in all)" if len(missing) > 5 else "")  # noqa: PLR2004 - enough to recognise them by
        where = str(source) if source is not None else "where the run found them"
        raise NotFound(f"tasks of the run are not {where}: {shown}", hint="name the dataset with --path")
    return {task.id: found[task.id] for task in wanted if task.id in found}


def _from_source(source: Path | str) -> dict[str, Task]:
    return {task.id: task for task in load_dataset(source)}


def _from_paths(lock: ConfigLock, wanted: Iterable[LockedTask]) -> dict[str, Task]:
    found: dict[str, Task] = {}
    for locked in wanted:
        if locked.id in found:
            continue
        if is_task(locked.path):
            # What never loaded may still not: then its trials stay unscored.
            with contextlib.suppress(TaskError) if locked.problem is not None else contextlib.nullcontext():
                task = load_task(locked.path)
                found[task.id] = task
        elif os.path.isfile(locked.path):  # noqa: PTH113 - Path.is_file raises for a name too long
            found |= _from_source(locked.path)
        elif lock.dataset.name == SAMPLES:
            found |= _from_source(SAMPLES)
    return found


def _notices(lock: ConfigLock) -> tuple[str, ...]:
    began = lock.versions.termarena
    if began == __version__:
        return ()
    return (f"this run was begun with TermArena {began} and goes on with {__version__}",)


def _refuse_bad_choice(tasks: Sequence[Task]) -> None:
    if not tasks:
        raise UsageError("there is no task to run", hint="see what there is with: termarena tasks list")
    ids = [task.id for task in tasks]
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise UsageError(f"two of the tasks are called {twice}", hint="rename one of the two")


@contextmanager
def _a_folder_that_takes_nothing_refused(folder: RunFolder) -> Iterator[None]:
    """There is no run yet that could be resumed: what helps is another folder."""
    try:
        yield
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"cannot begin a run in {folder.path}: {problem}",
            hint="name a folder that can be made or is empty, can be written and has room: --out DIR",
        ) from error


def _refuse_used(folder: RunFolder) -> None:
    if folder.config_lock.exists():
        hint = f"for another run name another folder; to go on with this one: termarena resume {folder.path}"
        raise UsageError(f"{folder.path} holds a run already", hint=hint)
    for unfinished in folder.path.glob(f".{folder.config_lock.name}.*.tmp"):  # of a process killed while it began
        unfinished.unlink()
    if any(entry != folder.lock for entry in folder.path.iterdir()):
        raise UsageError(f"{folder.path} is not empty", hint="give a run a folder of its own: --out DIR")


def _make_durable(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems have no such thing for folders
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
