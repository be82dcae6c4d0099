"""A running namespace sandbox, as the harness holds it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import SandboxBroken, SandboxFileError, SandboxFrozen
from termarena.sandbox.contract import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_READ_BYTES,
    DEFAULT_TREE_BYTES,
    FileChanges,
    ProcessInfo,
    Snapshot,
    Surroundings,
    TreeReport,
    Usage,
)
from termarena.sandbox.counters import room_of
from termarena.sandbox.descriptors import until_readable
from termarena.sandbox.namespace.channel import Channel
from termarena.sandbox.namespace.commands import Commands, Keep, Rules
from termarena.sandbox.namespace.differences import changes_between
from termarena.sandbox.namespace.doors import Doors
from termarena.sandbox.namespace.files import Files
from termarena.sandbox.namespace.ondisk import free_bytes
from termarena.sandbox.namespace.snapshots import Archive, NamespaceSnapshot, SharedLayers
from termarena.sandbox.sides import check_size
from termarena.sandbox.way_out import through

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from termarena.sandbox.contract import ExecResult
    from termarena.sandbox.namespace.holdings import Holdings
    from termarena.sandbox.namespace.inside import wire
    from termarena.sandbox.namespace.pty import NamespacePty
    from termarena.sandbox.spec import Fetches, SandboxSpec

__all__ = ["NamespaceSandbox"]

SNAPSHOT_TO_DISK: Final = 4
"""How many times its disk limit a sandbox's files may seem to hold: holes cost nothing inside and much in a copy."""
STOP_TIMEOUT_S: Final = 10.0


