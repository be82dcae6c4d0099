"""A container of an engine on this very machine, seen and touched through the kernel instead of through the engine.

This takes root. Elsewhere the same is done by a shell inside the container, more slowly and with the limits that
`docs/docker.md` names.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxStartError
from termarena.sandbox.counters import UNIFIED, groups_in, hierarchies, oom_kills, read_usage, room_of

if TYPE_CHECKING:
    import signal

    from termarena.sandbox.contract import Usage

__all__ = ["Local", "Seen", "Sighting", "find_local", "wait_status"]

CLONE_NEWNET: Final = 0x40000000
NS_GET_PARENT: Final = 0xB702
PIDFD_GET_INFO: Final = (3 << 30) | (64 << 16) | (0xFF << 8) | 11
PIDFD_INFO_EXIT: Final = 8
INFO_BYTES: Final = 64
EXIT_CODE_AT: Final = 60
FLAGS_FIELD: Final = 6
THREADS_FIELD: Final = 17
PF_EXITING: Final = 4
REAP_TIMEOUT_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class Seen:
    """One process of a container."""

    host_pid: int
    pid: int
    parent: int
    session: int
    uid: int
    state: str
    locked_bytes: int
    threads: int
    argv: tuple[str, ...]

    @property
    def is_living(self) -> bool:
        """Whether anything of it still runs: its first thread may have ended before the others, like a zombie."""
        return self.state not in ("Z", "X") or self.threads > 1


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look found."""

    seen: list[Seen]
    """Sorted by number, process 1 and zombies too."""
    is_whole: bool
    """False where a process ended under the look and nothing is known of it, not even whether it was of this place."""


