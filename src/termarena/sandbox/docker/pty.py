"""A process on a terminal of a container, offered as a descriptor like that of any terminal.

The engine carries the terminal's bytes over a connection. A pair of our own, in raw mode, stands between: its master
is what the caller reads and writes, and reading it fails with EIO when the far terminal has closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import tty
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, SandboxBroken
from termarena.sandbox.contract import ExecResult
from termarena.sandbox.descriptors import until_readable, until_writable
from termarena.sandbox.docker.endings import Ending
from termarena.sandbox.sides import check_size

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from termarena.sandbox.docker.container import Container
    from termarena.sandbox.docker.execs import Running

__all__ = ["DockerPty"]

CHUNK: Final = 1 << 16
ECHO: Final = b"\r\n"
"""What the terminal shows of the line that opens the gate."""
HANG_UP: Final = 'kill -HUP "$1" 2>/dev/null; kill -HUP -"$1" 2>/dev/null'


class DockerPty:
    """See `termarena.sandbox.contract.PtyProcess`."""

    def __init__(self, container: Container, running: Running) -> None:
        """Takes over the running command; the gate is opened by `open`."""
        self._container = container
        self._running = running
        self._master_fd, self._slave_fd = os.openpty()
        tty.setraw(self._slave_fd)
        os.set_blocking(self._master_fd, False)
        os.set_blocking(self._slave_fd, False)
        self._tasks: set[asyncio.Task[None]] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._resizing: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[ExecResult] | None = None
        self._words_before = container.oom_kills

    async def open(self, cols: int, rows: int) -> None:
        """Give the terminal its size and let the command begin."""
        await self._resize(cols, rows)
        self._ending = asyncio.create_task(self._end())
        self._ending.add_done_callback(_seen)
        self._spawn(self._show(), self._carrying)
        await self._running.stream.send(b"\n")
        self._spawn(self._type(), self._carrying)

    def _spawn(self, job: Coroutine[Any, Any, None], *groups: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(job)
        for group in (self._tasks, *groups):
            group.add(task)
            task.add_done_callback(group.discard)

    async def _resize(self, cols: int, rows: int) -> None:
        with contextlib.suppress(EngineError):
            path = f"/exec/{self._running.exec_id}/resize"
            await self._container.engine.call("POST", path, query={"h": rows, "w": cols})

    async def _show(self) -> None:
        """Carry what the far terminal shows to ours, and close ours when it has closed."""
        stream, skip = self._running.stream, len(ECHO)
        pending = self._running.first
        try:
            while True:
                if not pending:
                    pending = await stream.receive()
                    if not pending:
                        break
                taken = min(skip, len(pending))
                skip -= taken
                await _write(self._slave_fd, pending[taken:])
                pending = b""
        except OSError:
            pass
        finally:
            self._close_slave()

    async def _type(self) -> None:
        with contextlib.suppress(OSError):
            while typed := await _read(self._slave_fd):
                # The size travels on another connection: what was typed after it must not arrive before it.
                await asyncio.gather(*self._resizing)
                await self._running.stream.send(typed)

    def _close_slave(self) -> None:
        """Close our side once nobody waits on it: the number may be somebody else's the moment after."""
        fd, self._slave_fd = self._slave_fd, -1
        others = {task for task in self._carrying if task is not asyncio.current_task()}

        def leave(task: asyncio.Task[None]) -> None:
            others.discard(task)
            if not others:
                os.close(fd)

        if fd >= 0 and not others:
            os.close(fd)
        elif fd >= 0:
            for task in tuple(others):
                task.cancel()
                task.add_done_callback(leave)

    @property
    def master_fd(self) -> int:
        """Non-blocking; -1 once closed."""
        return self._master_fd

    @property
    def pid(self) -> int:
        """The process's number inside the sandbox."""
        return self._running.leader

    def resize(self, cols: int, rows: int) -> None:
        """Tell the programs on the terminal, soon; raises `TerminalSizeError`."""
        check_size(cols, rows)
        self._spawn(self._resize(cols, rows), self._resizing)

    async def _end(self) -> ExecResult:
        try:
            status = await Ending(self._container, self._running).status()
        finally:
            self._running.close()
        return ExecResult(
            exit_status=status.code,
            signal=status.signal,
            stdout=b"",
            stderr=b"",
            stdout_bytes=0,
            stderr_bytes=0,
            duration_s=time.monotonic() - self._running.started,
            oom_killed=self._container.oom_kills > self._words_before,
        )

    async def wait(self) -> ExecResult:
        """The end of the process; its output is what was read from the master."""
        if self._ending is None:
            raise SandboxBroken(self._container.name, "the terminal was never opened")
        return await asyncio.shield(self._ending)

    async def kill(self) -> None:
        """End every process that it started, wherever it went."""
        await self._container.commands.kill(self._running)

    def close(self) -> None:
        """Close the master; the process is told to hang up."""
        if self._master_fd < 0:
            return
        os.close(self._master_fd)
        self._master_fd = -1
        for task in list(self._tasks):
            task.cancel()
        self._container.commands.attend_to(self._hang_up())

    async def _hang_up(self) -> None:
        if self._ending is not None and not self._ending.done():
            with contextlib.suppress(SandboxBroken):
                await self._container.commands.plain(["/bin/sh", "-c", HANG_UP, "sh", str(self.pid)])
            self._ending.cancel()
        await self._running.stream.close()
        self._close_slave()


def _seen(ending: asyncio.Task[ExecResult]) -> None:
    """A container that ends when nobody waits for the terminal any more is no news for the log."""
    if not ending.cancelled():
        ending.exception()


async def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            await until_readable(fd)


async def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await until_writable(fd)
