"""The engine contract, as the local engine keeps it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from support.fake_trials import FakeRunner, make_tasks
from termarena.core.run_folder import RunFolder
from termarena.runs.engine import Job, TrialEnded, TrialStarting
from termarena.runs.local import LocalEngine
from termarena.runs.machine import Budget
from termarena.runs.opening import make_room, plan_of
from termarena.runs.scheduling import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from termarena.runs.engine import Engine, EngineEvent


class Bench:
    """A local engine with four tasks and a fake runner."""

    def __init__(self, folder: Path, runner: FakeRunner, most: int = 2) -> None:
        tasks = make_tasks(folder / "tasks", 4)
        self.runner = runner
        self.folder = RunFolder(folder / "run")
        scheduler = Scheduler(Budget(8, 1 << 20), most=most)
        self.engine: Engine = LocalEngine(runner, {task.id: task for task in tasks}, self.folder, scheduler)
        self.jobs = [Job(plan_of(task, 1), order) for order, task in enumerate(tasks)]

    async def events(self) -> AsyncIterator[EngineEvent]:
        async with aclosing(self.engine.events()) as events:
            async for event in events:
                if isinstance(event, TrialStarting):
                    key = event.job.plan.key
                    make_room(self.folder.attempt(key.task_id, key.attempt, retry=event.job.retry))
                yield event

    async def all(self) -> list[EngineEvent]:
        return [event async for event in self.events()]

    def submit(self) -> None:
        for job in self.jobs:
            self.engine.submit(job)


async def test_every_start_is_followed_by_its_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner(work=lambda: asyncio.sleep(0)))
    bench.submit()
    events = await bench.all()
    assert [event.job for event in events if isinstance(event, TrialStarting)] == bench.jobs
    ended = {event.job: event for event in events if isinstance(event, TrialEnded)}
    assert len(events) == 8
    assert set(ended) == set(bench.jobs)
    assert all(event.result is not None and event.error is None for event in ended.values())
    assert bench.runner.most_alive == 2


async def test_a_trial_starts_only_when_the_next_event_is_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner(), most=1)
    bench.submit()
    starting = 0
    async for event in bench.events():
        if isinstance(event, TrialStarting):
            starting += 1
            await asyncio.sleep(0)
            assert event.job.plan.key not in {key for key, _ in bench.runner.seen}
    assert starting == len(bench.runner.seen) == 4


async def test_what_the_runner_raises_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner(ends={"task-001": ["defect"], "task-002": ["disk full"]}))
    bench.submit()
    ended = {event.job.order: event for event in await bench.all() if isinstance(event, TrialEnded)}
    assert {order: type(event.error) for order, event in ended.items()} == {
        0: type(None),
        1: RuntimeError,
        2: OSError,
        3: type(None),
    }


async def test_drained_it_starts_nothing_more_and_lets_end_what_runs(tmp_path: Path) -> None:
    release = asyncio.Event()
    bench = Bench(tmp_path, FakeRunner(work=release.wait))
    bench.submit()
    events = []
    async for event in bench.events():
        events.append(event)
        if event == TrialStarting(bench.jobs[1]):
            bench.engine.drain()
            release.set()
    assert [event.job.order for event in events if isinstance(event, TrialStarting)] == [0, 1]
    ended = {event.job.order: event.result for event in events if isinstance(event, TrialEnded)}
    assert ended[0] is not None
    # It had been announced and not started.
    assert ended[1] is None
    assert [key.task_id for key, _ in bench.runner.seen] == ["task-000"]


async def test_cancelled_every_running_trial_cleans_up_and_ends(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner(ends={"task-000": ["hang"], "task-001": ["hang"]}))
    bench.submit()
    asyncio.get_running_loop().call_soon(asyncio.ensure_future, _cancel_when_hanging(bench))
    events = await bench.all()
    assert [event for event in events if isinstance(event, TrialEnded)] == [TrialEnded(job) for job in bench.jobs[:2]]
    assert sorted(key.task_id for key in bench.runner.cleaned) == ["task-000", "task-001"]


async def _fail_at_the_first(bench: Bench) -> None:
    async for _ in bench.events():
        raise LookupError


async def _cancel_when_hanging(bench: Bench) -> None:
    await bench.runner.hanging.wait()
    bench.engine.cancel()


async def test_a_job_that_waits_takes_its_place_when_it_is_due(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner())
    bench.engine.submit(bench.jobs[0], after_s=0.01)
    bench.engine.submit(bench.jobs[1])
    events = await bench.all()
    assert [event.job.order for event in events if isinstance(event, TrialStarting)] == [1, 0]


async def test_a_job_that_waits_is_forgotten_when_drained(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner())
    bench.engine.submit(bench.jobs[0], after_s=3600)
    bench.engine.drain()
    bench.engine.submit(bench.jobs[1])
    assert await bench.all() == []


async def test_events_go_on_after_the_caller_failed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeRunner(), most=1)
    bench.submit()
    with pytest.raises(LookupError):
        await _fail_at_the_first(bench)
    bench.engine.cancel()
    assert await bench.all() == [TrialEnded(bench.jobs[0])]
