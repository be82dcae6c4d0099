"""The pipes of one command: what goes in, and what comes out with a cap on what is kept."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
from typing import TYPE_CHECKING, Final

from termarena.sandbox.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Collector", "Feeder", "Pipes"]

CHUNK: Final = 1 << 18
LISTEN_AFTER_S: Final = 0.01
"""Most commands have ended by then, and what they wrote is in the pipe: nobody had to be woken for it."""
SOCKET_BYTES: Final = 1 << 20
"""More than a socket of the usual size holds of what was written and not yet read."""


class Collector:
    """Reads a pipe to its end, keeps the first bytes and the last, counts all.

    A daemon may hold the pipe after the command has ended: it goes on being read then, since closing it would kill
    the daemon at its next word.
    """

    def __init__(
        self, fd: int, *, keep_bytes: int, tail_bytes: int = 0, on_chunk: Callable[[bytes], None] | None = None
    ) -> None:
        """Takes over the reading end; `on_chunk` gets everything as it comes."""
        self._on_chunk = on_chunk
        os.set_blocking(fd, False)
        self.is_open = True
        self.kept = Kept(keep_bytes, tail_bytes)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._begins = self._loop.call_later(LISTEN_AFTER_S, self._listen)

    def _listen(self) -> None:
        self._loop.add_reader(self._fd, self._read_once)

    def _read_once(self) -> bool:
        """Whether there may be more at once."""
        try:
            chunk = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        self.kept.take(chunk)
        if self._on_chunk is not None:
            self._on_chunk(chunk)
        return True

    def finish(self) -> Kept:
        """What the ended command wrote; whatever comes later is thrown away."""
        # What the command wrote and nobody has read fits into the pipe; beyond it, a daemon that writes without end
        # would keep us here for ever.
        most = self.kept.total_bytes + (_room(self._fd) if self.is_open else 0)
        while self.is_open and self.kept.total_bytes < most and self._read_once():
            pass
        kept, self.kept = self.kept, Kept(0)
        return kept

    def close(self) -> None:
        """Stop reading."""
        if self.is_open:
            self.is_open = False
            self._begins.cancel()
            self._loop.remove_reader(self._fd)
            os.close(self._fd)


def _room(fd: int) -> int:
    """How much may be on its way."""
    return SOCKET_BYTES if stat.S_ISSOCK(os.fstat(fd).st_mode) else fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)


class Feeder:
    """Writes bytes to a pipe as fast as they are taken and closes it; a reader that goes away early is no error."""

    def __init__(self, fd: int, content: bytes) -> None:
        """Takes over the writing end."""
        os.set_blocking(fd, False)
        self._fd = fd
        self._left = memoryview(content)
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_writer(fd, self._write)

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._fd, self._left[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not self._left:
            self.close()

    def close(self) -> None:
        """Stop writing."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_writer(self._fd)
            os.close(self._fd)


def _one_way_socket() -> tuple[int, int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    theirs.shutdown(socket.SHUT_RD)
    return ours.detach(), theirs.detach()


class Pipes:
    """The three pipes of an exec: ends for the command, ends for us."""

    def __init__(self, stdin: bytes, *, is_confided: bool = False) -> None:
        """Without input the command reads from `/dev/null`. `is_confided`: its standard output is a socket, which other
        than a pipe cannot be opened once more through `/proc`."""
        self._feed = -1
        if stdin:
            reading, self._feed = os.pipe()
        else:
            reading = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._out, out_writing = _one_way_socket() if is_confided else os.pipe()
        self._err, err_writing = os.pipe()
        self.inner = (reading, out_writing, err_writing)

    def abandon(self) -> None:
        """Close everything."""
        for fd in (*self.inner, self._out, self._err, self._feed):
            if fd >= 0:
                os.close(fd)

    def attend(
        self,
        stdin: bytes,
        *,
        keep_bytes: int,
        tail_bytes: int = 0,
        on_chunk: Callable[[bytes], None] | None = None,
    ) -> tuple[Collector, Collector, Feeder | None]:
        """Close the command's ends and serve ours."""
        for fd in self.inner:
            os.close(fd)
        feeder = Feeder(self._feed, stdin) if stdin else None
        out, err = (
            Collector(fd, keep_bytes=keep_bytes, tail_bytes=tail_bytes, on_chunk=on_chunk)
            for fd in (self._out, self._err)
        )
        return out, err, feeder
