"""`config.lock.json`: what a run measures, with what, and where it was started. Written once, never changed."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from termarena import __version__
from termarena.core.errors import DigestMismatch, NotFound, RunNotWritable
from termarena.core.records import read_record_as, write_record
from termarena.core.scrub import Scrubber
from termarena.runs.journal import now
from termarena.runs.machine import MachineFacts, machine_facts
from termarena.runs.plan import RunOptions, TrialKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from termarena.core.run_folder import RunFolder
    from termarena.tasks.model import Task

__all__ = [
    "BrokenTaskFacts",
    "ConfigLock",
    "LockedDataset",
    "LockedTask",
    "Origin",
    "RunFacts",
    "Versions",
    "check_digests",
    "digest_of_all",
    "lock_of",
    "read_config_lock",
    "scrubbed",
    "write_config_lock",
]

KIND: Final = "run-config"
HIDDEN: Final = "***"
CHANGED_HINT: Final = (
    "put the files back, name the right dataset with --path, or accept a run of mixed tasks with --allow-changed"
)
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_ASSIGNMENT: Final = re.compile(rf"((?:{_SECRET_NAME.pattern})[^=]*=).+", re.IGNORECASE | re.DOTALL)
_URL_USER: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BrokenTaskFacts(_Frozen):
    """A folder that claims to be a task and does not load; its trials are unscored, by the task's fault."""

    id: str
    """The folder's name: what stands in the task is not known."""
    path: str
    problem: str


class RunFacts(_Frozen):
    """What the caller knows of a run beyond its options and tasks."""

    agent_name: str
    agent_version: str
    driver: str
    """The driver that was chosen, where the options say `auto`."""
    driver_version: str | None = None
    dataset: str
    """The name that people know the tasks by."""
    argv: tuple[str, ...] = ()
    """The command, already `scrubbed`."""
    broken: tuple[BrokenTaskFacts, ...] = ()


class LockedTask(_Frozen):
    """A task as it was when the run began."""

    id: str
    digest: str
    path: str
    """Where it was loaded from."""
    format: str
    category: str = "unknown"
    difficulty: str = "unknown"
    problem: str | None = None
    """Why it does not load: then there is no digest and no format, and its trials are unscored from the beginning."""


class LockedDataset(_Frozen):
    """All tasks of the run together."""

    name: str
    digest: str
    """Over the ids and digests of the tasks that were chosen: equal for two runs of the same tasks."""


class Versions(_Frozen):
    """With what it was run."""

    termarena: str
    python: str
    kernel: str
    agent: str
    driver: str | None


class Origin(_Frozen):
    """Where the results of a run came from that another tool carried out."""

    tool: Literal["harbor", "terminal-bench"]
    version: str | None
    name: str
    """What the tool calls the run."""
    path: str
    """The folder that was read."""
    started_at: str | None = None
    finished_at: str | None = None
    """UTC; None where the folder does not say, or says it without a time zone."""
    changed_limits: Mapping[str, str] = Field(default_factory=dict)
    """Limits that were set for the run, in the tool's own words, instead of those of the tasks."""
    notes: tuple[str, ...] = ()
    """What could not be read, or not be told for certain."""


class ConfigLock(_Frozen):
    """The record. Digests of images are in each `result.json`, since they are known only when a trial has started."""

    created_at: str
    options: RunOptions
    agent: str
    driver: str
    versions: Versions
    dataset: LockedDataset
    tasks: tuple[LockedTask, ...]
    machine: MachineFacts | None
    """None for results that were imported: whoever made them did not say."""
    argv: tuple[str, ...]
    origin: Origin | None = None
    """None for a run of our own; what has an origin can be read and compared, and neither resumed nor regraded."""

    @property
    def trials(self) -> int:
        """How many trials the run is made of."""
        return len(self.tasks) * self.options.attempts

    def trial_keys(self) -> Iterator[TrialKey]:
        """Every trial of the run, in its order: the first attempt at each task, then the second …"""
        for attempt in range(1, self.options.attempts + 1):
            for task in self.tasks:
                yield TrialKey(task.id, attempt)


def lock_of(options: RunOptions, tasks: Sequence[Task], facts: RunFacts) -> ConfigLock:
    """The lock of a run that begins now; reads every file of the tasks."""
    locked = (*map(_locked, tasks), *map(_locked_broken, facts.broken))
    return ConfigLock(
        created_at=now(),
        options=options,
        agent=facts.agent_name,
        driver=facts.driver,
        versions=Versions(
            termarena=__version__,
            python=platform.python_version(),
            kernel=platform.release(),
            agent=facts.agent_version,
            driver=facts.driver_version,
        ),
        dataset=LockedDataset(name=facts.dataset, digest=digest_of_all(locked)),
        tasks=locked,
        machine=machine_facts(),
        argv=facts.argv,
    )


def _locked(task: Task) -> LockedTask:
    return LockedTask(
        id=task.id,
        digest=task.digest,
        path=task.provenance.path,
        format=task.provenance.format,
        category=task.metadata.category,
        difficulty=task.metadata.difficulty,
    )


def _locked_broken(broken: BrokenTaskFacts) -> LockedTask:
    return LockedTask(id=broken.id, digest="", path=broken.path, format="", problem=broken.problem)


def digest_of_all(tasks: Iterable[LockedTask]) -> str:
    """What `LockedDataset.digest` is."""
    lines = sorted(f"{task.id!r} {task.digest}\n" for task in tasks)
    return f"tasks1:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def write_config_lock(folder: RunFolder, lock: ConfigLock) -> None:
    """Write it, whole and durable. Raises `RunNotWritable`."""
    try:
        write_record(folder.config_lock, KIND, lock.model_dump(mode="json"))
    except OSError as error:
        raise RunNotWritable(str(folder.config_lock), problem=str(error.strerror), errno=error.errno) from error


def read_config_lock(folder: RunFolder) -> ConfigLock:
    """Raises NotFound where there is no run, TaskFormatError where the file does not hold what it should."""
    if not folder.config_lock.exists():
        raise NotFound(
            f"{folder.path} is no run: it has no {folder.config_lock.name}", hint="list runs with: termarena runs list"
        )
    return read_record_as(ConfigLock, folder.config_lock, KIND)


def check_digests(expected: Mapping[str, str], tasks: Iterable[Task], *, hint: str = CHANGED_HINT) -> None:
    """Raises DigestMismatch naming every task that is no longer what the run began with, and `hint`."""
    changed = tuple(f"task {task.id} has changed" for task in tasks if task.digest != expected[task.id])
    if changed:
        raise DigestMismatch("the run", files=changed, hint=hint)


def scrubbed(argv: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """A command line without its secrets: what a scrubber knows, values that are given to a name that says so
    (`--api-key=…`, `TOKEN=…`), and users in addresses."""
    scrubber = Scrubber.from_environment(environment)
    hidden: list[str] = []
    is_value_due = False
    for word in argv:
        hidden.append(HIDDEN if is_value_due and not word.startswith("-") else _scrubbed_word(word, scrubber))
        is_value_due = word.startswith("-") and "=" not in word and bool(_SECRET_NAME.search(word))
    return tuple(hidden)


def _scrubbed_word(word: str, scrubber: Scrubber) -> str:
    return _URL_USER.sub(HIDDEN, scrubber.scrub(_ASSIGNMENT.sub(rf"\1{HIDDEN}", word)))
