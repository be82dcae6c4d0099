"""The engine: trials as asyncio tasks of this one process, wherever their runner carries them out."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from termarena.core.ending import cancel_once
from termarena.runs.engine import EngineEvent, Job, TrialEnded, TrialStarting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from termarena.core.run_folder import RunFolder
    from termarena.runs.engine import TrialRunner
    from termarena.runs.result import TrialResult
    from termarena.runs.scheduling import Scheduler
    from termarena.tasks.model import Task

__all__ = ["LocalEngine"]


class LocalEngine:
    """An `Engine` in this process."""

    def __init__(self, runner: TrialRunner, tasks: Mapping[str, Task], folder: RunFolder, scheduler: Scheduler) -> None:
        """`tasks` by their ids: those of every job that will be submitted."""
        self._runner = runner
        self._tasks = tasks
        self._folder = folder
        self._scheduler = scheduler
        self._running: dict[Job, asyncio.Task[TrialResult]] = {}
        self._ended: deque[Job] = deque()
        self._timers: dict[Job, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()
        self._announced: Job | None = None
        self._is_draining = False

    def submit(self, job: Job, *, after_s: float = 0.0) -> None:
        """As the contract says; after `drain` nothing is taken."""
        if self._is_draining:
            return
        if after_s > 0:
            self._timers[job] = asyncio.get_running_loop().call_later(after_s, self._is_due, job)
        else:
            self._scheduler.put(job)

    async def events(self) -> AsyncGenerator[EngineEvent, None]:
        """As the contract says."""
        if self._announced is not None:  # the caller failed before it could start
            self._start(self._announced)
        while True:
            while self._ended:
                yield self._take_out(self._ended.popleft())
            job = self._scheduler.take()
            if job is not None:
                self._announced = job
                yield TrialStarting(job)
                self._start(job)
            elif not self._running and not self._timers and not self._ended:
                return
            else:
                await self._wait()

    def drain(self) -> None:
        """As the contract says."""
        self._is_draining = True
        self._scheduler.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._changed.set()

    def cancel(self) -> None:
        """As the contract says."""
        self.drain()
        for task in self._running.values():
            cancel_once(task)

    def _start(self, job: Job) -> None:
        self._announced = None
        trial = asyncio.get_running_loop().create_task(self._run(job))
        self._running[job] = trial
        trial.add_done_callback(lambda _: self._has_ended(job))
        if self._is_draining:
            trial.cancel()

    async def _run(self, job: Job) -> TrialResult:
        key = job.plan.key
        folder = self._folder.attempt(key.task_id, key.attempt, retry=job.retry)
        return await self._runner.run(job.plan, self._tasks[key.task_id], folder=folder, retry=job.retry)

    async def _wait(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    def _is_due(self, job: Job) -> None:
        del self._timers[job]
        self._scheduler.put(job)
        self._changed.set()

    def _has_ended(self, job: Job) -> None:
        self._ended.append(job)
        self._changed.set()

    def _take_out(self, job: Job) -> TrialEnded:
        self._scheduler.give_back(job)
        trial = self._running.pop(job)
        if trial.cancelled():
            return TrialEnded(job)
        error = trial.exception()
        if isinstance(error, Exception):
            return TrialEnded(job, error=error)
        if error is not None:
            raise error
        return TrialEnded(job, trial.result())
