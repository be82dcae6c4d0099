"""`RayTrials`: carries out each trial as one Ray task, on whichever node has room for it.

The run's folder stays on this machine. A task's folder goes to the node, and what the trial wrote comes back; the
journal, retries and the order of trials are those of any run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from termarena import __version__
from termarena.agents.recording import Recording
from termarena.agents.registry import is_installed
from termarena.core.errors import ClusterError, TermArenaError, UsageError
from termarena.core.scrub import Scrubber
from termarena.runs.cluster.connecting import connect, needs_of
from termarena.runs.cluster.flight import Flight
from termarena.runs.cluster.node import carry_out, look_around
from termarena.runs.cluster.orders import Ended, Order
from termarena.runs.cluster.parcels import pack
from termarena.runs.faults import blame
from termarena.runs.machine import Budget
from termarena.runs.recording import write_attempt, write_result
from termarena.runs.state import TrialState
from termarena.sandbox.staged import staged
from termarena.tasks.load import is_task
from termarena.tasks.write import write_harbor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.cluster.connecting import Cluster, Node
    from termarena.runs.cluster.orders import NodeFacts
    from termarena.runs.plan import RunOptions, TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.tasks.model import Task

__all__ = ["RayTrials"]

# What is counted over a run in the one process that carries it out; nodes would each count for themselves.
COUNTED_HERE: Final = ("run_budget_usd", "run_budget_tokens", "model_requests", "model_tokens_per_minute")


class RayTrials:
    """Carries out trials; see `TrialRunner`."""

    def __init__(self, options: RunOptions, *, run_id: str) -> None:
        """Nothing is connected yet. Raises UsageError for options that nodes cannot keep together."""
        _refuse_local(options)
        self._options = options
        self._run_id = run_id
        self._scrubber = Scrubber.from_environment(os.environ)
        self._connected: Cluster | None = None
        self._sent: dict[str, list[Any]] = {}
        self._sending = asyncio.Lock()

    @property
    def budget(self) -> Budget | None:
        """What the nodes have together; None before `probe`."""
        if self._connected is None:
            return None
        nodes = self._connected.nodes()
        return Budget(sum(node.cpus for node in nodes), sum(node.memory_mb for node in nodes))

    async def probe(self, tasks: Sequence[Task] = ()) -> None:
        """Connect, and look whether every node can carry out trials, before anything starts.

        Nothing depends on the tasks. Raises what `connect` raises, and `ClusterError` naming a node that cannot.
        """
        del tasks
        cluster = await asyncio.to_thread(connect, self._options.address)
        self._connected = cluster
        try:
            await asyncio.gather(*(self._check(cluster, node) for node in cluster.some_nodes()))
        except BaseException:
            await self.aclose()
            raise

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        """As the contract says; what is lost with a node is unscored, by a fault of the machinery."""
        try:
            ended = await (await self._launch(plan, task, folder, retry)).land()
        except TermArenaError as error:
            found = blame(error, "work")
        else:
            if isinstance(ended, Ended):
                await asyncio.to_thread(write_result, folder, ended.result, self._scrubber)
                return ended.result
            found = ended.blame
        state = TrialState(self._run_id, self._options, task, plan.key, retry, blame=found)
        return await self._write_fault(state, folder)

    async def aclose(self) -> None:
        """Let go of the cluster; its nodes end what they still hold of this run."""
        if self._connected is not None:
            await asyncio.to_thread(self._connected.close)
            self._connected = None

    async def _check(self, cluster: Cluster, node: Node) -> None:
        try:
            facts: NodeFacts = await cluster.on_node(look_around, node).remote(self._options)
        except cluster.ray.exceptions.RayError as error:
            problem = f"the node {node.name} cannot run TermArena: {cluster.words_of(error)}"
            raise ClusterError(problem, hint=f"install termarena[ray] {__version__} there, and restart Ray") from error
        if facts.version != __version__:
            problem = f"the node {node.name} has TermArena {facts.version}, this machine {__version__}"
            raise ClusterError(problem, hint="install the same version on every node, and restart Ray there")
        if facts.problem is not None:
            raise ClusterError(f"on the node {node.name}: {facts.problem}", hint=facts.hint)

    async def _launch(self, plan: TrialPlan, task: Task, folder: AttemptFolder, retry: int) -> Flight:
        """Raises `ClusterError` where there is no cluster, or no node in it, and what sending the task raises."""
        cluster = self._connected
        if cluster is None:
            raise ClusterError("there is no connection to a cluster", hint="call probe() before the first trial")
        needs = needs_of(plan, await asyncio.to_thread(cluster.some_nodes))
        order = Order(__version__, self._run_id, self._options, plan, retry, _sent_as(task).name)
        stream = cluster.as_trial(carry_out, needs).remote(order, await self._send(cluster, task))
        return Flight(cluster, stream, needs=needs, folder=folder.path)

    async def _send(self, cluster: Cluster, task: Task) -> list[Any]:
        """Put the task's folder into the cluster's memory, once in a run: where each parcel lies there.

        Raises `ClusterError` where it cannot be read or put there, TaskError where it cannot be written as a folder.
        """
        async with self._sending:
            if task.id not in self._sent:
                try:
                    self._sent[task.id] = await asyncio.to_thread(_put, cluster, task)
                except (OSError, cluster.ray.exceptions.RayError) as error:
                    raise ClusterError(f"{task.id} cannot be sent to the nodes: {error}") from error
        return self._sent[task.id]

    async def _write_fault(self, state: TrialState, folder: AttemptFolder) -> TrialResult:
        """The record of a trial that no node brought to its end; what came of its files is dropped."""
        await asyncio.to_thread(shutil.rmtree, folder.path)
        folder.path.mkdir()
        record = Recording(folder, self._scrubber).finish()
        return await asyncio.to_thread(write_attempt, folder, state, record, self._scrubber)


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
                hint="leave it out, or take --engine local; budgets per trial work on both",
            )


def _sent_as(task: Task) -> Path:
    """The folder that goes to the nodes; a task that has none of its own is written as one, with its id in it."""
    return Path(task.provenance.path) if is_task(task.provenance.path) else Path("task")


def _put(cluster: Cluster, task: Task) -> list[Any]:
    if is_task(task.provenance.path):
        return [cluster.ray.put(parcel) for parcel in pack(Path(task.provenance.path))]
    with staged("task") as place:
        return [cluster.ray.put(parcel) for parcel in pack(write_harbor(task, place))]
