"""Carrying out a run: every event goes into the journal, what could not be scored is tried again, signals stop it."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import threading
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from termarena import __version__
from termarena.core.errors import AgentGone, ClusterLost, HeadLost, RunNotWritable
from termarena.core.scrub import Scrubber
from termarena.runs.engine import TrialStarting
from termarena.runs.listening import Listener, Progress, Quiet
from termarena.runs.local import LocalEngine
from termarena.runs.machine import budget_here
from termarena.runs.opening import OpenRun, Resume, make_room, open_run, start_run, started
from termarena.runs.recording import sayable
from termarena.runs.retry import RetryPolicy
from termarena.runs.scheduling import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from termarena.runs.engine import Job, TrialEnded, TrialRunner
    from termarena.runs.journal import EventName
    from termarena.runs.machine import Budget
    from termarena.runs.plan import TrialKey
    from termarena.runs.result import TrialResult, TrialSummary

__all__ = ["Listener", "OpenRun", "Progress", "Quiet", "Resume", "RunEnd", "execute", "open_run", "start_run"]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
EXIT_INTERRUPTED: Final = 130
MOST_ABSENCES: Final = 3
"""Trials in a row that found nobody at the agent's address; each has waited for it already."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run, or this session of it, ended."""

    reason: Literal["finished", "interrupted"]
    progress: Progress


async def execute(
    run: OpenRun,
    runner: TrialRunner,
    listener: Listener | None = None,
    *,
    budget: Budget | None = None,
    takes_signals: bool = True,
) -> RunEnd:
    """Run everything that is left of a run, then close the runner.

    `budget` is what trials may use together, this machine's by default. The first SIGINT or SIGTERM stops the running
    trials and ends the run as `interrupted`; the second ends the process at once, and the kernel ends its sandboxes.
    Whoever carries out several runs in one process has `takes_signals` False, and cancels instead.
    Raises `RunNotWritable` if the run's folder takes no more: running trials are let end first, no further one starts;
    `AgentGone` if an agent elsewhere was not there for several trials in a row, `ClusterLost` if a cluster is gone:
    those that run are stopped, and the run can be resumed.
    """
    execution = _Execution(run, runner, listener or Quiet(), budget or budget_here())
    with _interruptible(execution.interrupt) if takes_signals else nullcontext():
        try:
            return await execution.carry_out()
        finally:
            await runner.aclose()


@dataclass(slots=True)
class _Tally:
    total: int
    outcomes: dict[str, int] = field(default_factory=lambda: {"solved": 0, "unsolved": 0, "unscored": 0})
    running: int = 0
    retrying: set[TrialKey] = field(default_factory=set)
    retries: int = 0
    finished_here: int = 0
    began_s: float = field(default_factory=monotonic)

    def progress(self) -> Progress:
        return Progress(
            total=self.total,
            **self.outcomes,
            running=self.running,
            retrying=len(self.retrying),
            retries=self.retries,
            finished_here=self.finished_here,
            elapsed_s=monotonic() - self.began_s,
        )


