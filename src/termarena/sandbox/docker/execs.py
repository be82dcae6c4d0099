"""Commands in a container: through a gate, so that a command is known and marked before it begins."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, NotFound, SandboxBroken, SandboxFileError
from termarena.sandbox.contract import TIMEOUT_STATUS, ExecResult
from termarena.sandbox.docker.client import Request
from termarena.sandbox.docker.local import until_readable, wait_status
from termarena.sandbox.docker.output import Channel, EndMark, Leftover, frames
from termarena.sandbox.docker.scripts import GATE, coded_words, mark_bytes
from termarena.sandbox.docker.users import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from termarena.sandbox.docker.container import Container
    from termarena.sandbox.docker.streams import Stream
    from termarena.sandbox.docker.users import Identity

__all__ = ["Commands", "Order", "Running"]

GRACE_S: Final = 0.5
"""Between SIGTERM and SIGKILL after a timeout."""
BACKSTOP_S: Final = 15.0
"""How long a killed command may take to be gone before the sandbox is given up."""
OOM_WORD_S: Final = 0.5
"""How much later than a command's end an engine may tell that memory had run out."""
KILLED: Final = 137
SIGNALS: Final = range(129, 193)
UPGRADE: Final = {"Connection": "Upgrade", "Upgrade": "tcp"}


@dataclass(frozen=True, slots=True)
class Order:
    """What to run."""

    argv: tuple[str, ...]
    who: Identity
    cwd: str
    cwd_else: str
    """Where to go when `cwd` cannot be entered; empty: refuse."""
    env: Mapping[str, str]


