"""A program on a terminal of this machine, held like one in a sandbox."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from termarena.sandbox import ExecResult
from termarena.sandbox.sides import check_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LocalPty"]

NOT_STARTED = 127


class LocalPty:
    """See `termarena.sandbox.contract.PtyProcess`. The program has the caller's rights: it is no sandbox."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, cols: int, rows: int) -> None:
        """Starts the program; one that is not there ends with status 127."""
        self._started = time.monotonic()
        self._pid, self._master_fd = pty.fork()
        if self._pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
                os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - the user's own shell
            finally:
                os._exit(NOT_STARTED)
        os.set_blocking(self._master_fd, False)

    @property
    def master_fd(self) -> int:
        """Non-blocking; -1 once closed."""
        return self._master_fd

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._pid

    def resize(self, cols: int, rows: int) -> None:
        """Tell the programs on the terminal; raises `TerminalSizeError`."""
        check_size(cols, rows)
        fcntl.ioctl(self._master_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    async def wait(self) -> ExecResult:
        """The end of the program; may be asked once."""
        _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return ExecResult(
            exit_status=128 - code if code < 0 else code,
            signal=-code if code < 0 else None,
            stdout=b"",
            stderr=b"",
            stdout_bytes=0,
            stderr_bytes=0,
            duration_s=time.monotonic() - self._started,
        )

    async def kill(self) -> None:
        """End the program; what it started hears of it when the terminal is closed."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the master: the kernel hangs up."""
        if self._master_fd >= 0:
            os.close(self._master_fd)
            self._master_fd = -1
