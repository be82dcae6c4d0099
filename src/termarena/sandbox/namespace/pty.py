"""A process on a terminal of the sandbox."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import time
from typing import TYPE_CHECKING

from termarena.sandbox.contract import ExecResult
from termarena.sandbox.sides import check_size

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.sandbox.namespace.inside import wire

__all__ = ["NamespacePty"]


class NamespacePty:
    """See `termarena.sandbox.contract.PtyProcess`."""

    def __init__(
        self, master_fd: int, pid: int, *, ended: asyncio.Future[wire.Received], end: Callable[[], Awaitable[None]]
    ) -> None:
        """Takes over the master; `ended` gives the process's status, `end` kills it and what it started."""
        os.set_blocking(master_fd, False)
        self._master_fd = master_fd
        self._pid = pid
        self._ended = ended
        self._end = end
        self._started = time.monotonic()

    @property
    def master_fd(self) -> int:
        """Non-blocking; -1 once closed."""
        return self._master_fd

    @property
    def pid(self) -> int:
        """The process's number inside the sandbox."""
        return self._pid

    def resize(self, cols: int, rows: int) -> None:
        """Tell the programs on the terminal; raises `TerminalSizeError`."""
        check_size(cols, rows)
        fcntl.ioctl(self._master_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    async def wait(self) -> ExecResult:
        """The end of the process; its output is what was read from the master."""
        answer = (await asyncio.shield(self._ended)).message
        code = os.waitstatus_to_exitcode(answer["status"])
        return ExecResult(
            exit_status=128 - code if code < 0 else code,
            signal=-code if code < 0 else None,
            stdout=b"",
            stderr=b"",
            stdout_bytes=0,
            stderr_bytes=0,
            duration_s=time.monotonic() - self._started,
            oom_killed=answer["watch_kills"] > 0,
        )

    async def kill(self) -> None:
        """End every process that it started, wherever it went."""
        await self._end()

    def close(self) -> None:
        """Close the master: the kernel hangs up."""
        if self._master_fd >= 0:
            os.close(self._master_fd)
            self._master_fd = -1
