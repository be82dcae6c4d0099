"""How much the sandbox has written to a disk of the host, and what happens when that is too much.

A folder of the host has no quota that an ordinary user could set. Process 1 looks at it instead while something runs:
often at how much room the whole file system has, which is one system call, and at how much the processes have written,
since others may make room meanwhile; at the files themselves only when one of them says that the limit may have been
met. Beyond the limit writing is refused, by a file size limit of zero on
every process, until there is room again; who gets around that is ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import stat
import time
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from . import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
BLOCK: Final = 512
LEAST_BYTES: Final = 1024
"""What each name counts for, as it does in memory: an empty file takes no block of a disk, but one of its files."""
STRIDE: Final = 500
"""So many names are looked at (about 2 ms) before the clock is."""
SLICE_S, MOMENT_S = 0.01, 0.1
SHORTEST_S, LONGEST_S = 0.05, 0.2
FASTEST_BYTES_S: Final = 8 << 30
"""No writer is faster: so long the room that is left lasts at least."""
ANYHOW_S: Final = 10.0
"""The files are looked at this often whatever the file system says: somebody else may be making room on it."""
MOST_ASKED: Final = 64
"""Of more processes nobody is asked what it has written (about 20 µs each): the file system's word has to do."""
IDLE_TO_BUSY: Final = 8
"""At least so many times as long as a look took, the next one waits."""
SLACK_BYTES, MARGIN_BYTES = 64 << 20, 1 << 20
DELETED: Final = b" (deleted)\n"
MOST_MAPPED: Final = 100_000
"""Of so many deleted files the mapped parts are counted: process 1 has no other bound to its memory."""

Verdict = Literal["fine", "short"]


def taken(roots: list[int]) -> int:
    """What the files below some folders take, in bytes."""
    return _last(walk(roots))


def _last(told: Iterator[int]) -> int:
    found = 0
    for found in told:  # noqa: B007 - the last value counts
        pass
    return found


class _Folder(NamedTuple):
    """One that is still to be looked at; not its path, of which a hostile tree has millions, each as long as can be."""

    above: _Folder | None
    name: str

    @property
    def path(self) -> str:
        names = []
        one: _Folder | None = self
        while one is not None:
            names.append(one.name)
            one = one.above
        return "/".join(reversed(names))


def walk(roots: list[int]) -> Iterator[int]:
    """What was found so far, told every few names and at the end; what vanishes under the look is left out.

    A folder whose path is longer than the kernel takes is not looked into.
    """
    total = seen = 0
    linked: set[int] = set()
    waiting = [(root, _Folder(None, ".")) for root in roots]
    while waiting:
        root, folder = waiting.pop()
        for name, found in _entries(root, folder.path):
            seen += 1
            if seen % STRIDE == 0:
                yield total
            if stat.S_ISDIR(found.st_mode):
                waiting.append((root, _Folder(folder, name)))
            elif found.st_nlink > 1:
                if found.st_ino in linked:
                    continue
                linked.add(found.st_ino)
            total += max(found.st_blocks * BLOCK, LEAST_BYTES)
    yield total


