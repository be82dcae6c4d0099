"""A Ray cluster as a run sees it: whether it is there, what its nodes have, what one trial asks of them."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from termarena.core.errors import ClusterError, MissingExtra, UsageError
from termarena.runs.machine import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from termarena.runs.plan import TrialPlan

__all__ = ["AUTO", "Cluster", "Node", "apart", "connect", "fits", "needs_of", "raisable"]

T = TypeVar("T")
THREAD: Final = "question to Ray"
AUTO: Final = "auto"
MIB: Final = 1 << 20
# Parcels on their way at once: a node does not fill the cluster's memory with a state of a gigabyte.
PARCELS_AHEAD: Final = 4
ANSWER_S: Final = 5.0
HEAD_SILENT_S: Final = 20.0
# Ray gives a head that is gone a minute to come back, and then ends this process without a word: whatever it has
# under way elsewhere would be lost with it.
RAY_PATIENCE: Final = ("RAY_gcs_rpc_server_reconnect_timeout_s", str(24 * 60 * 60))
HEAD_LOOK_S: Final = 2.0
# How long what was seen of the nodes is held to be true: trials that start one after the other ask once.
SEEN_S: Final = 1.0
ASKED_AT_ONCE: Final = 64
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
# A trial that asks for no processor still needs a node that has some: a head that is to carry out nothing has none.
LEAST_CPUS: Final = 0.01
START_HINT: Final = "start one with `ray start --head`, and name it: --address HOST:PORT, or auto on one of its nodes"


class Node(NamedTuple):
    """A node that is alive and has processors."""

    id: str
    name: str
    cpus: float
    memory_mb: int


class Cluster:
    """A connection of this process to a cluster; there is one at a time."""

    def __init__(self, ray: Any, address: str) -> None:  # noqa: ANN401 - Ray is loaded when it is used
        """`ray` is the module, connected."""
        self.ray = ray
        self.address = address
        self._trials: dict[Callable[..., object], Any] = {}
        self._seen: tuple[Node, ...] = ()
        self._seen_until_s = 0.0

    def nodes(self) -> tuple[Node, ...]:
        """Those that have processors and take a connection; at most a second old.

        The cluster itself may take a minute to notice that a node is gone, and whatever is asked of it waits so long.
        """
        if monotonic() >= self._seen_until_s:
            self._seen = self._look()
            self._seen_until_s = monotonic() + SEEN_S
        return self._seen

    def _look(self) -> tuple[Node, ...]:
        listed = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not listed:
            return ()
        doors = [(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in listed]
        with ThreadPoolExecutor(min(len(doors), ASKED_AT_ONCE)) as asking:
            is_there = list(asking.map(_takes_connections, doors))
        return tuple(_node(node) for node, answers in zip(listed, is_there, strict=True) if answers)

    def has_head(self) -> bool:
        """Whether the cluster's head takes a connection."""
        host, _, port = self.ray.get_runtime_context().gcs_address.rpartition(":")
        return _takes_connections((host, int(port)))

    def some_nodes(self) -> tuple[Node, ...]:
        """As `nodes`; raises `ClusterError` where there is none."""
        if found := self.nodes():
            return found
        raise ClusterError(
            f"the Ray cluster at {self.address} has no node with processors",
            hint="start one: ray start --address=HOST:PORT",
        )

    def has(self, node: Node) -> bool:
        """Whether it still is among the nodes."""
        return any(one.id == node.id for one in self.nodes())

    def as_trial(self, work: Callable[..., object], needs: Budget) -> Any:  # noqa: ANN401 - Ray's
        """A generator that runs on whichever node has what it needs; it is never run twice."""
        if work not in self._trials:  # each call of `remote` would send the function to every node anew
            self._trials[work] = self.ray.remote(
                max_retries=0,
                num_returns="streaming",
                scheduling_strategy="SPREAD",
                _generator_backpressure_num_objects=PARCELS_AHEAD,
            )(work)
        return self._trials[work].options(num_cpus=needs.cpus, memory=needs.memory_mb * MIB)

    def as_map(self, work: Callable[..., object]) -> Any:  # noqa: ANN401 - Ray's
        """A pure function that runs on whichever node has a processor free, and again where a node is lost."""
        return self.ray.remote(max_retries=3, num_cpus=1, scheduling_strategy="SPREAD")(work)

    def on_node(self, work: Callable[..., object], node: Node) -> Any:  # noqa: ANN401 - Ray's
        """A function that runs on this node, whatever else it has to do."""
        strategies = import_module("ray.util.scheduling_strategies")
        here = strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        return self.ray.remote(max_retries=0, num_cpus=0, scheduling_strategy=here)(work)

    def as_keeper(self, kind: type) -> Any:  # noqa: ANN401 - Ray's
        """A class whose object lives in a process of its own, beside this one where that can be, and answers all."""
        strategies = import_module("ray.util.scheduling_strategies")
        beside = self.ray.get_runtime_context().get_node_id()
        here = strategies.NodeAffinitySchedulingStrategy(beside, soft=True)
        return self.ray.remote(num_cpus=0, max_restarts=0)(kind).options(scheduling_strategy=here)

    def words_of(self, error: Exception) -> str:
        """The first sentence of what an error of Ray's says; of one that was raised on a node, what it was there."""
        is_from_node = isinstance(error, self.ray.exceptions.RayTaskError)
        lines = str(getattr(error, "cause", None) or error).strip().splitlines() or [type(error).__name__]
        return lines[-1 if is_from_node else 0].partition(". ")[0].rstrip(".")

    def close(self) -> None:
        """Let go of it: what still runs for this process is ended."""
        self.ray.shutdown()

    def abandon(self) -> None:
        """Let go of a cluster whose head is lost: taking leave would wait for it, now and when the process ends.

        From then on this process ends without a clean-up of Ray's, and with the status of a fault: its threads go on,
        and would end an interpreter that comes to its end by a fault of memory.
        """
        atexit.unregister(self.ray.shutdown)
        atexit.register(_leave_at_once)


