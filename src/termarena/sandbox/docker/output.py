"""What a command writes, out of the engine's multiplexed stream: the first bytes and the last kept, all counted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

from termarena.sandbox.descriptors import until_readable, until_writable
from termarena.sandbox.kept import Kept

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox.docker.streams import Stream

__all__ = ["Channel", "EndMark", "Leftover", "frames"]

HEADER: Final = 8
FULL_S: Final = 2.0
"""How long a full pipe is waited for: an engine closes the outputs so long after the command, which ends them too."""


async def frames(stream: Stream) -> AsyncIterator[tuple[int, bytes]]:
    """Pieces of output with the number of their stream: 1 or 2. Ends when the engine closes the stream."""
    pending = b""
    kind, left = 0, 0
    with contextlib.suppress(OSError):
        while part := await stream.receive():
            pending += part
            while pending:
                if left == 0:
                    if len(pending) < HEADER:
                        break
                    kind, left = pending[0], int.from_bytes(pending[4:HEADER], "big")
                    pending = pending[HEADER:]
                    continue
                piece, pending = pending[:left], pending[left:]
                left -= len(piece)
                yield (kind if kind else 1), piece


class Channel:
    """One of the two outputs."""

    def __init__(self, keep_bytes: int, tail_bytes: int = 0) -> None:
        """Keeps so many of the first bytes, and of the last."""
        self.kept = Kept(keep_bytes, tail_bytes)
        self._mark = b""
        self._held = b""
        self.ended = asyncio.Event()

    def expect(self, mark: bytes) -> None:
        """The output is over where these bytes come."""
        self._mark = mark

    def feed(self, content: bytes) -> None:
        """Take the next piece; what comes after the end is thrown away."""
        if self.ended.is_set():
            return
        window = self._held + content
        at = window.find(self._mark) if self._mark else -1
        if at >= 0:
            self.kept.take(window[:at])
            self._held = b""
            self.ended.set()
            return
        # The mark may come in two pieces.
        edge = max(len(window) - len(self._mark) + 1, 0) if self._mark else len(window)
        self.kept.take(window[:edge])
        self._held = window[edge:]

    def finish(self) -> None:
        """The stream itself has ended."""
        if not self.ended.is_set():
            self.kept.take(self._held)
            self._held = b""
            self.ended.set()


class EndMark:
    """Our own copies of a command's two outputs, opened through the kernel before it begins.

    A daemon may hold the outputs for ever, and an engine then says nothing of the command's end for two seconds. What
    we write into the same pipes when the command has ended comes after everything it wrote.
    """

    def __init__(self, host_pid: int) -> None:
        """Raises `OSError` when the process has gone or its outputs are not pipes."""
        self.mark = secrets.token_bytes(24)
        self._fds = _open_outputs(host_pid, os.O_WRONLY)

    async def write(self) -> None:
        """Mark the end on both; a pipe that is full is waited for, but not longer than an engine would."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FULL_S):
                for fd in self._fds:
                    await self._write(fd)
        self.close()

    async def _write(self, fd: int) -> None:
        while True:
            try:
                os.write(fd, self.mark)
            except BlockingIOError:
                await until_writable(fd)
            except OSError:
                return
            else:
                return

    def close(self) -> None:
        """Let go of the pipes."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


class Leftover:
    """Our own reading ends of a command's outputs, for daemons that go on writing when the engine has stopped reading.

    An engine closes the outputs two seconds after the command's end; the next word would kill the daemon.
    """

    def __init__(self, host_pid: int) -> None:
        """Raises `OSError` when the process has gone."""
        self._fds = _open_outputs(host_pid, os.O_RDONLY)

    async def drain(self) -> None:
        """Read and throw away until nobody can write any more; only when the engine reads no longer."""
        await asyncio.gather(*(self._drain(fd) for fd in self._fds))

    async def _drain(self, fd: int) -> None:
        while True:
            try:
                if not os.read(fd, 1 << 16):
                    return
            except BlockingIOError:
                await until_readable(fd)

    def close(self) -> None:
        """Let go of the pipes."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def _open_outputs(host_pid: int, access: int) -> list[int]:
    """Descriptors of our own of a process's standard output and error; both, or raises `OSError`."""
    opened: list[int] = []
    try:
        for number in (1, 2):
            path = f"/proc/{host_pid}/fd/{number}"
            opened.append(os.open(path, access | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return opened
