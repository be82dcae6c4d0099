"""`RayTrials`: carries out each trial as one Ray task, on whichever node has room for it.

The run's folder stays on this machine. A task's folder goes to the node, and what the trial wrote comes back; the
journal, retries and the order of trials are those of any run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from termarena import __version__
from termarena.agents.recording import Recording
from termarena.agents.registry import is_installed
from termarena.core.errors import BudgetLost, ClusterError, ClusterLost, HeadLost, TermArenaError, UsageError
from termarena.core.scrub import Scrubber
from termarena.models import Brought, RunModels
from termarena.runs.asking import limits_of
from termarena.runs.cluster.connecting import HEAD_LOOK_S, HEAD_SILENT_S, apart, connect, needs_of
from termarena.runs.cluster.flight import Flight
from termarena.runs.cluster.luggage import Luggage, take_along
from termarena.runs.cluster.node import carry_out, look_around
from termarena.runs.cluster.orders import Ended, Order
from termarena.runs.cluster.parcels import pack
from termarena.runs.cluster.purse import Purse
from termarena.runs.faults import blame
from termarena.runs.machine import Budget
from termarena.runs.recording import write_attempt, write_result
from termarena.runs.state import TrialState
from termarena.sandbox.staged import staged
from termarena.tasks.load import is_task
from termarena.tasks.write import write_harbor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.cluster.connecting import Cluster, Node
    from termarena.runs.cluster.orders import Failed, NodeFacts
    from termarena.runs.plan import RunOptions, TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.tasks.model import Task

__all__ = ["RayTrials"]

T = TypeVar("T")
# What is counted over a run in the one process that carries it out; nodes would each count for themselves.
COUNTED_HERE: Final = ("model_requests", "model_tokens_per_minute")
# A process of a node's loads Ray and TermArena before it answers: seconds, on a machine with much to do a minute.
ANSWER_S: Final = 180.0
TELL_S: Final = 10.0


class RayTrials:
    """Carries out trials; see `TrialRunner`."""

    def __init__(
        self,
        options: RunOptions,
        *,
        run_id: str,
        brought: Brought | None = None,
        on_log: Callable[[str], None] | None = None,
    ) -> None:
        """Nothing is connected yet; `brought` is there where the run goes on, `on_log` is told of waiting.

        Raises UsageError for options that nodes cannot keep together.
        """
        _refuse_local(options)
        self._options = options
        self._run_id = run_id
        self._brought = brought or Brought()
        self._on_log = on_log or _nobody
        self._scrubber = Scrubber.from_environment(os.environ)
        self._connected: Cluster | None = None
        self._nodes: tuple[Node, ...] = ()
        self._sent: dict[str, list[Any]] = {}
        self._sending = asyncio.Lock()
        self._luggage = Luggage()
        self._purse: Any = None
        self._flights: set[Flight] = set()
        self._watching: asyncio.Task[None] | None = None
        self._lost: HeadLost | None = None

    @property
    def budget(self) -> Budget | None:
        """What the nodes had together at the end of `probe`; None before it."""
        if self._connected is None:
            return None
        return Budget(sum(node.cpus for node in self._nodes), sum(node.memory_mb for node in self._nodes))

    async def probe(self, tasks: Sequence[Task] = ()) -> None:
        """Connect, and look whether every node can carry out trials, before anything starts.

        Nothing depends on the tasks. A node that is lost meanwhile is left out. Raises what `connect` raises,
        `ClusterError` naming a node that cannot, what `take_along` raises, `HeadLost` and BudgetSpent.
        """
        del tasks
        limits = limits_of(self._options)
        RunModels(limits, brought=self._brought).budget.check()
        cluster = await apart(connect, self._options.address)
        self._connected = cluster
        try:
            nodes = await self._ask(cluster, cluster.some_nodes)
            self._luggage = await self._ask(cluster, take_along, self._options, cluster.ray.put)
            await asyncio.gather(*(self._check(cluster, node) for node in nodes))
            self._nodes = await self._ask(cluster, cluster.some_nodes)
            if (limits.run_usd, limits.run_tokens) != (None, None):
                self._purse = cluster.as_keeper(Purse).remote(limits, self._brought.spent)
        except BaseException:
            await self.aclose()
            raise

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        """As the contract says; what is lost with a node is unscored, by a fault of the machinery."""
        try:
            ended = await self._carry_out(plan, task, folder, retry)
        except ClusterLost:
            raise
        except TermArenaError as error:
            found = blame(error, "work")
        else:
            if _lost_its_budget(ended):
                raise BudgetLost
            if isinstance(ended, Ended):
                await asyncio.to_thread(write_result, folder, ended.result, self._scrubber)
                return ended.result
            found = ended.blame
        state = TrialState(self._run_id, self._options, task, plan.key, retry, blame=found)
        return await self._write_fault(state, folder)

    async def aclose(self) -> None:
        """Let go of the cluster; its nodes end what they still hold of this run."""
        if self._watching is not None:
            self._watching.cancel()
        cluster, self._connected = self._connected, None
        if cluster is None:
            return
        if self._lost is None:
            with contextlib.suppress(HeadLost):
                await self._ask(cluster, cluster.close)
        if self._lost is not None:
            cluster.abandon()

    async def _ask(self, cluster: Cluster, question: Callable[..., T], *given: object) -> T:
        """What the cluster answers, however long that takes as long as its head is there. Raises `HeadLost` else."""
        if self._lost is not None:
            raise self._lost
        asking = asyncio.create_task(apart(question, *given))
        heard = monotonic()
        try:
            while not (await asyncio.wait([asking], timeout=HEAD_LOOK_S))[0]:
                if self._lost is not None:
                    raise self._lost
                if await apart(cluster.has_head):
                    heard = monotonic()
                elif monotonic() - heard >= HEAD_SILENT_S:
                    raise self._lose(cluster)
            return asking.result()
        finally:
            asking.cancel()

    async def _check(self, cluster: Cluster, node: Node) -> None:
        try:
            facts = await self._facts_of(cluster, node)
        except cluster.ray.exceptions.RayError as error:
            if not await self._ask(cluster, cluster.has, node):
                self._on_log(f"the node {node.name} is lost, and left out")
                return
            problem = f"the node {node.name} cannot run TermArena: {cluster.words_of(error)}"
            raise ClusterError(problem, hint=f"install termarena[ray] {__version__} there, and restart Ray") from error
        if facts.version != __version__:
            problem = f"the node {node.name} has TermArena {facts.version}, this machine {__version__}"
            raise ClusterError(problem, hint="install the same version on every node, and restart Ray there")
        if facts.problem is not None:
            raise ClusterError(f"on the node {node.name}: {facts.problem}", hint=facts.hint)

    async def _facts_of(self, cluster: Cluster, node: Node) -> NodeFacts:
        """What a node says of itself. Raises Ray's errors, also where it is lost, and `ClusterError` after a limit."""
        asked = cluster.on_node(look_around, node).remote(self._options, self._luggage)
        asking = asyncio.ensure_future(asked)
        began = monotonic()
        while not (await asyncio.wait([asking], timeout=TELL_S))[0]:
            if not await self._ask(cluster, cluster.has, node):
                asking.cancel()
                raise cluster.ray.exceptions.RayError("it does not answer any more")
            if monotonic() - began > ANSWER_S:
                cluster.ray.cancel(asked, force=True)
                raise ClusterError(
                    f"the node {node.name} has not answered for {ANSWER_S:.0f} s",
                    hint="see what it does (`ray status`), or take it out of the cluster: `ray stop` there",
                )
            self._on_log(f"waiting for the node {node.name} to answer: {monotonic() - began:.0f} s")
        facts: NodeFacts = asking.result()
        return facts

    async def _carry_out(self, plan: TrialPlan, task: Task, folder: AttemptFolder, retry: int) -> Ended | Failed:
        """Raises what `_launch` and `Flight.land` raise."""
        flight = await self._launch(plan, task, folder, retry)
        if self._lost is not None:  # meanwhile: whoever looked for the head does not know of this flight
            raise self._lost
        self._flights.add(flight)
        try:
            return await flight.land()
        finally:
            self._flights.remove(flight)
            if self._purse is not None and self._lost is None:
                self._purse.release_all.remote(flight.trial)

    async def _watch(self, cluster: Cluster) -> None:
        """Look whether the head is there as long as the run goes on; without it, nothing that was begun is heard of."""
        heard = monotonic()
        while monotonic() - heard < HEAD_SILENT_S:
            await asyncio.sleep(HEAD_LOOK_S)
            if await apart(cluster.has_head):
                heard = monotonic()
        self._lose(cluster)

    def _lose(self, cluster: Cluster) -> HeadLost:
        """The head is gone: whoever waits is told so."""
        if self._lost is None:
            self._lost = HeadLost(cluster.address, silent_s=HEAD_SILENT_S)
            for flight in self._flights:
                flight.lose(self._lost)
        return self._lost

    async def _launch(self, plan: TrialPlan, task: Task, folder: AttemptFolder, retry: int) -> Flight:
        """Raises `HeadLost`, `ClusterError` where there is no cluster, or no node in it, and what sending raises."""
        if self._lost is not None:
            raise self._lost
        cluster = self._connected
        if cluster is None:
            raise ClusterError("there is no connection to a cluster", hint="call probe() before the first trial")
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(cluster))
        needs = needs_of(plan, await self._ask(cluster, cluster.some_nodes))
        order = Order(
            __version__, self._run_id, self._options, plan, retry, _sent_as(task).name, self._luggage, self._purse
        )
        stream = cluster.as_trial(carry_out, needs).remote(order, await self._send(cluster, task))
        return Flight(cluster, stream, order.trial, needs=needs, folder=folder.path)

    async def _send(self, cluster: Cluster, task: Task) -> list[Any]:
        """Put the task's folder into the cluster's memory, once in a run: where each parcel lies there.

        Raises `ClusterError` where it cannot be read or put there, TaskError where it cannot be written as a folder.
        """
        async with self._sending:
            if task.id not in self._sent:
                try:
                    self._sent[task.id] = await self._ask(cluster, _put, cluster, task)
                except (OSError, cluster.ray.exceptions.RayError) as error:
                    raise ClusterError(f"{task.id} cannot be sent to the nodes: {error}") from error
        return self._sent[task.id]

    async def _write_fault(self, state: TrialState, folder: AttemptFolder) -> TrialResult:
        """The record of a trial that no node brought to its end; what came of its files is dropped."""
        await asyncio.to_thread(shutil.rmtree, folder.path)
        folder.path.mkdir()
        record = Recording(folder, self._scrubber).finish()
        return await asyncio.to_thread(write_attempt, folder, state, record, self._scrubber)


