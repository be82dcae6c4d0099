"""Commands in a container: through a gate, so that a command is known and marked before it begins."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, NotFound, SandboxBroken, SandboxFileError, SandboxFrozen
from termarena.sandbox.contract import TIMEOUT_STATUS, ExecResult
from termarena.sandbox.docker.client import Request
from termarena.sandbox.docker.endings import Ending, Status
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
KILL_AGAIN_S: Final = 3.0
"""How long a killed command may take to be told as ended before it is killed again; engines take up to two seconds."""
KILLS: Final = 20
"""How often a command is killed before its sandbox is given up: its output may take a minute to end."""
BEGIN_TIMEOUT_S: Final = 120.0
"""For an engine to start a command; fifty at once took 7 s on two cores under a load of 20."""
PLAIN_TIMEOUT_S: Final = 120.0
"""For a shell of ours; to list 1,000 processes took it 14 s there."""
OOM_WORD_S: Final = 0.5
"""How much later than a command's end an engine may tell that memory had run out."""
KILLED: Final = 137
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
        others = self._draining - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # Beginning.

    async def begin(self, order: Order, *, tty: bool) -> Running:
        """Start the gate and wait for its word.

        Raises `SandboxFileError` for the folder, `NotFound` for the user, `SandboxFrozen`, `SandboxBroken`.
        """
        async with self._container.pauses.unpaused():
            if self._container.is_frozen:
                raise SandboxFrozen(self._container.name)
            try:
                async with asyncio.timeout(BEGIN_TIMEOUT_S):
                    return await self._begin(order, tty=tty)
            except TimeoutError as error:
                self._container.end("a command did not begin")
                raise SandboxBroken(self._container.name, self._container.ended.result()) from error

    async def _begin(self, order: Order, *, tty: bool) -> Running:
        mark = mark_bytes(next(self._numbers))
        unset = " ".join(name for name in ("OLDPWD", "HOSTNAME") if name not in order.env) or "OLDPWD"
        words = [str(mark >> 10), order.cwd, order.cwd_else, unset, *coded_words(order.argv)]
        exec_id = await self._create(["/bin/sh", "-c", GATE, "sh", *words], order, tty=tty)
        try:
            stream = await self._start(exec_id, tty=tty)
            try:
                running = await self._hear(Running(exec_id, stream, 0, mark, time.monotonic()), order, tty=tty)
                await self._find(running, tty=tty)
            except BaseException:
                await asyncio.shield(stream.close())
                raise
        except BaseException:
            self._container.exits.pop(exec_id, None)
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
        ending = asyncio.create_task(Ending(self._container, running, channels).status())
        try:
            done, _ = await asyncio.wait({ending}, timeout=timeout_s)
            if not done:
                await self._end_by_force(running, ending)
            return await ending, not done
        except asyncio.CancelledError:
            await asyncio.shield(self.kill(running))
            raise
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _end_by_force(self, running: Running, ending: asyncio.Task[Status]) -> None:
        """SIGTERM, and after the grace SIGKILL until the command has ended. Raises `SandboxBroken`."""
        if not self._container.is_frozen:
            with contextlib.suppress(SandboxBroken):
                await self._container.terminate(running)
            await asyncio.wait({ending}, timeout=GRACE_S)
        for _ in range(KILLS):
            await self.kill(running)
            await self._until_thawed(ending)
            if (await asyncio.wait({ending}, timeout=KILL_AGAIN_S))[0]:
                return
        raise await self._give_up("a killed command did not end")

    async def _until_thawed(self, ending: asyncio.Task[Status]) -> None:
        """Only some kernels end a frozen process."""
        thawed = asyncio.ensure_future(self._container.until_thawed())
        try:
            await asyncio.wait({ending, thawed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            thawed.cancel()

    async def kill(self, running: Running) -> None:
        """End everything that a command started, in a frozen sandbox when it thaws; if that fails, stop the sandbox."""
        try:
            if not await self._container.kill(running):
                self.attend_to(self._kill_after_thaw(running))
        except SandboxBroken as error:
            await self._give_up(error.reason)

    async def _kill_after_thaw(self, running: Running) -> None:
        await self._container.until_thawed()
        if not self._container.ended.done():
            await self.kill(running)

    async def _give_up(self, reason: str) -> SandboxBroken:
        """Stop the container, which ends whatever still runs in it."""
        with contextlib.suppress(SandboxBroken):
            self._container.end(reason)
            await self._container.stop()
        return SandboxBroken(self._container.name, self._container.ended.result())

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
        async with self._container.pauses.unpaused():
            try:
                async with asyncio.timeout(PLAIN_TIMEOUT_S):
                    return await self._plain(command)
            except TimeoutError as error:
                self._container.end("a shell of ours did not end")
                raise SandboxBroken(self._container.name, self._container.ended.result()) from error

    async def _plain(self, command: list[str]) -> bytes:
        exec_id = await self._create(command, Order((), ROOT, "/", "", {}), tty=False)
        try:
            stream = await self._start(exec_id, tty=False)
            try:
                await stream.finish_sending()
                channels = {1: Channel(1 << 24), 2: Channel(1 << 16)}
                await _collect(stream, channels)
            finally:
                await asyncio.shield(stream.close())
        finally:
            self._container.exits.pop(exec_id, None)
        said, complaint = channels[1].kept, channels[2].kept.first()
        if said.total_bytes == 0 and b"OCI runtime" in complaint:
            raise self._refusal(complaint.decode(errors="replace"))
        return said.first()


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
