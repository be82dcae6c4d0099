"""Reading and writing a terminal's master side from the event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.contract import PtyProcess

__all__ = ["PtyStream"]

READ_BYTES: Final = 1 << 16
TURN_BYTES: Final = 1 << 16
"""How much is read before the event loop's other guests have their turn: a few milliseconds of emulation."""
ANSWER_ROOM_BYTES: Final = 4096
"""Answers to a program that asks and never reads are dropped beyond this."""


class PtyStream:
    """The master of one terminal: all that comes is handed on, all that goes waits its turn without blocking."""

    def __init__(self, pty: PtyProcess, on_data: Callable[[bytes], None], *, on_end: Callable[[], None]) -> None:
        """Starts reading; `on_data` is called from the event loop with at least one byte, `on_end` once."""
        self._fd = pty.master_fd
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self.has_ended = asyncio.Event()
        """Set once nothing more can come: the last process on the terminal has gone, or the stream was closed."""
        self._loop.add_reader(self._fd, self.take)

    def take(self) -> None:
        """Hand on what has come; the event loop does so whenever it comes round."""
        taken = 0
        while taken < TURN_BYTES and not self.has_ended.is_set():
            try:
                data = os.read(self._fd, READ_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # EIO: nobody is left on the other side
                data = b""
            if not data:
                self.close()
                return
            taken += len(data)
            self._on_data(data)

    def write(self, data: bytes) -> None:
        """Send, now or as soon as there is room; nothing is sent once the stream has ended."""
        if not self.has_ended.is_set():
            self._waiting += data
            self._flush()

    def answer(self, data: bytes) -> None:
        """Send an answer to a query, unless earlier input still waits to be read."""
        if len(self._waiting) + len(data) <= ANSWER_ROOM_BYTES:
            self.write(data)

    def _flush(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self._fd, self._waiting)]
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._fd, self._flush)
            return
        except OSError:
            self._waiting.clear()
        self._loop.remove_writer(self._fd)

    def discard_input(self) -> None:
        """Forget what has not been sent."""
        self._waiting.clear()

    def close(self) -> None:
        """Stop reading and writing; the descriptor stays its owner's. Safe to call again."""
        if not self.has_ended.is_set():
            self.has_ended.set()
            self._waiting.clear()
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._on_end()
