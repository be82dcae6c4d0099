"""A running namespace sandbox, as the harness holds it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import CapabilityMissing, SandboxBroken, SandboxFileError
from termarena.sandbox.contract import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_READ_BYTES,
    DEFAULT_TREE_BYTES,
    ExecResult,
    FileChanges,
    ProcessInfo,
    Snapshot,
    TreeReport,
)
from termarena.sandbox.namespace import trees
from termarena.sandbox.namespace.answers import check_path, exit_status, raise_refusal, read_and_close, write_and_close
from termarena.sandbox.namespace.channel import ANSWER_TIMEOUT_S, Channel
from termarena.sandbox.namespace.differences import changes_between
from termarena.sandbox.namespace.inside import wire
from termarena.sandbox.namespace.pty import NamespacePty
from termarena.sandbox.namespace.snapshots import Archive, NamespaceSnapshot
from termarena.sandbox.namespace.streams import Collector, Pipes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from termarena.sandbox.namespace.cgroups import Cgroup
    from termarena.sandbox.spec import SandboxSpec
    from termarena.sandbox.state import Trace

__all__ = ["Holdings", "NamespaceSandbox"]

GRACE_S: Final = 0.5
"""Between SIGTERM and SIGKILL after a timeout."""
BACKSTOP_S: Final = 15.0
"""How much later than a timeout inside the host gives a sandbox up."""
JOB_TIMEOUT_S: Final = 3600.0
"""For a tree or a snapshot: a root in the sandbox may stop the process that carries it."""
SNAPSHOT_TO_DISK: Final = 4
"""How many times its disk limit a sandbox's files may seem to hold: holes cost nothing inside and much in a copy."""
STOP_TIMEOUT_S: Final = 10.0
ROOT_NAMES: Final = ("root", "0", "0:0", "root:root")


@dataclass(slots=True)
class Holdings:
    """What belongs to one sandbox on the host and ends with it."""

    trace: Trace
    cgroup: Cgroup | None
    pidfd: int
    host_pid: int
    has_users: bool
    base_digest: str
    scratch: Path
    """A folder for unnamed files, on a disk rather than in memory."""