class NamespaceSandbox:
    """See `termarena.sandbox.contract.Sandbox`."""

    def __init__(self, sandbox_id: str, spec: SandboxSpec, control: socket.socket, held: Holdings) -> None:
        """Takes over the socket and what is held; made by the driver."""
        self._id = sandbox_id
        self._spec = spec
        self._held = held
        self._channel = Channel(sandbox_id, control, on_event=self._take_event)
        self._commands = Commands(self._channel, spec, held, Rules(self._refuse_if_final, self.stop))
        self._files = Files(self._channel, self._commands.result)
        self.doors = Doors(self._channel)
        self._shared: list[NamespaceSnapshot] = []
        self._is_sealed = False
        self._is_frozen = False
        self._is_stopped = False
        self._used = Usage()
        self.made_for_mounts: tuple[str, ...] = ()

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
    def is_on_disk(self) -> bool:
        """Whether its changes are kept in a folder of the home, and not in memory."""
        return self._held.is_on_disk

    @property
    def is_alive(self) -> bool:
        """Whether its process 1 was alive when last heard of."""
        return self._channel.ended is None

    async def surroundings(self) -> Surroundings:
        """See the contract."""
        return Surroundings(self._spec.env, self._spec.workdir)

    def add_environment(self, env: Mapping[str, str], *, is_final: bool = False) -> None:
        """Variables for every later command, `is_final` over its own; the driver uses it for the proxy's address."""
        self._commands.add_environment(env, is_final=is_final)

    def drop_final_environment(self) -> None:
        """Later commands have their own variables again."""
        self._commands.drop_final_environment()

    @asynccontextmanager
    async def through(self, fetches: Fetches) -> AsyncIterator[None]:
        """Commands that begin meanwhile reach a recording, and no network. Raises what `open_fetches` raises."""
        async with through(self, fetches, await self.doors.listen(), has_users=self._held.has_users):
            yield

    async def ready(self, timeout_s: float) -> wire.Message:
        """Wait until it is assembled: the message `ready` or `failed`. Raises `SandboxBroken`, `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            message = (await self._channel.open()).message
        self.made_for_mounts = tuple(message.get("made", ()))
        return message

    def _take_event(self, received: wire.Received) -> None:
        message = received.message
        if "ended" in message:
            self._note_disk(message["on_disk"])
            self._channel.close(message["ended"])
            return
        if self._commands.take_opened(received):
            return
        for fd in received.fds:
            os.close(fd)

    # Commands.

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
        tail_bytes: int = 0,
    ) -> ExecResult:
        """See the contract."""
        command = self._commands.command(argv, user=user, cwd=cwd, env=env)
        kept = Keep(max_output_bytes, tail_bytes)
        return await self._commands.run(command, stdin=stdin, timeout_s=timeout_s, kept=kept)

    async def exec_confided(  # noqa: PLR0913 - the words of `exec`
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
        tail_bytes: int = 0,
    ) -> ExecResult:
        """As `exec`; its standard output is a socket, which no other process can open through `/proc`."""
        command = self._commands.command(argv, user=user, cwd=cwd, env=env)
        kept = Keep(max_output_bytes, tail_bytes, is_confided=True)
        return await self._commands.run(command, stdin=b"", timeout_s=timeout_s, kept=kept)

    async def exec_told(
        self,
        argv: Sequence[str],
        on_chunk: Callable[[bytes], None],
        *,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecResult:
        """As `exec`, its output told while it comes and not kept; no USER, LOGNAME and LANG.

        For steps of builds.
        """
        command = self._commands.command(argv, user=user, cwd=cwd, env=env)
        command.request["is_login"] = False
        return await self._commands.run(command, stdin=b"", timeout_s=timeout_s, kept=Keep(0, 0, on_chunk))

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
        check_size(cols, rows)
        command = self._commands.command(argv, user=user, cwd=cwd, env={"TERM": "xterm-256color", **(env or {})})
        return await self._commands.open_pty(command, cols=cols, rows=rows)

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
        self._is_frozen = False
        return int(answer["count"])

    async def freeze(self) -> None:
        """See the contract."""
        if self._is_frozen:
            return
        self._is_frozen = True
        answer = await self._channel.ask({"op": "freeze"})
        if not answer.message["is_held"]:
            self._is_frozen = False
            raise SandboxBroken(self._id, "a process of it cannot be held")

    async def thaw(self) -> None:
        """See the contract."""
        if self._is_frozen:
            await self._channel.ask({"op": "thaw"})
            self._is_frozen = False

    async def usage(self) -> Usage:
        """See the contract."""
        if self._channel.ended is None and not self._is_stopped:
            with contextlib.suppress(SandboxBroken):
                told = (await self._channel.ask({"op": "usage"})).message
                room = room_of(os.statvfs_result(told["disk"]))
                kills = told["watch_kills"] if self._held.cgroup is None else None
                self._used = Usage(oom_kills=kills, disk_bytes=room.used_bytes, disk_full=room.is_full)
                if told["on_disk"] is not None and (self._is_frozen or self._is_sealed):
                    # Nobody in it can hold up whoever counts.
                    told["on_disk"]["used_bytes"] = (await self._files.job("measure", places=[]))["size_bytes"]
                self._note_disk(told["on_disk"])
        self._count()
        return self._used

    def _note_disk(self, told: dict[str, Any] | None) -> None:
        """Take over what its process 1 knows of its files on disk."""
        if told is not None:
            used, was_full = int(told["used_bytes"]), bool(told["was_full"])
            self._used = replace(self._used, disk_bytes=used, disk_full=was_full or used > self._spec.limits.disk_bytes)

    def _count(self) -> None:
        """Take over what the cgroups have counted; once they are removed, nothing changes any more."""
        if self._held.cgroup is not None and not self._is_stopped:
            counted = self._held.cgroup.usage()
            self._used = replace(counted, disk_bytes=self._used.disk_bytes, disk_full=self._used.disk_full)

    # Files.

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ_BYTES) -> bytes:
        """See the contract."""
        return await self._files.read(path, max_bytes=max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """See the contract."""
        self._refuse_if_final()
        await self._files.write(path, content, mode=mode, user=self._commands.user(user))

    def _refuse_if_final(self) -> None:
        if self._channel.ended is not None:
            raise SandboxBroken(self._id, self._channel.ended)
        if self._is_sealed:
            raise SandboxBroken(self._id, "it has been sealed")
        if self._is_frozen:
            raise SandboxFrozen(self._id)

    async def put_tree(self, source: Path, target: str, *, user: str | None = None) -> TreeReport:
        """See the contract."""
        self._refuse_if_final()
        return await self._files.put_tree(source, target, user=self._commands.user(user))

    async def get_tree(self, source: str, target: Path, *, max_bytes: int = DEFAULT_TREE_BYTES) -> TreeReport:
        """See the contract."""
        return await self._files.get_tree(source, target, max_bytes=max_bytes)

    async def clear_away(self, path: str) -> bool:
        """Remove a folder with all in it, and run nothing for that; False, and it is still there, where a process lives
        in the sandbox or there is much to remove. Raises `SandboxFileError`."""
        self._refuse_if_final()
        return await self._files.clear_away(path)

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
            allowed = min(SNAPSHOT_TO_DISK * self._spec.limits.disk_bytes, free_bytes(self._held.scratch))
            report = await self._files.job("snapshot", (file.fileno(),), max_bytes=allowed)
        except BaseException:
            file.close()
            raise
        return Archive(file, 0, report["layers"]), tuple(report["entries"])

    async def pack(self) -> Archive:
        """The layers of the sealed sandbox as an archive."""
        return (await self._pack())[0]

    async def share(self) -> SharedLayers:
        """The layers of the sealed sandbox for one fork; none where there are too many of them for a message, and on
        kernels that cannot copy a detached mount."""
        received = await self._channel.ask({"op": "share"})
        if "problem" in received.message:
            return SharedLayers()
        depth = len(received.fds) // received.message["volumes"]
        trees = [received.fds[at : at + depth] for at in range(0, len(received.fds), depth)]
        return SharedLayers(trees, self._held.layers)

    async def diff(self, since: Snapshot | None = None) -> FileChanges:
        """See the contract."""
        if since is not None and (not isinstance(since, NamespaceSnapshot) or since.taken_in != self._id):
            raise ValueError("the snapshot was not taken in this sandbox")
        if isinstance(since, NamespaceSnapshot) and since.entries is None:
            return FileChanges()
        now = (await self._files.job("diff"))["entries"]
        before = () if since is None else since.entries or ()
        return changes_between(before, now)

    async def layer_job(self, job: str, name: str, fd: int | None = None, **more: object) -> dict[str, Any]:
        """Work on a layer of the folder that was lent, or on a path of the image; `fd` is its stream.

        Raises `SandboxFileError`.
        """
        return await self._files.job(job, () if fd is None else (fd,), **{"name": name, "path": name, **more})

    async def stop(self) -> None:
        """See the contract."""
        if self._is_stopped:
            return
        self._count()
        self._is_stopped = True
        for snapshot in self._shared:
            with contextlib.suppress(SandboxBroken, SandboxFileError):
                await snapshot.detach()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._held.pidfd, signal.SIGKILL)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                # The kernel has then ended every process of the sandbox.
                await until_readable(self._held.pidfd)
        except TimeoutError as error:
            raise SandboxBroken(self._id, f"its process 1 did not end within {STOP_TIMEOUT_S:g} s") from error
        finally:
            self._channel.close("it has been stopped")
            self._commands.close()
            os.close(self._held.pidfd)
            cgroup = self._held.cgroup
            if cgroup is None or cgroup.remove(patience_s=0.0) or await asyncio.to_thread(cgroup.remove):
                self._held.trace.remove()
            self._held.disk.drop(self._held.layers)