def _entries(root: int, path: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        fd = os.open(path, FOLDER, dir_fd=root)
    except OSError:
        return
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    yield entry.name, entry.stat(follow_symlinks=False)
    finally:
        os.close(fd)


def nameless(devices: set[int], *, most_mapped_bytes: int) -> Iterator[int]:
    """What files take that were deleted and are still open or mapped, told every few of them and at the end.

    How large one is that is only mapped, nobody can ask: it counts with the part that is, and all of them with no more
    than `most_mapped_bytes`.
    """
    total = seen = 0
    known: set[int] = set()
    for pid in children.all_pids():
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                seen += 1
                if seen % STRIDE == 0:
                    yield total
                with contextlib.suppress(OSError):
                    found = os.stat(entry.path)
                    is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 0 and found.st_dev in devices
                    if is_ours and found.st_ino not in known:
                        known.add(found.st_ino)
                        total += found.st_blocks * BLOCK
    parts: dict[int, int] = {}
    for pid in children.all_pids():
        yield total
        for number, size_bytes in _mapped(pid, devices).items():
            if number not in known and len(parts) < MOST_MAPPED:
                parts[number] = max(size_bytes, parts.get(number, 0))
    yield total + min(sum(parts.values()), most_mapped_bytes)


def _mapped(pid: int, devices: set[int]) -> dict[int, int]:
    """The numbers of deleted files that a process has mapped, with how much of each."""
    found: dict[int, int] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as file:
        for line in file:
            if line.endswith(DELETED):
                place, _, _, device, number, name = line.rstrip(b"\n").split(maxsplit=5)
                start, end = (int(address, 16) for address in place.split(b"-"))
                major, minor = (int(part, 16) for part in device.split(b":"))
                if os.makedev(major, minor) in devices and not _is_called(name, int(number)):
                    found[int(number)] = found.get(int(number), 0) + end - start
    return found


def _is_called(name: bytes, number: int) -> bool:
    """Whether the file with this number really has the name that a deleted one is shown by."""
    try:
        return os.lstat(name).st_ino == number
    except OSError:
        return False


def _overlays() -> set[int]:
    """The devices of the sandbox's overlays."""
    with open("/proc/self/mountinfo", "rb") as file:
        numbers = [line.split()[2].split(b":") for line in file if b" - overlay " in line]
    return {os.makedev(int(major), int(minor)) for major, minor in numbers}


def _whole(roots: list[int], devices: set[int], *, most_mapped_bytes: int) -> Iterator[int]:
    """All of it."""
    named = 0
    for named in walk(roots):
        yield named
    for more in nameless(devices, most_mapped_bytes=most_mapped_bytes):
        yield named + more


def written_bytes() -> int:
    """How much the processes of the sandbox, also those that have ended, have written to disks; 0 where nobody counts.

    Who has ended was counted in with its parent, and at last with process 1.
    """
    total = 0
    for pid in (1, *children.all_pids()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/io", "rb") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith(b"write_bytes:"))
    return total


class DiskWatch:
    """Holds a sandbox to its disk limit, and keeps some of the host's disk free."""

    def __init__(
        self, plan: dict[str, Any], roots: list[int], *, launcher: children.Launcher, spared: Callable[[], set[int]]
    ) -> None:
        """`plan` has the limit and what is to be left to others; `roots` hold the changes; `spared` are our jobs."""
        self.limit_bytes: int = plan["limit_bytes"]
        self.reserve_bytes: int = plan["reserve_bytes"]
        self.reserve_files: int = plan["reserve_files"]
        # What files take changes a little when the kernel writes them out: so much has to be free before there is room.
        self._margin_bytes = min(MARGIN_BYTES, self.limit_bytes // 64)
        self.roots = roots
        self.launcher = launcher
        self.spared = spared
        # A file of an overlay is told to lie on the overlay or on what is below it.
        self.devices = {*_overlays(), *(os.fstat(root).st_dev for root in roots)}
        self.used_bytes = 0
        self.was_full = False
        self.is_full = False
        self.next: float | None = None
        self._given_bytes = 0
        self._own_limits: dict[int, int] = {}
        self._look: Iterator[int] | None = None
        self._found_bytes = 0
        self._look_took_s = 0.0
        self._has_grown = False
        self._looked_at = time.monotonic()
        self._free_at_first = self._free_then = self._free()
        self._written_then = 0

    def begin(self) -> None:
        """Something runs now."""
        if self.next is None:
            self.next = time.monotonic() + SHORTEST_S

    def go_on(self, now: float) -> Verdict:
        """Look, and act on what is found. `short`: the host's disk is nearly full, and the sandbox has to end.

        One that is within its own limit is given half of the reserve: it is not the one to blame. Unless it has written
        more than the limit: it may hold files where nobody can see them.
        """
        free = self._free()
        if self._look is not None or self._is_due(now, free):
            self._look_on(MOMENT_S if self._is_pressing(free) else SLICE_S)
        self._hold()
        self.next = now + self._pause_s(free) if children.all_pids() else None
        if not self._is_short(free):
            return "fine"
        is_to_blame = self.is_full or written_bytes() > self.limit_bytes
        return "short" if is_to_blame or self._is_short(free, part=2) else "fine"

    def _is_short(self, free: int, *, part: int = 1) -> bool:
        return free < self.reserve_bytes // part or self._files_left() < self.reserve_files // part

    def _free(self) -> int:
        found = os.fstatvfs(self.roots[0])
        return found.f_bavail * found.f_frsize

    def _files_left(self) -> int:
        return os.fstatvfs(self.roots[0]).f_favail

    def _is_due(self, now: float, free: int) -> bool:
        rested_s = now - self._looked_at
        if rested_s < self._look_took_s * (1 if self._is_pressing(free) else IDLE_TO_BUSY):
            return False
        half_bytes = (self.limit_bytes - self.used_bytes) / 2
        has_fallen = self._free_then - free >= half_bytes
        return self.is_full or has_fallen or rested_s >= ANYHOW_S or self._have_written(half_bytes)

    def _have_written(self, size_bytes: float) -> bool:
        """Whether the processes have written so much since the last look began; False where that is not known."""
        return len(children.all_pids()) <= MOST_ASKED and written_bytes() - self._written_then >= size_bytes

    def _is_pressing(self, free: int) -> bool:
        """Whether the file system has lost as much since the last look began as the sandbox had left to write."""
        return self._free_then - free >= self.limit_bytes - self.used_bytes

    def look_now(self) -> None:
        """Look at the files at once, if that takes no longer than a moment; else the last look has to do."""
        self._look_on(MOMENT_S)

    def _look_on(self, for_s: float) -> None:
        """Go on with a look, or begin one."""
        if self._look is None:
            self._look, self._free_then, self._look_took_s = self._whole(), self._free(), 0.0
            self._written_then = written_bytes()
        began = time.monotonic()
        for found_bytes in self._look:
            self._found_bytes = found_bytes
            if (now := time.monotonic()) - began > for_s:
                self._look_took_s += now - began
                return
        self._finish(self._found_bytes, time.monotonic() - began)

    def _whole(self) -> Iterator[int]:
        # What was deleted from a lower layer takes nothing: no more can be mapped than the file system has lost.
        lost = max(0, self._free_at_first - self._free())
        return _whole(self.roots, self.devices, most_mapped_bytes=lost)

    def _finish(self, used_bytes: int, took_s: float) -> None:
        self._look = None
        self._look_took_s += took_s
        self._looked_at = time.monotonic()
        self._has_grown = used_bytes > self.used_bytes
        self.used_bytes, self._given_bytes = used_bytes, 0

    def _pause_s(self, free: int) -> float:
        if self.is_full or self._look is not None:
            return SHORTEST_S
        room = min(self.limit_bytes - self.used_bytes, free - self.reserve_bytes)
        return min(LONGEST_S, max(SHORTEST_S, room / FASTEST_BYTES_S))

    def _hold(self) -> None:
        """Refuse or allow writing, as the last look says."""
        over = self.used_bytes - self.limit_bytes
        if over > (-self._margin_bytes if self.is_full else 0):
            self.is_full = self.was_full = True
            self._refuse()
        elif self.is_full:
            self.is_full = False
            self._allow()
        # Whoever makes room is let do so, also where a look takes long.
        if over > SLACK_BYTES and self._has_grown:
            for pid in set(children.all_pids()) - self.spared():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _refuse(self) -> None:
        self.launcher.may_write = False
        for pid in set(children.all_pids()) - self.spared():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                if soft != 0:
                    self._own_limits[pid] = soft
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))

    def _allow(self) -> None:
        self.launcher.may_write = True
        for pid in set(children.all_pids()) - self.spared():
            # It may lower its hard limit meanwhile, also between the two calls, and the kernel then calls ours invalid.
            with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
                soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                if soft == 0:
                    own = self._own_limits.get(pid, hard)
                    is_within = hard == resource.RLIM_INFINITY or 0 <= own <= hard
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (own if is_within else hard, hard))
        self._own_limits.clear()

    def give(self, size_bytes: int) -> None:
        """Let the harness write so much; raises `OSError` where it does not fit."""
        if self.is_full or self.used_bytes + self._given_bytes + size_bytes > self.limit_bytes:
            began = time.monotonic()
            self._finish(_last(self._whole()), time.monotonic() - began)
            if self.used_bytes + size_bytes > self.limit_bytes - (self._margin_bytes if self.is_full else 0):
                self.was_full = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._given_bytes += size_bytes

    def describe(self) -> dict[str, Any]:
        """For an answer about what was used."""
        return {"was_full": self.was_full, "used_bytes": self.used_bytes}