class NamespaceSandbox:
    """See `termarena.sandbox.contract.Sandbox`."""

    def __init__(self, sandbox_id: str, spec: SandboxSpec, control: socket.socket, held: Holdings) -> None:
        """Takes over the socket and what is held; made by the driver."""
        self._id = sandbox_id
        self._spec = spec
        self._held = held
        self._ready: asyncio.Future[wire.Message] = asyncio.get_running_loop().create_future()
        self._opened: dict[int, asyncio.Future[wire.Received]] = {}
        self._channel = Channel(sandbox_id, control, on_event=self._take_event)
        self._draining: set[Collector] = set()
        self._env = dict(spec.env)
        self._shared: list[NamespaceSnapshot] = []
        self._is_sealed = False
        self._is_stopped = False

    @property
    def id(self) -> str:
        """Unique on this machine."""
        return self._id

    @property
    def spec(self) -> SandboxSpec:
        """What it was started from."""
        return self._spec

    @property
    def host_pid(self) -> int:
        """The number of its process 1 on the host."""
        return self._held.host_pid

    @property
    def is_alive(self) -> bool:
        """Whether its process 1 was alive when last heard of."""
        return self._channel.ended is None

    def add_environment(self, env: Mapping[str, str]) -> None:
        """Variables for every later command; the driver uses it for the proxy's address."""
        self._env.update(env)

    async def ready(self, timeout_s: float) -> wire.Message:
        """Wait until it is assembled: the message `ready` or `failed`. Raises `SandboxBroken`, `TimeoutError`."""
        self._channel.open()
        ended = asyncio.ensure_future(self._until_ended())
        waited: set[asyncio.Future[Any]] = {self._ready, ended}
        try:
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            # It must have let go of the pidfd before a stop begins to watch it.
            await asyncio.wait({ended})
        if self._ready.done():
            return self._ready.result()
        if self._channel.ended is not None:
            raise SandboxBroken(self._id, self._channel.ended)
        raise TimeoutError

    def _take_event(self, received: wire.Received) -> None:
        message = received.message
        if "ready" in message or "failed" in message:
            if not self._ready.done():
                self._ready.set_result(message)
            return
        if "ended" in message:
            self._channel.close(f"its {message['ended']} time limit was reached")
            return
        opened = self._opened.pop(message.get("opened", 0), None)
        if opened is not None and not opened.done():
            opened.set_result(received)
            return
        for fd in received.fds:
            os.close(fd)

    async def _until_ended(self) -> None:
        """Wait for the death of process 1; the kernel has then ended every process of the sandbox."""
        loop = asyncio.get_running_loop()
        gone = loop.create_future()
        loop.add_reader(self._held.pidfd, _settle, gone)
        try:
            await gone
        finally:
            loop.remove_reader(self._held.pidfd)

    # Commands.

    def _command(
        self, argv: Sequence[str], *, user: str | None, cwd: str | None, env: Mapping[str, str] | None
    ) -> wire.Message:
        words = list(argv)
        if not words or any("\0" in word for word in words):
            raise ValueError("a command needs at least one word, and no word may hold a NUL")
        self._refuse_if_final()
        return {
            "argv": words,
            "user": self._user(user),
            "cwd": cwd or self._spec.workdir,
            "env": {**self._env, **(env or {})},
            "grace_s": GRACE_S,
            "timeout_s": None,
        }

    def _user(self, user: str | None) -> str:
        wanted = user or self._spec.user
        if wanted not in ROOT_NAMES and not self._held.has_users:
            raise CapabilityMissing(
                "a user other than root",
                driver="namespace",
                why="an ordinary user without newuidmap has one id to give",
                hint="install uidmap and grant a range in /etc/subuid and /etc/subgid",
            )
        return wanted

    async def exec(  # noqa: PLR0913 - the words of the contract
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
    ) -> ExecResult:
        """See the contract."""
        number = self._channel.number()
        request = {
            **self._command(argv, user=user, cwd=cwd, env=env),
            "op": "exec",
            "id": number,
            "timeout_s": timeout_s,
        }
        kills_before = self._oom_kills()
        started = time.monotonic()
        pipes = Pipes(stdin)
        try:
            future = await self._channel.begin(request, pipes.inner)
        except BaseException:
            pipes.abandon()
            raise
        out, err, feeder = pipes.attend(stdin, keep_bytes=max_output_bytes)
        try:
            answer = (await self._result(number, future, timeout_s=timeout_s)).message
            raise_refusal(answer, "exec", cwd or argv[0])
            code, number_of_signal = exit_status(answer["status"], timed_out=answer["timed_out"])
            return ExecResult(
                exit_status=code,
                signal=number_of_signal,
                stdout=out.finish(),
                stderr=err.finish(),
                stdout_bytes=out.total_bytes,
                stderr_bytes=err.total_bytes,
                duration_s=time.monotonic() - started,
                timed_out=answer["timed_out"],
                oom_killed=answer["watch_kills"] > 0 or self._oom_kills() > kills_before,
            )
        finally:
            if feeder is not None:
                feeder.close()
            self._keep_draining(out, err)

    def _keep_draining(self, *collectors: Collector) -> None:
        self._draining = {collector for collector in self._draining if collector.is_open}
        for collector in collectors:
            collector.finish()
            if collector.is_open and not self._is_stopped:
                self._draining.add(collector)
            else:
                collector.close()

    def _oom_kills(self) -> int:
        return self._held.cgroup.oom_kills() if self._held.cgroup is not None else 0

    async def _result(
        self, number: int, future: asyncio.Future[wire.Received], *, timeout_s: float | None
    ) -> wire.Received:
        """The answer to an exec; a cancelled wait ends the exec, one that is never answered ends the sandbox."""
        backstop = None if timeout_s is None else timeout_s + GRACE_S + BACKSTOP_S
        try:
            done, _ = await asyncio.wait({future}, timeout=backstop)
        except asyncio.CancelledError:
            await asyncio.shield(self._end_exec(number))
            raise
        if not done:
            await self.stop()
            raise SandboxBroken(self._id, "its process 1 did not end a command in time")
        return future.result()

    async def _end_exec(self, number: int) -> None:
        with contextlib.suppress(SandboxBroken):
            try:
                await asyncio.wait_for(self._channel.ask({"op": "kill", "exec": number}), BACKSTOP_S)
            except TimeoutError:
                await self.stop()

    async def open_pty(
        self,
        argv: Sequence[str],
        *,
        cols: int = 80,
        rows: int = 24,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> NamespacePty:
        """See the contract."""
        if cols < 1 or rows < 1:
            raise ValueError(f"a terminal needs at least 1x1, not {cols}x{rows}")
        number = self._channel.number()
        command = self._command(argv, user=user, cwd=cwd, env={"TERM": "xterm-256color", **(env or {})})
        opened: asyncio.Future[wire.Received] = asyncio.get_running_loop().create_future()
        self._opened[number] = opened
        ended = await self._channel.begin({**command, "op": "pty", "id": number, "cols": cols, "rows": rows})
        try:
            await asyncio.wait({opened, ended}, timeout=ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await asyncio.shield(self._end_exec(number))
            raise
        finally:
            self._opened.pop(number, None)
        if not opened.done() and not ended.done():
            await self.stop()
            raise SandboxBroken(self._id, "its process 1 did not open a terminal in time")
        if not opened.done():
            raise_refusal(ended.result().message, "open a terminal in", cwd or argv[0])
            raise SandboxBroken(self._id, "a terminal ended before it was opened")
        received = opened.result()
        return NamespacePty(received.fds[0], received.message["pid"], ended=ended, end=lambda: self._end_exec(number))

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """See the contract."""
        answer = await self._channel.ask({"op": "processes"})
        return tuple(
            ProcessInfo(row["pid"], row["parent"], row["uid"], row["state"], tuple(row["argv"]))
            for row in answer.message["processes"]
        )

    async def kill_processes(self) -> int:
        """See the contract."""
        return await self._kill_all("kill_all")

    async def _kill_all(self, operation: str) -> int:
        answer = (await self._channel.ask({"op": operation})).message
        if "problem" in answer:
            raise SandboxBroken(self._id, str(answer["problem"]))
        return int(answer["count"])

    # Files.

    async def _open(self, path: str, **how: object) -> int:
        received = await self._channel.ask({"op": "open", "path": path, **how})
        raise_refusal(received.message, str(how["access"]), path)
        return received.fds[0]

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ_BYTES) -> bytes:
        """See the contract."""
        check_path(path)
        return await asyncio.to_thread(read_and_close, await self._open(path, access="read"), path, max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """See the contract."""
        check_path(path)
        self._refuse_if_final()
        fd = await self._open(path, access="write", mode=mode, user=self._user(user))
        await asyncio.to_thread(write_and_close, fd, path, content)
        # Process 1 closes its own descriptor after it has answered; a program that is still open cannot be executed.
        await self._channel.ask({"op": "nothing"})

    def _refuse_if_final(self) -> None:
        if self._channel.ended is not None:
            raise SandboxBroken(self._id, self._channel.ended)
        if self._is_sealed:
            raise SandboxBroken(self._id, "it has been sealed")

    async def put_tree(self, source: Path, target: str, *, user: str | None = None) -> TreeReport:
        """See the contract."""
        check_path(target)
        self._refuse_if_final()
        reading, writing = os.pipe()
        packing = asyncio.get_running_loop().run_in_executor(None, trees.pack_folder, source, writing)
        try:
            report = await self._job("put_tree", (reading,), path=target, user=self._user(user))
        finally:
            os.close(reading)
            await asyncio.shield(packing)
        return TreeReport(int(report["count"]), int(report["size_bytes"]))

    async def get_tree(self, source: str, target: Path, *, max_bytes: int = DEFAULT_TREE_BYTES) -> TreeReport:
        """See the contract."""
        check_path(source)
        await asyncio.to_thread(trees.make_empty, target)
        reading, writing = os.pipe()
        unpacking = asyncio.get_running_loop().run_in_executor(None, trees.receive_tree, reading, target)
        try:
            report = await self._job("get_tree", (writing,), path=source, max_bytes=max_bytes)
        finally:
            os.close(writing)
            received = await asyncio.gather(asyncio.shield(unpacking), return_exceptions=True)
        if isinstance(received[0], BaseException):
            raise received[0]
        done = received[0]
        return TreeReport(done.files, done.size_bytes, tuple(sorted({*done.skipped, *report["skipped"]})))

    async def _job(self, job: str, fds: tuple[int, ...] = (), **args: object) -> dict[str, Any]:
        """Run a job in the sandbox and take its report; `SandboxFileError` when it failed."""
        report_fd = os.memfd_create("report", os.MFD_CLOEXEC)
        number = self._channel.number()
        try:
            request = {"op": "job", "id": number, "job": job, **args}
            answer = await self._result(
                number, await self._channel.begin(request, (report_fd, *fds)), timeout_s=JOB_TIMEOUT_S
            )
            os.lseek(report_fd, 0, os.SEEK_SET)
            raw = wire.read_to_end(report_fd)
        finally:
            os.close(report_fd)
        where = str(args.get("path", ""))
        raise_refusal(answer.message, job, where)
        if not raw:
            raise SandboxFileError(job, where, problem="it was ended before it could report")
        report: dict[str, Any] = json.loads(raw)
        raise_refusal(report, job, str(report.get("path") or where))
        return report

    # States.

    async def seal(self) -> None:
        """See the contract."""
        if not self._is_sealed:
            self._is_sealed = True
            await self._kill_all("seal")

    async def snapshot(self) -> NamespaceSnapshot:
        """See the contract."""
        if self._is_sealed:
            shared = NamespaceSnapshot(self._spec, self._held.base_digest, taken_in=self._id, source=self)
            self._shared.append(shared)
            return shared
        archive, entries = await self._pack()
        taken = NamespaceSnapshot(self._spec, self._held.base_digest, taken_in=self._id, archive=archive)
        taken.entries = entries
        return taken

    async def _pack(self) -> tuple[Archive, tuple[dict[str, Any], ...]]:
        file = tempfile.TemporaryFile(dir=self._held.scratch)  # noqa: SIM115 - the snapshot owns it
        try:
            allowed = SNAPSHOT_TO_DISK * self._spec.limits.disk_bytes
            report = await self._job("snapshot", (file.fileno(),), max_bytes=allowed)
        except BaseException:
            file.close()
            raise
        return Archive(file, 0, report["layers"]), tuple(report["entries"])

    async def pack(self) -> Archive:
        """The layers of the sealed sandbox as an archive."""
        return (await self._pack())[0]

    async def share(self) -> list[list[int]]:
        """The layers of the sealed sandbox for one fork; empty on kernels that cannot copy a detached mount."""
        received = await self._channel.ask({"op": "share"})
        if "problem" in received.message:
            return []
        depth = len(received.fds) // received.message["volumes"]
        return [received.fds[at : at + depth] for at in range(0, len(received.fds), depth)]

    async def diff(self, since: Snapshot | None = None) -> FileChanges:
        """See the contract."""
        if since is not None and (not isinstance(since, NamespaceSnapshot) or since.taken_in != self._id):
            raise ValueError("the snapshot was not taken in this sandbox")
        if isinstance(since, NamespaceSnapshot) and since.entries is None:
            return FileChanges()
        now = (await self._job("diff"))["entries"]
        before = () if since is None else since.entries or ()
        return changes_between(before, now)

    # The network and the end.

    async def listen(self, port: int = 0) -> socket.socket:
        """A listening socket on the sandbox's own loopback, for the harness to accept from."""
        received = await self._channel.ask({"op": "listen", "port": port})
        raise_refusal(received.message, "listen on", f"port {port}")
        return socket.socket(fileno=received.fds[0])

    async def connect(self, port: int) -> socket.socket:
        """A connection to a service on the sandbox's loopback; raises `SandboxFileError` when nothing listens."""
        received = await self._channel.ask({"op": "connect", "port": port})
        raise_refusal(received.message, "connect to", f"port {port}")
        return socket.socket(fileno=received.fds[0])

    async def stop(self) -> None:
        """See the contract."""
        if self._is_stopped:
            return
        self._is_stopped = True
        for snapshot in self._shared:
            with contextlib.suppress(SandboxBroken, SandboxFileError):
                await snapshot.detach()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._held.pidfd, signal.SIGKILL)
        try:
            await asyncio.wait_for(self._until_ended(), STOP_TIMEOUT_S)
        except TimeoutError as error:
            raise SandboxBroken(self._id, f"its process 1 did not end within {STOP_TIMEOUT_S:g} s") from error
        finally:
            self._channel.close("it has been stopped")
            for collector in self._draining:
                collector.close()
            os.close(self._held.pidfd)
            if self._held.cgroup is not None:
                self._held.cgroup.remove()
            self._held.trace.remove()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