def _lost_its_budget(ended: Ended | Failed) -> bool:
    """Whether the trial stopped because nobody could tell what it may spend: those that follow would do the same."""
    if isinstance(ended, Ended):
        told = (ended.result.agent_error, ended.result.fault_detail)  # what came after it may have failed, too
        return any(one is not None and one.kind == BudgetLost.__name__ for one in told)
    return ended.blame.detail.kind == BudgetLost.__name__


def _nobody(_: str) -> None:
    return None


def _refuse_local(options: RunOptions) -> None:
    if is_installed(options.agent):
        raise UsageError(
            f"{options.agent} is installed on this machine, and not on the nodes of a cluster",
            hint="take --engine local, or an agent that lives outside the sandbox",
        )
    if options.fetch_plan is not None:
        raise UsageError(
            "a recording of downloads lies on this machine, and not on the nodes of a cluster",
            hint="take --engine local",
        )
    for name in COUNTED_HERE:
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is counted in one process and cannot be kept by the nodes of a cluster",
                hint="leave it out, or take --engine local; budgets work on both",
            )


def _sent_as(task: Task) -> Path:
    """The folder that goes to the nodes; a task that has none of its own is written as one, with its id in it."""
    return Path(task.provenance.path) if is_task(task.provenance.path) else Path("task")


def _put(cluster: Cluster, task: Task) -> list[Any]:
    if is_task(task.provenance.path):
        return [cluster.ray.put(parcel) for parcel in pack(Path(task.provenance.path))]
    with staged("task") as place:
        return [cluster.ray.put(parcel) for parcel in pack(write_harbor(task, place))]
