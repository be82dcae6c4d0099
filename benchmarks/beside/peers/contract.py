"""What a harness is to a measurement."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Harness", "Job", "Ran", "Row", "Verdict", "seconds_between", "tasks_in"]

Verdict = Literal["solved", "unsolved", "unscored"]
MARKERS = ("task.toml", "task.yaml")


class Job(NamedTuple):
    """One command: every task of a folder, once, by one agent."""

    tasks: Path
    agent: str
    concurrency: int
    out: Path
    """A folder of its own, which the harness may fill."""
    attempts: int = 1


class Row(NamedTuple):
    """What a harness says about one task."""

    verdict: Verdict
    reward: float | None = None
    note: str = ""
    """How it ended, in the harness's own words."""
    seconds: float | None = None
    """The trial's own time, as the harness wrote it down."""


class Ran(NamedTuple):
    """A command that was run."""

    command: list[str]
    wall_s: float
    cpu_s: float
    """Of the process and the children that it waited for; containers are the engine's, not in here."""
    exit_status: int
    load: float | None = None
    """Of the machine, on average while it ran, its own share included."""


class Harness(Protocol):
    """A program that runs tasks."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def command(self, job: Job) -> list[str]:
        """The command of a job, as a shell would start it."""
        ...

    def rows(self, job: Job) -> dict[str, Row]:
        """The last word on every task that has one, by the name of the task's folder; empty if nothing was written."""
        ...


def tasks_in(folder: Path) -> list[str]:
    """Names of the task folders in a folder."""
    return sorted(path.name for path in folder.iterdir() if any((path / marker).is_file() for marker in MARKERS))


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Between two moments in ISO 8601; None if either is missing."""
    if not start or not end:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
