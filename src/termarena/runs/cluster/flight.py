"""One trial on its way through a cluster: a Ray task, and the folder that what it sends is written into."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import ClusterError, NodeLost
from termarena.runs.cluster.connecting import apart, fits
from termarena.runs.cluster.orders import Ended, Failed, Files
from termarena.runs.cluster.parcels import unpack

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.errors import HeadLost
    from termarena.runs.cluster.connecting import Cluster
    from termarena.runs.cluster.orders import Message
    from termarena.runs.machine import Budget

__all__ = ["Flight"]

# A trial that was told to stop ends its sandbox first; Docker may take ten seconds for that.
STOP_S: Final = 30.0
# How often a trial that waits for a node looks whether there still is one for it.
LOOK_S: Final = 5.0


class Flight:
    """A trial that was handed to the cluster."""

    def __init__(self, cluster: Cluster, stream: Any, trial: str, *, needs: Budget, folder: Path) -> None:  # noqa: ANN401 - Ray's
        """`stream` gives references to messages; `needs` are what the trial asked of a node."""
        self.trial = trial
        self._cluster = cluster
        self._stream = stream
        self._needs = needs
        self._folder = folder
        self._receiving: asyncio.Task[Ended | Failed] | None = None
        self._lost: HeadLost | None = None

    async def land(self) -> Ended | Failed:
        """How it ended; its files, `result.json` aside, are in the folder.

        Cancelling this stops the trial on its node, and is over when that is. Raises `NodeLost` where the node does not
        say how it ended, `ClusterError` where no node could take it, `HeadLost` after `lose`, OSError where the folder
        takes no more.
        """
        receiving = self._receiving = asyncio.create_task(self._receive())
        try:
            return await asyncio.shield(receiving)
        except asyncio.CancelledError:
            if self._lost is not None:  # nobody is left to be told to stop
                raise self._lost from None
            await self._stop(receiving)
            raise

    def lose(self, error: HeadLost) -> None:
        """Nothing more is to be heard: what waits for it to land is told so."""
        self._lost = error
        if self._receiving is not None:
            self._receiving.cancel()

    async def _receive(self) -> Ended | Failed:
        try:
            message = await self._first()
            while not isinstance(message, Failed):
                if isinstance(message, Files | Ended):
                    await asyncio.to_thread(unpack, message.parcel, self._folder)
                if isinstance(message, Ended):
                    break
                message = await self._next()
        except self._cluster.ray.exceptions.RayError as error:
            raise NodeLost(self._cluster.words_of(error)) from error
        except StopAsyncIteration as error:
            raise NodeLost("it ended without a word") from error
        except OSError:
            self._cancel()
            raise
        return message

    async def _next(self) -> Message:
        message: Message = await (await anext(self._stream))
        return message

    async def _first(self) -> Message:
        """Wait until a node has taken it, as long as there is one that could."""
        waiting = asyncio.create_task(self._next())
        while not (await asyncio.wait([waiting], timeout=LOOK_S))[0]:
            nodes = await apart(self._cluster.nodes)
            if not any(fits(self._needs, node) for node in nodes):
                self._cancel()
                waiting.cancel()
                raise ClusterError(
                    f"no node is left with {self._needs.cpus:g} processors and {self._needs.memory_mb} MB",
                    hint="start another node: ray start --address …",
                )
        return waiting.result()

    async def _stop(self, receiving: asyncio.Task[Ended | Failed]) -> None:
        """Stop the trial on its node; a node that does not come to an end of it loses the process that runs it."""
        self._cancel()
        if not (await asyncio.wait([receiving], timeout=STOP_S))[0]:
            self._cancel(is_forced=True)
            await asyncio.wait([receiving], timeout=STOP_S)
        if receiving.done() and not receiving.cancelled():
            receiving.exception()  # looked at: it says that the trial was stopped

    def _cancel(self, *, is_forced: bool = False) -> None:
        self._cluster.ray.cancel(self._stream, force=is_forced)
