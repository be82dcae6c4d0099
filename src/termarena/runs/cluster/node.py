"""What runs on a node, in a process of Ray's: one trial at a time, and what the trials of a run share between them.

The sandboxes of a process that Ray ends are ended by the kernel, or by Docker's reaper, as those of any harness.
"""

from __future__ import annotations

import asyncio
import platform
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from termarena import __version__
from termarena.agents.foreign import load_class
from termarena.agents.registry import kind_of
from termarena.core.errors import ClusterError, DigestMismatch, TermArenaError
from termarena.core.run_folder import AttemptFolder
from termarena.core.settings import resolve_settings
from termarena.models import Brought
from termarena.runs.cluster.luggage import check_out
from termarena.runs.cluster.orders import Began, Ended, Failed, Files, NodeFacts
from termarena.runs.cluster.parcels import pack, unpack
from termarena.runs.cluster.purse import NodeBudget
from termarena.runs.faults import blame
from termarena.runs.trials import Trials
from termarena.sandbox.staged import stage_below, staged, sweep_staged
from termarena.tasks.load import load_task

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    from termarena.runs.cluster.luggage import Luggage
    from termarena.runs.cluster.orders import Message, Order
    from termarena.runs.cluster.parcels import Parcel
    from termarena.runs.outcome import Phase
    from termarena.runs.plan import RunOptions
    from termarena.runs.result import TrialResult
    from termarena.tasks.model import Task

__all__ = ["carry_out", "look_around"]

T = TypeVar("T")
# Ray interrupts the main thread without a signal, which wakes no lock: it has to look up by itself.
LOOK_UP_S: Final = 0.1


def look_around(options: RunOptions, luggage: Luggage) -> NodeFacts:
    """What this node is, and whether the run's driver, agent and model can be used from it."""
    home = resolve_settings().settings.paths.home
    stage_below(home)
    try:
        with staged("given") as place:
            brought = Brought(places=check_out(luggage, place, import_module("ray").get))
            if kind_of(options.agent).kind == "own":
                load_class(options.agent)
            asyncio.run(Trials(options, home=home, run_id="", brought=brought).probe())
    except TermArenaError as error:
        return NodeFacts(platform.node(), __version__, error.message, error.hint)
    return NodeFacts(platform.node(), __version__, None, None)


def carry_out(order: Order, parcels: list[Any]) -> Iterator[Message]:
    """Carry out one trial; `parcels` are where the cluster's memory has its task.

    Raises only what ends the process or interrupts it, after everything that the trial started has been stopped.
    """
    yield Began(platform.node())
    phase: Phase = "prepare"
    try:
        with ExitStack() as stack:
            held = _held(order.version)
            task = held.task(order, parcels)
            folder = AttemptFolder(stack.enter_context(staged("trial")) / "attempt")
            phase = "work"
            result = held.run(order, task, folder)
            phase = "record"
            last: Parcel = ()
            for number, parcel in enumerate(pack(folder.path, without={folder.result.name})):
                if number:
                    yield Files(last)
                last = parcel
            yield Ended(last, result)
    except Exception as error:  # noqa: BLE001 - the node's boundary: whatever it was becomes a fault of the trial
        yield Failed(blame(error, phase))


class _Loop:
    """An event loop that lives as long as the process: sandboxes and start states outlive the trial that made them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="trials", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it; an interrupt of this thread cancels it, and is raised again once that has been cleaned up."""
        ended = threading.Event()
        task = asyncio.run_coroutine_threadsafe(self._start(work, ended), self._loop).result()
        try:
            while not ended.wait(LOOK_UP_S):
                pass
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(task.cancel)
            ended.wait()
            raise
        return task.result()

    async def _start(self, work: Coroutine[Any, Any, T], ended: threading.Event) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: ended.set())
        return task


class _Runner(NamedTuple):
    trials: Trials
    budget: NodeBudget | None


@dataclass(slots=True)
class _Held:
    """What this process keeps from trial to trial."""

    home: Path
    loop: _Loop = field(default_factory=_Loop)
    runners: dict[str, _Runner] = field(default_factory=dict)
    """By the run's id; a process of Ray's serves one run."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """By the digest that was ordered and the folder's name."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def task(self, order: Order, parcels: list[Any]) -> Task:
        """The task, loaded from a copy of its folder; raises DigestMismatch where that is not what was ordered."""
        key = f"{order.plan.task_digest}/{order.plan.key.task_id}"
        if key not in self.tasks:
            folder = self._stack.enter_context(staged("task")) / order.task_folder
            folder.mkdir()
            fetch = import_module("ray").get
            for parcel in parcels:
                unpack(fetch(parcel), folder, takes_links=True)
            task = load_task(folder)
            if (task.id, task.digest) != (order.plan.key.task_id, order.plan.task_digest):
                raise DigestMismatch("the run", files=(f"task {order.plan.key.task_id} has changed",))
            self.tasks[key] = task
        return self.tasks[key]

    def run(self, order: Order, task: Task, folder: AttemptFolder) -> TrialResult:
        """The trial, written into the folder."""
        if order.run_id not in self.runners:
            self.runners[order.run_id] = self._runner(order)
        runner, budget = self.runners[order.run_id]
        if budget is not None:
            budget.trial = order.trial
        result = self.loop.run(runner.run(order.plan, task, folder=folder, retry=order.retry))
        here = result.sandbox.model_copy(update={"node": platform.node()})
        return result.model_copy(update={"sandbox": here})

    def _runner(self, order: Order) -> _Runner:
        ray = import_module("ray")
        places = check_out(order.luggage, self._stack.enter_context(staged("given")), ray.get)
        budget = NodeBudget("run", purse=order.purse, ray=ray) if order.purse is not None else None
        brought = Brought(places=places, budget=budget)
        return _Runner(Trials(order.options, home=self.home, run_id=order.run_id, brought=brought), budget)


def _held(version: str) -> _Held:
    """Raises `ClusterError` where this node has another version."""
    if version != __version__:
        raise ClusterError(
            f"the node {platform.node()} has TermArena {__version__}, the run {version}",
            hint="install the same version on every node, and restart Ray there",
        )
    return _hold()


@cache
def _hold() -> _Held:
    home = resolve_settings().settings.paths.home
    stage_below(home)
    sweep_staged(home)
    return _Held(home)