@dataclass(slots=True)
class Running:
    """A command behind its gate, or past it; also the group of all processes it starts."""

    exec_id: str
    stream: Stream
    leader: int
    mark: int
    started: float
    pidfd: int = -1
    host_pid: int = 0
    end_mark: EndMark | None = None
    leftover: Leftover | None = None
    first: bytes = b""
    """Output that came with the gate's word."""

    def close(self) -> None:
        """Let go of the process; the stream stays open."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        if self.end_mark is not None:
            self.end_mark.close()


class Commands:
    """The commands of one container."""

    def __init__(self, container: Container) -> None:
        """Numbers begin at one."""
        self._container = container
        self._numbers = itertools.count(1)
        self._draining: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop reading what daemons still write."""
        for task in list(self._draining):
            task.cancel()
        await asyncio.gather(*self._draining, return_exceptions=True)

    # Beginning.

    async def begin(self, order: Order, *, tty: bool) -> Running:
        """Start the gate and wait for its word.

        Raises `SandboxFileError` for the folder, `NotFound` for the user, `SandboxBroken`.
        """
        number = next(self._numbers)
        mark = mark_bytes(number)
        unset = " ".join(name for name in ("OLDPWD", "HOSTNAME") if name not in order.env) or "OLDPWD"
        gate = [
            "/bin/sh",
            "-c",
            GATE,
            "sh",
            str(mark >> 10),
            order.cwd,
            order.cwd_else,
            unset,
            *coded_words(order.argv),
        ]
        exec_id = await self._create(gate, order, tty=tty)
        stream = await self._start(exec_id, tty=tty)
        try:
            running = await self._hear(Running(exec_id, stream, 0, mark, time.monotonic()), order, tty=tty)
            await self._find(running, tty=tty)
        except BaseException:
            await asyncio.shield(stream.close())
            raise
        return running

    async def _create(self, command: list[str], order: Order, *, tty: bool) -> str:
        created = await self._call(
            "POST",
            f"/containers/{self._container.id}/exec",
            json={
                "Cmd": command,
                "User": order.who.spelled,
                "Env": [f"{name}={value}" for name, value in order.env.items()],
                "WorkingDir": "/",
                "AttachStdin": True,
                "AttachStdout": True,
                "AttachStderr": True,
                "Tty": tty,
            },
        )
        exec_id = str(created["Id"])
        self._container.exits[exec_id] = asyncio.get_running_loop().create_future()
        return exec_id

    async def _start(self, exec_id: str, *, tty: bool) -> Stream:
        asked = Request("POST", f"/exec/{exec_id}/start", json={"Detach": False, "Tty": tty}, headers=UPGRADE)
        try:
            return await self._container.engine.take_over(asked)
        except EngineError as error:
            raise self._refusal(error.problem) from error

    async def _call(self, method: str, path: str, **rest: Any) -> Any:  # noqa: ANN401 - foreign JSON
        if self._container.ended.done():
            raise SandboxBroken(self._container.name, self._container.ended.result())
        try:
            return (await self._container.engine.call(method, path, **rest)).json()
        except EngineError as error:
            raise self._refusal(error.problem) from error

    def _refusal(self, problem: str) -> Exception:
        if "unable to find user" in problem or "unable to find group" in problem:
            return NotFound(problem)
        if self._container.ended.done():
            return SandboxBroken(self._container.name, self._container.ended.result())
        return SandboxBroken(self._container.name, problem)

    async def _hear(self, running: Running, order: Order, *, tty: bool) -> Running:
        """Read up to the gate's word."""
        said = b""
        async for piece in _pieces(running.stream, tty=tty):
            said += piece
            if b"\n" in said and said.startswith(b"!pid "):
                line, _, running.first = said.partition(b"\n")
                running.leader = int(line.split()[1])
                return running
            if said.startswith(b"!cwd"):
                raise SandboxFileError("exec in", order.cwd, problem="the folder cannot be entered")
        problem = said.decode(errors="replace").strip() or "a command ended before it began"
        raise self._refusal(problem)

    async def _find(self, running: Running, *, tty: bool) -> None:
        """Take hold of the process through the kernel, where that is possible."""
        local = self._container.local
        if local is None:
            return
        seen = await self._call("GET", f"/exec/{running.exec_id}/json")
        # The engine may not have written down yet what already speaks to us.
        running.host_pid = int(seen.get("Pid") or 0) or await asyncio.to_thread(local.find, running.leader)
        with contextlib.suppress(OSError):
            running.pidfd = os.pidfd_open(running.host_pid)
            if not tty:
                running.end_mark = EndMark(running.host_pid)
                running.leftover = Leftover(running.host_pid)

    # Running.

    async def run(
        self, order: Order, *, stdin: bytes, timeout_s: float | None, keep_bytes: int, tail_bytes: int = 0
    ) -> ExecResult:
        """Run to the end of the command's own process; see the contract's `exec`."""
        container = self._container
        oom_before, words_before = container.local.oom_kills() if container.local else None, container.oom_kills
        container.oom_word.clear()
        running = await self.begin(order, tty=False)
        channels = {number: Channel(keep_bytes, tail_bytes) for number in (1, 2)}
        channels[2].feed(running.first)
        if running.end_mark is not None:
            for channel in channels.values():
                channel.expect(running.end_mark.mark)
        reading = asyncio.create_task(_collect(running.stream, channels))
        feeding = asyncio.create_task(_feed(running.stream, b"\n" + stdin))
        try:
            status, timed_out = await self._to_the_end(running, channels, timeout_s=timeout_s)
        except BaseException:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await asyncio.shield(running.stream.close())
            if running.leftover is not None:
                running.leftover.close()
            raise
        finally:
            feeding.cancel()
            running.close()
            container.exits.pop(running.exec_id, None)
        self._keep_draining(reading, running.stream, running.leftover)
        killed = await self._memory_killed(status, oom_before, words_before)
        stdout, stderr = channels[1].kept, channels[2].kept
        return ExecResult(
            exit_status=TIMEOUT_STATUS if timed_out else status.code,
            signal=status.signal,
            stdout=stdout.first(),
            stderr=stderr.first(),
            stdout_bytes=stdout.total_bytes,
            stderr_bytes=stderr.total_bytes,
            stdout_tail=stdout.last(),
            stderr_tail=stderr.last(),
            duration_s=time.monotonic() - running.started,
            timed_out=timed_out,
            oom_killed=killed,
        )

    async def _to_the_end(
        self, running: Running, channels: dict[int, Channel], *, timeout_s: float | None
    ) -> tuple[Status, bool]:
        ending = asyncio.create_task(self.ending(running, channels))
        timed_out = False
        try:
            done, _ = await asyncio.wait({ending}, timeout=timeout_s)
            if not done:
                timed_out = True
                await self._container.census.terminate(running)
                await asyncio.wait({ending}, timeout=GRACE_S)
                await self._container.census.kill(running)
                done, _ = await asyncio.wait({ending}, timeout=BACKSTOP_S)
                if not done:
                    await self._container.stop()
                    raise SandboxBroken(self._container.name, "a killed command did not end")
            return await ending, timed_out
        except asyncio.CancelledError:
            await asyncio.shield(self.kill(running))
            raise
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def kill(self, running: Running) -> None:
        """End everything that a command started."""
        with contextlib.suppress(SandboxBroken):
            await self._container.census.kill(running)

    async def ending(self, running: Running, channels: dict[int, Channel] | None) -> Status:
        """How the command's own process ended, with all of its output read. Raises `SandboxBroken`."""
        exit_told = self._container.exits[running.exec_id]
        if running.pidfd >= 0:
            await self._unless_ended(asyncio.ensure_future(until_readable(running.pidfd)))
            if running.end_mark is not None:
                await running.end_mark.write()
            raw = await asyncio.to_thread(wait_status, running.pidfd)
        else:
            raw = None
        if raw is None:
            await self._unless_ended(exit_told)
        if channels is not None:
            read = asyncio.gather(*(channel.ended.wait() for channel in channels.values()))
            await self._unless_ended(read)
        status = Status.from_wait(raw) if raw is not None else Status.from_code(exit_told.result())
        if status.signal == signal.SIGKILL:
            await self._check_alive()
        return status

    async def _check_alive(self) -> None:
        """A command killed with its whole container tells nothing: raise `SandboxBroken`."""
        container = self._container
        if container.local is not None:
            is_ending = container.local.is_ending()
        else:
            told = await self._call("GET", f"/containers/{container.id}/json")
            is_ending = not told["State"]["Running"]
        if is_ending:
            container.end("its container was killed")
        if container.ended.done():
            raise SandboxBroken(container.name, container.ended.result())

    async def _unless_ended(self, awaited: asyncio.Future[Any]) -> None:
        """Wait for something, or for the container's end."""
        ended = self._container.ended
        try:
            await asyncio.wait({awaited, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise SandboxBroken(self._container.name, ended.result())
        finally:
            if not awaited.done() and awaited not in self._container.exits.values():
                awaited.cancel()

    async def _memory_killed(self, status: Status, before: int | None, words_before: int) -> bool:
        container = self._container
        after = container.local.oom_kills() if container.local is not None else None
        if before is not None and after is not None:
            return after > before
        if status.code == KILLED and container.oom_kills == words_before:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(container.oom_word.wait(), OOM_WORD_S)
        return container.oom_kills > words_before

    def _keep_draining(self, reading: asyncio.Task[None], stream: Stream, leftover: Leftover | None) -> None:
        async def drain() -> None:
            try:
                await reading
                if leftover is not None:
                    await leftover.drain()
            finally:
                if leftover is not None:
                    leftover.close()
                await asyncio.shield(stream.close())

        self.attend_to(drain())

    def attend_to(self, job: Coroutine[Any, Any, None]) -> None:
        """Let something go on until it is done or the container has ended."""
        task = asyncio.create_task(job)
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def plain(self, command: list[str]) -> bytes:
        """Run a command of ours as root, without a gate or a mark, and give its output. Raises `SandboxBroken`."""
        exec_id = await self._create(command, Order((), ROOT, "/", "", {}), tty=False)
        stream = await self._start(exec_id, tty=False)
        try:
            await stream.finish_sending()
            channels = {1: Channel(1 << 24), 2: Channel(1 << 16)}
            await _collect(stream, channels)
            said, complaint = channels[1].kept, channels[2].kept.first()
            if said.total_bytes == 0 and b"OCI runtime" in complaint:
                raise self._refusal(complaint.decode(errors="replace"))
            return said.first()
        finally:
            self._container.exits.pop(exec_id, None)
            await asyncio.shield(stream.close())


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


async def _pieces(stream: Stream, *, tty: bool) -> AsyncIterator[bytes]:
    if not tty:
        async for _, piece in frames(stream):
            yield piece
        return
    with contextlib.suppress(OSError):
        while piece := await stream.receive():
            yield piece


async def _collect(stream: Stream, channels: dict[int, Channel]) -> None:
    async for kind, piece in frames(stream):
        channels.get(kind, channels[1]).feed(piece)
    for channel in channels.values():
        channel.finish()


async def _feed(stream: Stream, content: bytes) -> None:
    with contextlib.suppress(OSError):
        await stream.send(content)
        await stream.finish_sending()
