"""A person at a terminal of their own, before whom `termarena` runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

PATIENCE_S = 60


class Person:
    """A person at a terminal of 90x30 who has typed `termarena …`."""

    def __init__(self, *arguments: str, home: Path, cwd: Path | None = None) -> None:
        self.master, self._slave = pty.openpty()
        self._resize(90, 30)
        self.modes = termios.tcgetattr(self._slave)
        self.seen = ""
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "termarena", *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**os.environ, "TERMARENA_HOME": str(home), "TERM": "xterm"},
            cwd=cwd,
            start_new_session=True,
        )

    def _resize(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def resize(self, cols: int, rows: int) -> None:
        self._resize(cols, rows)
        self.process.send_signal(signal.SIGWINCH)

    def until(self, pattern: str) -> str:
        """Read until the pattern has come; what came before it is forgotten."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.5)[0]:
                self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        self.seen = self.seen[found.end() :]
        return found[0]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C when the shell waits for a key.

        A readline that has shown a key and is on its way to wait for the next one notices a signal only with that next
        one: of 1,500 presses at the moment of the echo 224 were lost, of as many on a sleeping bash none.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not _sleeps(_last_child(self.process.pid)):
            assert time.monotonic() < deadline
        self.type("\x03")

    def close_window(self) -> None:
        """Nothing can be read or shown any more, and the program is told."""
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), self.master)
        self.process.send_signal(signal.SIGHUP)

    def modes_now(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)


def _last_child(pid: int) -> int:
    """The process at the end of a chain of parents and children."""
    children = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    return _last_child(int(children[-1])) if children else pid


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