class Local:
    """The processes, counters and network of one container."""

    def __init__(self, host_pid: int, container: str) -> None:
        """`host_pid` is the container's process 1 as this machine numbers it."""
        self.host_pid = host_pid
        self._namespace = os.readlink(f"/proc/{host_pid}/ns/pid")  # noqa: PTH115 - a name of the kernel, not a path
        self._ours = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - as above
        self._depth = len(_numbers(host_pid)) - 1
        self._groups = _groups(host_pid, container)

    def processes(self) -> list[Seen]:
        """Every process in the container's pid namespace and in those made below it, process 1 and zombies too.

        Sorted by their numbers in the container's own namespace.
        """
        return self.look(set()).seen

    def look(self, known: set[int]) -> Sighting:
        """As `processes`; whoever lives elsewhere or is a zombie is added to `known`, and left out by the next look."""
        found, is_whole = [], True
        for name in os.listdir("/proc"):  # noqa: PTH208 - hundreds of names, no paths
            if not name.isdecimal() or int(name) in known:
                continue
            # A process that ends while it is looked at has no words, or half of them.
            try:
                if not self._holds(name):
                    known.add(int(name))
                    continue
                found.append(_look_at(int(name), self._depth))
            except PermissionError:
                # Not even root sees it: some machines guard their own first process so.
                known.add(int(name))
            except (OSError, ValueError, LookupError):
                is_whole = False
        known.update(one.host_pid for one in found if not one.is_living)
        return Sighting(sorted(found, key=lambda seen: seen.pid), is_whole)

    def _holds(self, host_pid: str) -> bool:
        """Whether a process lives in the container: no way leads out of a pid namespace, only further down.

        Raises `OSError` for one that has gone.
        """
        place = f"/proc/{host_pid}/ns/pid"
        namespace = os.readlink(place)  # noqa: PTH115 - a name of the kernel, not a path
        if namespace in (self._namespace, self._ours):
            return namespace == self._namespace
        return self._namespace in _above(place)

    def has_hidden(self, seen: list[Seen]) -> bool:
        """Whether others than these may run in it: whoever came into its control group from outside."""
        group = self._groups.get("freezer", self._groups.get(UNIFIED))
        if group is None:
            return True
        ours = {one.host_pid for one in seen}
        try:
            return any(set(map(int, file.read_text().split())) - ours for file in group.rglob("cgroup.procs"))
        except OSError:
            return True

    @property
    def has_plain_ids(self) -> bool:
        """Whether the container's users have the same numbers on this machine."""
        try:
            rows = Path(f"/proc/{self.host_pid}/uid_map").read_text().split()
        except OSError:
            return False
        return rows[:2] == ["0", "0"]

    def open_root(self) -> int:
        """The root folder of process 1, which is the container's; raises `OSError` when that has ended."""
        fd = os.open(f"/proc/{self.host_pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # Asked for after it was opened: the number may have been given to another process.
        if os.readlink(f"/proc/{self.host_pid}/ns/pid") == self._namespace:  # noqa: PTH115 - a name of the kernel
            return fd
        os.close(fd)
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def is_ending(self) -> bool:
        """Whether process 1 is about to end, or has: then every process of the container is killed."""
        try:
            stat = Path(f"/proc/{self.host_pid}/stat").read_text(errors="replace")
        except OSError:
            return True
        return bool(int(stat.rpartition(") ")[2].split()[FLAGS_FIELD]) & PF_EXITING)

    def find(self, pid: int) -> int:
        """The number on this machine of a process by its number inside; 0 for none."""
        return next((seen.host_pid for seen in self.processes() if seen.pid == pid), 0)

    def oom_kills(self) -> int | None:
        """How many processes the memory limit has killed; None where the counter cannot be found."""
        return oom_kills(self._groups)

    def usage(self, *, has_quota: bool) -> Usage:
        """What its control groups have counted; without a quota, whether the engine's disk is full."""
        room = None
        with contextlib.suppress(OSError):
            room = room_of(os.statvfs(f"/proc/{self.host_pid}/root"))
        used = read_usage(self._groups, room=room)
        return used if has_quota else replace(used, disk_bytes=None)

    def listen(self, port: int) -> socket.socket:
        """A socket that listens on the container's own loopback, for this process to accept from."""
        made: list[socket.socket | OSError] = []
        # Only the thread enters the container's network; the socket stays there when the thread has ended.
        thread = threading.Thread(target=_listen_inside, args=(self.host_pid, port, made))
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise SandboxStartError(f"the sandbox's network cannot be entered: {made[0]}") from made[0]
        return made[0]


def find_local(container: str, host_pid: int) -> Local | None:
    """The container through the kernel, if it runs on this machine and we may act on it."""
    if os.geteuid() != 0 or host_pid <= 0:
        return None
    try:
        if container not in Path(f"/proc/{host_pid}/cgroup").read_text():
            return None
        return Local(host_pid, container)
    except OSError:
        return None


def _above(place: str) -> list[str]:
    """The names of the pid namespaces that one was made in, up to our own; raises `OSError`."""
    found = []
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # The kernel refuses to go above our own.
        with contextlib.suppress(PermissionError):
            while True:
                parent = fcntl.ioctl(fd, NS_GET_PARENT)
                os.close(fd)
                fd = parent
                found.append(f"pid:[{os.fstat(fd).st_ino}]")
    finally:
        os.close(fd)
    return found


def _look_at(host_pid: int, depth: int) -> Seen:
    """One whose namespace lies at least so deep below ours, by its numbers there."""
    folder = Path(f"/proc/{host_pid}")
    fields = (folder / "stat").read_text(errors="replace").rpartition(") ")[2].split()
    # A process may call itself anything, also what is not UTF-8.
    lines = (folder / "status").read_text(errors="replace").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    locked = [line for line in (folder / "limits").read_text().splitlines() if line.startswith("Max locked")]
    soft = locked[0].split()[3]
    words = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
    return Seen(
        host_pid=host_pid,
        pid=int(status["NSpid"].split()[depth]),
        parent=_inner(int(fields[1]), depth),
        session=int(status["NSsid"].split()[depth]),
        uid=int(status["Uid"].split()[0]),
        state=fields[0],
        locked_bytes=int(soft) if soft.isdecimal() else -1,
        threads=int(fields[THREADS_FIELD]),
        argv=tuple(word.decode(errors="surrogateescape") for word in words),
    )


def _inner(host_pid: int, depth: int) -> int:
    """The number of a process in the namespace that lies so deep; 0 for one that is not there."""
    with contextlib.suppress(OSError):
        numbers = _numbers(host_pid)
        return numbers[depth] if len(numbers) > depth else 0
    return 0


def _numbers(host_pid: int) -> list[int]:
    """The numbers of a process in our pid namespace and in each one down to its own; raises `OSError`."""
    for line in Path(f"/proc/{host_pid}/status").read_text(errors="replace").splitlines():
        if line.startswith("NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return []


def _groups(host_pid: int, container: str) -> dict[str, Path]:
    """Controller → the container's own group; a hierarchy in which it has none is left out."""
    mounted = hierarchies(Path("/proc/self/mountinfo"))
    groups = groups_in(Path(f"/proc/{host_pid}/cgroup"))
    found = {
        name: mounted[name] / path.lstrip("/") for name, path in groups.items() if name in mounted and container in path
    }
    if UNIFIED in found:
        found = {**dict.fromkeys(("memory", "pids", "cpu"), found[UNIFIED]), **found}
    return found


def _listen_inside(host_pid: int, port: int, made: list[socket.socket | OSError]) -> None:
    try:
        fd = os.open(f"/proc/{host_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(fd, CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(fd)
        # From its descriptor, so that it knows its protocol: else asyncio leaves Nagle's algorithm on, 40 ms an answer.
        made.append(socket.socket(fileno=socket.create_server(("127.0.0.1", port)).detach()))
    except OSError as error:
        made.append(error)


def wait_status(pidfd: int) -> int | None:
    """How an ended process that is not our child ended, as `wait` tells it; None on kernels before 6.15.

    Blocks until its parent has taken notice, at most two seconds.
    """
    poll = select.poll()
    poll.register(pidfd, select.POLLHUP)
    for timeout_ms in (0, REAP_TIMEOUT_MS):
        told = bytearray(struct.pack("Q", PIDFD_INFO_EXIT).ljust(INFO_BYTES, b"\0"))
        try:
            fcntl.ioctl(pidfd, PIDFD_GET_INFO, told)
        except OSError:
            return None
        if struct.unpack_from("Q", told)[0] & PIDFD_INFO_EXIT:
            return int(struct.unpack_from("i", told, EXIT_CODE_AT)[0])
        poll.poll(timeout_ms or REAP_TIMEOUT_MS)
    return None


def strike(targets: list[int], number: signal.Signals) -> None:
    """Signal processes of this machine; those that have gone are no error."""
    for pid in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for_end(host_pid: int, *, timeout_ms: int) -> None:
    """Block until a process has ended, at most so long."""
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(host_pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll(timeout_ms)
        finally:
            os.close(pidfd)