async def apart(work: Callable[..., T], *given: object) -> T:
    """What a function returns, or raises, in a thread that nobody waits for at the end of the process.

    What is asked of Ray may never be answered where the head is lost; a thread of the event loop's own is joined when
    that ends, and would hold the command up. Raises `ClusterError` where it asks for the end of the process, as Ray
    does here and there.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(tell: Callable[[Any], None], what: object) -> None:
        if not answer.done():  # else nobody waits for it any more
            tell(what)

    def ask() -> None:
        told: tuple[Callable[[Any], None], object]
        try:
            told = answer.set_result, work(*given)
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
            told = answer.set_exception, raisable(error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=ask, name=THREAD, daemon=True).start()
    return await answer


def raisable(error: BaseException) -> Exception:
    """The error, as one that ends no event loop."""
    if isinstance(error, Exception):
        return error
    words = f"what was asked of the cluster ended with {type(error).__name__}: {error}"
    ended = ClusterError(words, hint="see what its nodes do: ray status")
    ended.__cause__ = error
    return ended


def connect(address: str) -> Cluster:
    """Connect to a cluster that is there already; none is ever started.

    Raises `MissingExtra` without Ray, UsageError for an address that is none, `ClusterError` where no cluster answers,
    or one of another version of Ray or Python.
    """
    _refuse_odd(address)
    os.environ.setdefault(*RAY_PATIENCE)  # it is read when Ray is loaded
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise MissingExtra("ray", extra="ray", purpose="--engine ray") from error
    meant = os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address
    if meant != AUTO:
        _refuse_silent(meant, own_ip=ray.util.get_node_ip_address())
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except ConnectionError as error:
        raise ClusterError(f"there is no Ray cluster at {address}", hint=START_HINT) from error
    except RuntimeError as error:  # what Ray raises for another version of itself or of Python, with both in its words
        words = " ".join(str(error).split())
        hint = "install the version of Ray and of Python that the cluster was started with"
        raise ClusterError(f"the Ray cluster at {address} cannot be used: {words}", hint=hint) from error
    return Cluster(ray, address)


def needs_of(plan: TrialPlan, nodes: Iterable[Node]) -> Budget:
    """What a trial asks of its node; one that asks for more than any node has gets a whole one. `nodes` has some."""
    there = sorted(nodes, key=lambda node: (node.cpus, node.memory_mb))
    cpus = max(plan.cpus, LEAST_CPUS)
    if any(fits(Budget(cpus, plan.memory_mb), node) for node in there):
        return Budget(cpus, plan.memory_mb)
    return Budget(min(cpus, there[-1].cpus), min(plan.memory_mb, there[-1].memory_mb))


def fits(needs: Budget, node: Node) -> bool:
    """Whether a node that has nothing else to do could take it."""
    return needs.cpus <= node.cpus and needs.memory_mb <= node.memory_mb


def _refuse_odd(address: str) -> None:
    host, _, port = address.rpartition(":")
    if address != AUTO and not (host and port.isdigit() and "/" not in host):
        raise UsageError(
            f"--address: {address!r} is no address of a Ray cluster",
            hint="give HOST:PORT, or auto; for a cluster behind ray:// run termarena on one of its nodes",
        )


def _refuse_silent(address: str, *, own_ip: str) -> None:
    """Nobody answers where Ray is going to ask: it would wait for minutes, and then end the process."""
    host, _, port = address.rpartition(":")
    asked = own_ip if host in LOOPBACK else host  # as Ray does
    if _takes_connections((asked, int(port))):
        return
    taken = f" (for {host}, Ray asks {asked})" if asked != host else ""
    raise ClusterError(f"there is no Ray cluster at {address}{taken}: nothing answers", hint=START_HINT)


def _leave_at_once() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)


def _takes_connections(door: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError, OverflowError), socket.create_connection(door, timeout=ANSWER_S):
        return True
    return False


def _node(listed: Mapping[str, Any]) -> Node:
    """Of what Ray says about one."""
    return Node(
        id=listed["NodeID"],
        name=listed["NodeManagerHostname"],
        cpus=listed["Resources"]["CPU"],
        memory_mb=int(listed["Resources"].get("memory", 0)) // MIB,
    )
