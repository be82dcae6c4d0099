"""A trial runner without sandboxes: it writes real folders and results, and comes to whatever end it is told to."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from support.folders import harbor
from termarena.core.records import write_record
from termarena.runs.config_lock import RunFacts
from termarena.runs.journal import JournalReader, now
from termarena.runs.outcome import FaultDetail, failure_mode_of
from termarena.runs.result import AgentFacts, Clock, LimitsUsed, SandboxFacts, TrialResult
from termarena.tasks.load import load_task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder, RunFolder
    from termarena.runs.outcome import Fault, Outcome
    from termarena.runs.plan import TrialKey, TrialPlan
    from termarena.tasks.model import Task

End = Literal["solved", "unsolved", "gone", "infra", "task", "test", "hang", "disk full", "defect"]
FACTS = RunFacts(agent_name="fake", agent_version="1", driver="none", dataset="little")
_FAULTS: dict[str, Fault] = {"infra": "infra", "gone": "infra", "task": "task", "test": "test"}


def make_tasks(folder: Path, number: int, **limits: int) -> tuple[Task, ...]:
    """So many small tasks, on disk and loaded; `cpus=4` and the like stand in their `[environment]`."""
    environment = "".join(f"{name} = {value}\n" for name, value in limits.items())
    for index in range(number):
        harbor(folder / f"task-{index:03}", task_toml=f'schema_version = "1.4"\n[environment]\n{environment}')
    return tuple(load_task(folder / f"task-{index:03}") for index in range(number))


@dataclass(slots=True)
class FakeRunner:
    """Implements `TrialRunner`. `ends` says, by task, how each of its tries ends; a task without any is solved."""

    ends: Mapping[str, Sequence[End]] = field(default_factory=dict)
    work: Callable[[], Awaitable[object]] | None = None
    """Awaited in the middle of each trial."""
    keeps_files: bool = True
    """Whether anything is written into the folders."""
    seen: list[tuple[TrialKey, int]] = field(default_factory=list)
    """Every try, in the order of starting."""
    alive: set[TrialKey] = field(default_factory=set)
    most_alive: int = 0
    cleaned: list[TrialKey] = field(default_factory=list)
    """Trials that were cancelled and have cleaned up."""
    is_closed: bool = False
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a trial that never ends has begun to hang."""
    _tries: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        assert task.id == plan.key.task_id
        assert list(folder.path.iterdir()) == []
        assert plan.key not in self.alive
        self.seen.append((plan.key, retry))
        self.alive.add(plan.key)
        self.most_alive = max(self.most_alive, len(self.alive))
        started_at = now()
        try:
            if self.keeps_files:
                folder.trajectory.write_text("{}\n")
            if self.work is not None:
                await self.work()
            return await self._end(self._next_end(task.id), plan, folder, retry, started_at)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.cleaned.append(plan.key)
            raise
        finally:
            self.alive.discard(plan.key)

    async def aclose(self) -> None:
        assert not self.alive
        self.is_closed = True

    def _next_end(self, task_id: str) -> End:
        ends = self.ends.get(task_id, ("solved",))
        number = self._tries[task_id]
        self._tries[task_id] += 1
        return ends[min(number, len(ends) - 1)]

    async def _end(self, end: End, plan: TrialPlan, folder: AttemptFolder, retry: int, started_at: str) -> TrialResult:
        if end == "hang":
            self.hanging.set()
            await asyncio.Event().wait()
        if end == "disk full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.result))
        if end == "defect":
            raise RuntimeError("a defect of the runner")
        result = _result(end, plan, retry, started_at)
        if self.keeps_files:
            write_record(folder.result, "trial-result", result.model_dump(mode="json"))
        return result


def _result(end: End, plan: TrialPlan, retry: int, started_at: str) -> TrialResult:
    fault = _FAULTS.get(end)
    outcome: Outcome = "unscored" if fault else "solved" if end == "solved" else "unsolved"
    kind = "AgentGone" if end == "gone" else "SandboxError"
    detail = FaultDetail(phase="prepare", kind=kind, message=f"{end} failed", is_retriable=fault != "task")
    return TrialResult(
        run_id="fake",
        task_id=plan.key.task_id,
        task_digest=plan.task_digest,
        attempt=plan.key.attempt,
        retry=retry,
        outcome=outcome,
        agent_end=None if fault else "submitted",
        fault=fault,
        failure_mode=failure_mode_of(outcome, None, fault, is_tampered=False, tests_timed_out=False),
        fault_detail=detail if fault else None,
        reward={"solved": 1.0, "unsolved": 0.0}.get(outcome),
        agent=AgentFacts(name="fake", version="1", commands=3),
        sandbox=SandboxFacts(driver="none"),
        limits=LimitsUsed(agent_timeout_s=60, test_timeout_s=60),
        clocks={"work": Clock(started_at=started_at, duration_s=0.25)},
        started_at=started_at,
        finished_at=now(),
    )


def lines_of(folder: RunFolder) -> list[str]:
    """The journal's events as `event` or `event task/attempt/retry`, in order."""
    told = []
    for event in JournalReader(folder.journal):
        fields = event.fields
        told.append(
            f"{event.name} {fields['task_id']}/{fields['attempt']}/{fields['retry']}"
            if "task_id" in fields
            else event.name
        )
    return told
