"""Files of a namespace sandbox: its process 1 opens single ones for us, and forks jobs for whole trees."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from termarena.core.errors import SandboxFileError
from termarena.sandbox.contract import TreeReport
from termarena.sandbox.namespace import trees
from termarena.sandbox.namespace.answers import check_path, raise_refusal, read_and_close, write_and_close
from termarena.sandbox.namespace.inside import wire

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.namespace.channel import Channel

__all__ = ["Files"]

JOB_TIMEOUT_S: Final = 3600.0
"""For a tree or a snapshot: a root in the sandbox may stop the process that carries it."""


class Waits(Protocol):
    """How to wait for the end of something that a request started, so that a cancelled wait ends it."""

    async def __call__(
        self, number: int, future: asyncio.Future[wire.Received], *, timeout_s: float | None
    ) -> wire.Received:
        """The answer to the request of this number."""


class Files:
    """What the contract says of reading, writing and trees; the sandbox checks whether it may."""

    def __init__(self, channel: Channel, wait: Waits) -> None:
        """`wait` is the sandbox's."""
        self._channel = channel
        self._wait = wait

    async def _open(self, path: str, **how: object) -> int:
        received = await self._channel.ask({"op": "open", "path": path, **how})
        raise_refusal(received.message, str(how["access"]), path)
        return received.fds[0]

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """See the contract."""
        check_path(path)
        return await asyncio.to_thread(read_and_close, await self._open(path, access="read"), path, max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int, user: str) -> None:
        """See the contract."""
        check_path(path)
        fd = await self._open(path, access="write", mode=mode, user=user, size_bytes=len(content))
        await asyncio.to_thread(write_and_close, fd, path, content)
        # Process 1 closes its own descriptor after it has answered; a program that is still open cannot be executed.
        await self._channel.ask({"op": "nothing"})

    async def put_tree(self, source: Path, target: str, *, user: str) -> TreeReport:
        """See the contract."""
        check_path(target)
        packed = await asyncio.to_thread(trees.pack_little, source)
        if packed is not None:
            little = wire.memory_file(packed)
            try:
                report = await self.job("put_tree", (little,), path=target, user=user)
            finally:
                os.close(little)
            return TreeReport(int(report["count"]), int(report["size_bytes"]))
        reading, writing = os.pipe()
        packing = asyncio.get_running_loop().run_in_executor(None, trees.pack_folder, source, writing)
        try:
            report = await self.job("put_tree", (reading,), path=target, user=user)
        finally:
            os.close(reading)
            await asyncio.shield(packing)
        return TreeReport(int(report["count"]), int(report["size_bytes"]))

    async def get_tree(self, source: str, target: Path, *, max_bytes: int) -> TreeReport:
        """See the contract."""
        check_path(source)
        little = await self._get_little(source, target, max_bytes=max_bytes)
        if little is not None:
            return little
        await asyncio.to_thread(trees.make_empty, target)
        reading, writing = os.pipe()
        unpacking = asyncio.get_running_loop().run_in_executor(None, trees.receive_tree, reading, target)
        report: dict[str, Any] = {}
        refusal: SandboxFileError | None = None
        try:
            report = await self.job("get_tree", (writing,), path=source, max_bytes=max_bytes)
        except SandboxFileError as error:
            refusal = error
        finally:
            os.close(writing)
            received = await asyncio.gather(asyncio.shield(unpacking), return_exceptions=True)
        done = received[0]
        # Where the host has refused a file, the job has only seen that nobody read on.
        if refusal is not None and not isinstance(done, OSError):
            raise refusal
        if isinstance(done, BaseException):
            raise done from refusal
        return TreeReport(done.files, done.size_bytes, tuple(sorted({*done.skipped, *report["skipped"]})))

    async def _get_little(self, source: str, target: Path, *, max_bytes: int) -> TreeReport | None:
        """As `get_tree`; None where there is too much for process 1 to send it at once, or somebody lives beside it."""
        fd = os.memfd_create("tree", os.MFD_CLOEXEC)
        try:
            report = await self.job("get_tree", (fd,), path=source, max_bytes=max_bytes, only_at_once=True)
            os.lseek(fd, 0, os.SEEK_SET)
            archive = wire.read_to_end(fd)
        finally:
            os.close(fd)
        if "declined" in report:
            return None
        # Bytes and no descriptor: a thread that is never begun, because nobody waits any more, would not close it.
        done = await asyncio.to_thread(trees.receive_little, archive, target)
        return TreeReport(done.files, done.size_bytes, tuple(sorted({*done.skipped, *report["skipped"]})))

    async def clear_away(self, path: str) -> bool:
        """Remove a folder; False, and it is still there, where it cannot be done at once. Raises `SandboxFileError`."""
        check_path(path)
        return "declined" not in await self.job("clear_away", path=path, only_at_once=True)

    async def job(self, job: str, fds: tuple[int, ...] = (), **args: object) -> dict[str, Any]:
        """Run a job in the sandbox and take its report; `SandboxFileError` when it failed."""
        report_fd = os.memfd_create("report", os.MFD_CLOEXEC)
        number = self._channel.number()
        try:
            request = {"op": "job", "id": number, "job": job, **args}
            begun = await self._channel.begin(request, (report_fd, *fds))
            answer = await self._wait(number, begun, timeout_s=JOB_TIMEOUT_S)
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
