"""Holding every process of a sandbox still: by its cgroup where there is one, else by SIGSTOP."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Final

from . import children

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 5.0
"""How long a process may stay in a system call that cannot be interrupted."""
ORDER_S: Final = 0.25
"""How long parents are waited for before their children are stopped: more than many of them need on a busy machine."""
WAITING: Final = b"D"
HELD: Final = (b"T", b"t", b"Z", b"X", b"")
"""Stopped, traced, a zombie, gone."""


class CgroupFreezer:
    """By the kernel: also what forks meanwhile is held, nobody notices, and a kill still ends what is frozen."""

    def __init__(self, freeze_fd: int, events_fd: int) -> None:
        """`cgroup.freeze` to write to and `cgroup.events` to read from."""
        self.freeze_fd = freeze_fd
        self.events_fd = events_fd

    def freeze(self) -> bool:
        """Whether all are held."""
        os.write(self.freeze_fd, b"1")
        poll = select.poll()
        poll.register(self.events_fd, select.POLLPRI)
        give_up = time.monotonic() + PATIENCE_S
        while b"frozen 1" not in os.pread(self.events_fd, 4096, 0):
            left_ms = (give_up - time.monotonic()) * 1000
            if left_ms <= 0:
                return False
            poll.poll(left_ms)
        return True

    def thaw(self) -> None:
        """Let go."""
        os.write(self.freeze_fd, b"0")


class SignalFreezer:
    """By SIGSTOP, until a look finds none that runs; what was stopped before stays stopped at the end.

    A shell that saw its job stopped would go on with its next command, now or after the thaw: children are stopped when
    their parents are held, and go on before them.
    """

    def __init__(self, spared: Callable[[], set[int]]) -> None:
        """`spared` tells which processes are our own jobs."""
        self.spared = spared
        self.stopped: set[int] = set()

    def freeze(self) -> bool:
        """Whether all are held."""
        give_up = time.monotonic() + PATIENCE_S
        in_order_until = time.monotonic() + ORDER_S
        while running := self._running():
            parents = {parent for _, parent in running.values()}
            for pid in sorted(running.keys() - self.stopped):
                _signal(pid, signal.SIGSTOP)
                if pid in parents:
                    _wait_until_held(pid, in_order_until)
            self.stopped |= running.keys()
            if time.monotonic() > give_up:
                return False
            os.sched_yield()
        return True

    def _running(self) -> dict[int, tuple[bytes, int]]:
        """Those that are not held, each with its state and its parent."""
        seen = {pid: children.stat_of(pid) for pid in children.all_pids()}
        held = {pid for pid, (state, _) in seen.items() if state in HELD}
        # A parent in vfork waits for its child, which will not go on; the pending signal meets it after that.
        forking = {seen[pid][1] for pid in held & self.stopped}
        held |= {pid for pid, (state, _) in seen.items() if state == WAITING and pid in forking & self.stopped}
        return {pid: seen[pid] for pid in seen.keys() - held - self.spared()}

    def thaw(self) -> None:
        """Let go."""
        for pid in sorted(self.stopped, reverse=True):
            _signal(pid, signal.SIGCONT)
        self.stopped.clear()


def _wait_until_held(pid: int, give_up: float) -> None:
    """Wait for one that was told to stop; not for one in vfork, which cannot before its child goes on."""
    while time.monotonic() < give_up and children.stat_of(pid)[0] not in (*HELD, WAITING):
        os.sched_yield()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
