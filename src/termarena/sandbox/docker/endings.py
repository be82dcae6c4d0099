"""How a command's own process ended, with all of its output read: by the kernel, or by an engine that may forget."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, SandboxBroken
from termarena.sandbox.descriptors import until_readable
from termarena.sandbox.docker.local import wait_status

if TYPE_CHECKING:
    from termarena.sandbox.docker.container import Container
    from termarena.sandbox.docker.execs import Running
    from termarena.sandbox.docker.output import Channel

__all__ = ["Ending", "Status"]

ASK_S: Final = 5.0
"""How often an engine is asked whether a command still runs: the event that tells its end may have been lost."""
TOLD_S: Final = 60.0
"""How long after a process has ended its engine may take to say how."""
SILENT_S: Final = 60.0
"""How long the output of an ended command may bring nothing before its end counts as lost; engines take two seconds,
sixty commands at once on a machine under a load of 30 more than ten."""
SIGNALS: Final = range(129, 193)


@dataclass(frozen=True, slots=True)
class Status:
    """How a process ended."""

    code: int
    signal: int | None

    @classmethod
    def from_wait(cls, raw: int) -> Status:
        """From what `wait` tells."""
        code = os.waitstatus_to_exitcode(raw)
        return cls(128 - code, -code) if code < 0 else cls(code, None)

    @classmethod
    def from_code(cls, code: int) -> Status:
        """From an engine's number, in which an end by signal n looks like an exit with 128 + n."""
        return cls(code, code - 128 if code in SIGNALS else None)


class Ending:
    """The end of one command."""

    def __init__(self, container: Container, running: Running, channels: dict[int, Channel] | None = None) -> None:
        """With `channels`, the end is only told when all output has been read."""
        self._container = container
        self._running = running
        self._channels = channels

    async def status(self) -> Status:
        """Wait for it. Raises `SandboxBroken`."""
        raw = await self._by_kernel() if self._running.pidfd >= 0 else None
        status = Status.from_wait(raw) if raw is not None else Status.from_code(await self._by_engine())
        if self._channels is not None:
            await self._all_read(self._channels)
        if status.signal == signal.SIGKILL:
            await self._check_alive()
        return status

    async def _by_kernel(self) -> int | None:
        gone = asyncio.ensure_future(until_readable(self._running.pidfd))
        try:
            await self._unless_ended(gone)
        finally:
            gone.cancel()
        if self._running.end_mark is not None:
            await self._running.end_mark.write()
        return await asyncio.to_thread(wait_status, self._running.pidfd)

    async def _by_engine(self) -> int:
        """The engine's event, or its answer where the event has been lost."""
        told = self._container.exits[self._running.exec_id]
        has_ended = self._running.pidfd >= 0
        give_up = time.monotonic() + TOLD_S
        while not await self._unless_ended(told, timeout_s=ASK_S):
            seen = await self._ask(f"/exec/{self._running.exec_id}/json")
            if not told.done() and not seen["Running"] and seen.get("ExitCode") is not None:
                told.set_result(int(seen["ExitCode"]))
            elif has_ended and time.monotonic() > give_up:
                raise SandboxBroken(self._container.name, "its engine does not tell how a command ended")
        return told.result()

    async def _all_read(self, channels: dict[int, Channel]) -> None:
        ends = asyncio.gather(*(channel.ended.wait() for channel in channels.values()))
        try:
            before = _total(channels)
            while not await self._unless_ended(ends, timeout_s=SILENT_S):
                now = _total(channels)
                if now == before:
                    raise SandboxBroken(self._container.name, "the end of a command's output was lost")
                before = now
        finally:
            ends.cancel()

    async def _check_alive(self) -> None:
        """A command killed with its whole container tells nothing: raise `SandboxBroken`."""
        container = self._container
        if container.local is not None:
            is_ending = container.local.is_ending()
        else:
            is_ending = not (await self._ask(f"/containers/{container.id}/json"))["State"]["Running"]
        if is_ending:
            container.end("its container was killed")
        if container.ended.done():
            raise SandboxBroken(container.name, container.ended.result())

    async def _ask(self, path: str) -> Any:  # noqa: ANN401 - foreign JSON
        try:
            return (await self._container.engine.call("GET", path)).json()
        except EngineError as error:
            raise SandboxBroken(self._container.name, error.problem) from error

    async def _unless_ended(self, awaited: asyncio.Future[Any], *, timeout_s: float | None = None) -> bool:
        """Wait for something, or for the container's end; whether it came in time."""
        ended = self._container.ended
        await asyncio.wait({awaited, ended}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise SandboxBroken(self._container.name, ended.result())
        return awaited.done()


def _total(channels: dict[int, Channel]) -> int:
    return sum(channel.kept.total_bytes for channel in channels.values())
