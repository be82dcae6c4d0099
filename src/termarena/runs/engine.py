"""The engine contract: whoever carries trials out, here or elsewhere. Nothing else knows where a trial runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.plan import TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.tasks.model import Task

__all__ = ["Engine", "EngineEvent", "Job", "TrialEnded", "TrialRunner", "TrialStarting"]


class TrialRunner(Protocol):
    """What carries out one trial; made once per run, it owns the driver and everything that trials share."""

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        """Carry out one trial and write its folder, `result.json` last; the folder is there and empty.

        Whatever a task, an agent or a sandbox does is in the result. Raises only OSError, where the folder itself
        cannot be written, CancelledError, after everything the trial started has been stopped, and ClusterLost, where
        nobody is left who could carry trials out.
        """

    async def aclose(self) -> None:
        """Stop whatever is still there."""


class Job(NamedTuple):
    """A trial that is to be run: one try of it."""

    plan: TrialPlan
    order: int
    """Its place in the run: a lower one starts earlier where both could."""
    retry: int = 0
    last_retry: int = 0
    """The highest number that a further retry may have."""


class TrialStarting(NamedTuple):
    """The trial starts as soon as the next event is asked for."""

    job: Job


class TrialEnded(NamedTuple):
    """The trial has ended. No result and no error: it was stopped before it came to an outcome, and left nothing."""

    job: Job
    result: TrialResult | None = None
    error: Exception | None = None
    """What the runner raised."""


EngineEvent = TrialStarting | TrialEnded


class Engine(Protocol):
    """Carries out jobs in the order given, as many at once as there is room for."""

    def submit(self, job: Job, *, after_s: float = 0.0) -> None:
        """Queue a job; with `after_s`, it takes its place when so much time has passed."""

    def events(self) -> AsyncGenerator[EngineEvent, None]:
        """What happens, until nothing runs and nothing is queued.

        A `TrialStarting` is always followed by one `TrialEnded` of the same job. After an exception, also one of the
        caller's, the events can be asked for again and go on.
        """

    def drain(self) -> None:
        """Start nothing more; what runs goes on."""

    def cancel(self) -> None:
        """Start nothing more and stop what runs; each trial still ends with its event."""