class _Execution:
    def __init__(self, run: OpenRun, runner: TrialRunner, listener: Listener, budget: Budget) -> None:
        self._run = run
        self._listener = listener
        concurrency = run.resume.concurrency if run.resume is not None else None
        self._scheduler = Scheduler(budget, most=concurrency or run.lock.options.concurrency)
        self._engine = LocalEngine(runner, run.tasks, run.folder, self._scheduler)
        self._policy = RetryPolicy.of(run.lock.options, seed=run.lock.created_at)
        self._scrubber = Scrubber.from_environment(os.environ)
        self._tally = _tally_of(run)
        self._stopped_by: str | None = None
        self._trouble: RunNotWritable | None = None
        self._absences = 0
        self._gone: AgentGone | None = None

    def interrupt(self, by: signal.Signals) -> None:
        """Stop as soon as the running trials have cleaned up."""
        self._stopped_by = by.name
        running = "the running trial" if self._tally.running == 1 else f"{self._tally.running} running trials"
        self._listener.notice(f"{by.name}: stopping {running}; once more to stop at once")
        self._engine.cancel()

    async def carry_out(self) -> RunEnd:
        try:
            self._begin()
            await self._follow()
        except BaseException as error:
            self._engine.cancel()
            await self._follow_to_the_end()
            self._record("run_interrupted", {"reason": type(error).__name__})
            await self._sync()
            if isinstance(error, ClusterLost):
                error.hint = self._hint_after(error)
            raise
        return await self._end()

    async def _follow_to_the_end(self) -> None:
        """See every trial end that still runs; what ended the first may end them all."""
        while True:
            try:
                return await self._follow()
            except ClusterLost:
                continue

    def _hint_after(self, lost: ClusterLost) -> str:
        if isinstance(lost, HeadLost):
            return f"start a cluster, then go on: {self._resume_words()} --address HOST:PORT"
        return f"go on: {self._resume_words()}"

    def _resume_words(self) -> str:
        return f"termarena resume {shlex.quote(str(self._run.folder.path))}"

    def _begin(self) -> None:
        self._tell_beginning()
        if self._run.is_finished:
            return
        if self._run.history.started_at is None and self._run.resume is not None:
            self._record("run_started", started(self._run.lock))
        elif self._run.resume is not None:
            self._record_resume(self._run.resume)
        for job in self._run.jobs:
            self._engine.submit(job)

    def _tell_beginning(self) -> None:
        for text in self._run.notices:
            self._listener.notice(text)
        for plan in {job.plan.key.task_id: job.plan for job in self._run.jobs}.values():
            if self._scheduler.is_too_large(plan):
                asked = f"{plan.cpus:g} processors and {plan.memory_mb} MB"
                self._listener.notice(f"{plan.key.task_id} asks for {asked}, more than there is: it runs alone")
        self._listener.run_opened(self._tally.progress())

    def _record_resume(self, resume: Resume) -> None:
        history = self._run.history
        for summary in self._run.adopted:
            self._record("trial_finished", sayable(summary, self._scrubber).model_dump())
        for key, retry in history.open.items():
            self._record("trial_interrupted", {**key._asdict(), "retry": retry})
        locked = {task.id: task.digest for task in self._run.lock.tasks} | history.changed
        self._record(
            "run_resumed",
            {
                "termarena": __version__,
                "left": len(self._run.jobs),
                "concurrency": resume.concurrency,
                "source": str(resume.source) if resume.source is not None else None,
                "changed": {
                    task.id: task.digest for task in self._run.tasks.values() if task.digest != locked[task.id]
                },
            },
        )

    async def _follow(self) -> None:
        async with aclosing(self._engine.events()) as events:
            async for event in events:
                if isinstance(event, TrialStarting):
                    self._starting(event.job)
                else:
                    await self._ended(event)

    def _starting(self, job: Job) -> None:
        key = job.plan.key
        self._tally.running += 1
        self._tally.retrying.discard(key)
        if not self._record("trial_started", {**key._asdict(), "retry": job.retry}):
            return
        try:
            make_room(self._run.folder.attempt(key.task_id, key.attempt, retry=job.retry))
        except OSError as error:
            self._cannot_write(error)
            return
        self._listener.trial_started(job, self._tally.progress())

    async def _ended(self, event: TrialEnded) -> None:
        self._tally.running -= 1
        if event.result is not None:
            await self._finished(event.job, event.result)
            return
        self._record("trial_interrupted", {**event.job.plan.key._asdict(), "retry": event.job.retry})
        self._listener.trial_interrupted(event.job, self._tally.progress())
        if isinstance(event.error, OSError):
            self._cannot_write(event.error)
        elif event.error is not None:
            raise event.error

    async def _finished(self, job: Job, result: TrialResult) -> None:
        summary = sayable(result.summary(), self._scrubber)
        if not self._record("trial_finished", summary.model_dump()) or not await self._sync():
            return
        self._look_for_agent(result)
        self._tally.retries += job.retry > 0
        retry = self._policy.next(job, summary)
        if retry is None:
            self._settle(summary)
            return
        wait_s = self._policy.wait_before(retry)
        self._tally.retrying.add(job.plan.key)
        self._engine.submit(retry, after_s=wait_s)
        self._listener.trial_retrying(summary, self._tally.progress(), wait_s=wait_s)

    def _look_for_agent(self, result: TrialResult) -> None:
        """Stop where nobody has been at the agent's address for long: further trials would measure nothing."""
        told = result.agent_error or result.fault_detail
        is_absent = told is not None and told.kind == AgentGone.__name__
        self._absences = self._absences + 1 if is_absent else 0
        if self._absences == MOST_ABSENCES:
            address = self._run.lock.options.agent.partition(":")[2]
            words = f"nobody was there for {MOST_ABSENCES} trials in a row, and the run was stopped"
            hint = f"start it again, then go on: {self._resume_words()}"
            self._gone = AgentGone(address, words, hint=hint)
            self._engine.cancel()

    def _settle(self, summary: TrialSummary) -> None:
        self._tally.outcomes[summary.outcome] += 1
        self._tally.finished_here += 1
        self._listener.trial_finished(summary, self._tally.progress())

    async def _end(self) -> RunEnd:
        if self._trouble is not None:
            self._record("run_interrupted", {"reason": "run folder not writable"})
            raise self._trouble
        progress = self._tally.progress()
        if self._stopped_by is not None and progress.left:
            self._record("run_interrupted", {"reason": self._stopped_by})
            await self._sync()
            return RunEnd("interrupted", progress)
        if self._gone is not None and progress.left:
            self._record("run_interrupted", {"reason": type(self._gone).__name__})
            await self._sync()
            raise self._gone
        if not self._run.is_finished:
            self._record("run_finished", {**self._tally.outcomes})
            await self._sync()
        return RunEnd("finished", progress)

    def _record(self, event: EventName, fields: Mapping[str, object]) -> bool:
        """Write an event; whether that went well. If not, the run comes to its end."""
        try:
            self._run.journal.append(event, fields)
        except RunNotWritable as error:
            self._cannot_write(error)
            return False
        return True

    async def _sync(self) -> bool:
        try:
            await asyncio.to_thread(self._run.journal.sync)
        except RunNotWritable as error:
            self._cannot_write(error)
            return False
        return True

    def _cannot_write(self, error: OSError) -> None:
        """Start nothing more; told once."""
        self._engine.drain()
        if self._trouble is None:
            self._trouble = _as_trouble(error, self._run)
            running = "the running one is" if self._tally.running == 1 else f"{self._tally.running} running ones are"
            self._listener.notice(f"{self._trouble.message}: no further trial starts, {running} let end")


def _as_trouble(error: OSError, run: OpenRun) -> RunNotWritable:
    if isinstance(error, RunNotWritable):
        return error
    path = str(error.filename or run.folder.path)
    trouble = RunNotWritable(path, problem=error.strerror or str(error), errno=error.errno)
    trouble.__cause__ = error
    return trouble


def _tally_of(run: OpenRun) -> _Tally:
    tally = _Tally(total=run.lock.trials)
    left = {job.plan.key for job in run.jobs}
    for key in run.lock.trial_keys():
        outcome = run.history.outcome(key)
        if outcome is not None and key not in left:
            tally.outcomes[outcome] += 1
    return tally


@contextmanager
def _interruptible(interrupt: Callable[[signal.Signals], None]) -> Iterator[None]:
    """The first signal interrupts, the second ends the process. Without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def first(number: signal.Signals) -> None:
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            # Not a handler of the loop's: it must act even if the loop is stuck.
            signal.signal(each, _at_once)
        interrupt(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, first, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _at_once(*_: object) -> None:
    os._exit(EXIT_INTERRUPTED)
