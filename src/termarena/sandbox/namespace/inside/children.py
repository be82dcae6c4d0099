"""Commands of the sandbox: how process 1 starts them, finds all processes of one, and ends them.

Every process of an exec carries the exec's number in a resource limit that nothing in the sandbox may change (the
system-call filter sees to it). It is inherited by fork, exec, setsid and a double fork alike, so an exec's processes
are found wherever they went, with or without cgroups.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from . import files, seccomp, wire
from . import syscalls as sc
from .seccomp import MARKER_RESOURCE

if TYPE_CHECKING:
    from .registrar import Registrar

MARKER_BASE: Final = 1 << 40
TIOCGPTPEER: Final = 0x5441
TIOCSPTLCK: Final = 0x40045431
KILL_PATIENCE_S: Final = 10.0
THREADS_FIELD: Final = 17
NOT_FOUND, NOT_EXECUTABLE = 127, 126
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Command:
    """An exec request, checked against the sandbox: its user exists and its working folder can be entered."""

    def __init__(self, request: dict[str, Any]) -> None:
        """Raises `LookupError` for an unknown user and `OSError` for a working folder that is none."""
        self.exec_id: int = request["id"]
        self.argv: list[str] = request["argv"]
        self.identity = files.find_user(request["user"])
        self.env: dict[str, str] = {**self.identity.environment(is_login=request["is_login"]), **request["env"]}
        self.who = 0
        self.cwd: str = request["cwd"] or self.identity.home
        self.timeout_s: float | None = request["timeout_s"]
        self.grace_s: float = request["grace_s"]


class Running:
    """A started command and its deadline: the time limit first, then the end of the grace after SIGTERM."""

    __slots__ = ("deadline", "exec_id", "grace_s", "is_job", "pid", "timed_out", "watch_kills_before")

    def __init__(
        self, pid: int, exec_id: int, *, timeout_s: float | None = None, grace_s: float = 0.0, is_job: bool = False
    ) -> None:
        """`pid` is a child of process 1; `is_job`: it runs our own code only."""
        self.pid = pid
        self.exec_id = exec_id
        self.is_job = is_job
        self.grace_s = grace_s
        self.deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.timed_out = False
        self.watch_kills_before = 0

    def expire(self, now: float) -> None:
        """SIGTERM to all processes of the exec the first time, SIGKILL the second."""
        if self.timed_out or self.grace_s <= 0:
            self.timed_out = True
            self.deadline = None
            kill_exec(self.exec_id)
            return
        self.timed_out = True
        self.deadline = now + self.grace_s
        for pid in pids_of_exec(self.exec_id):
            _signal(pid, signal.SIGTERM)


class Launcher:
    """Starts commands with the sandbox's limits, filter and cgroups."""

    def __init__(
        self, plan: dict[str, Any], *, registrar: Registrar | None, cgroup_fds: list[int], born_fd: int | None
    ) -> None:
        """Commands join the groups, and are born in `born_fd`; `registrar`: who answers for users and owners."""
        self.program = seccomp.assemble(watches_owners=registrar is not None)
        self.registrar = registrar
        self.cgroup_fds = cgroup_fds
        self.born_fd = born_fd
        self.limits: list[tuple[int, int]] = [(int(kind), int(value)) for kind, value in plan["rlimits"]]
        self.may_write = True

    def start(self, command: Command, *, stdio: tuple[int, int, int], has_terminal: bool = False) -> Running:
        """Fork and execute; a command that cannot be executed ends with 126 or 127 and a line on its stderr."""
        folder = files.open_inside(command.cwd, os.O_PATH | os.O_DIRECTORY)
        if self.registrar is not None:
            who = command.identity
            command.who = self.registrar.number_for(who.uid, who.gid, who.groups)
        try:
            pid = self.fork()
            if pid == 0:
                self._become(command, stdio=stdio, folder=folder, has_terminal=has_terminal)
        finally:
            os.close(folder)
        return Running(pid, command.exec_id, timeout_s=command.timeout_s, grace_s=command.grace_s)

    def _become(self, command: Command, *, stdio: tuple[int, int, int], folder: int, has_terminal: bool) -> NoReturn:
        try:
            os.setsid()
            mark(command.exec_id, who=command.who)
            self.join()
            for target, source in enumerate(stdio):
                os.dup2(source, target)
            os.fchdir(folder)
            if has_terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            self._restrict(command)
            execute(command.argv, command.env)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(2, f"termarena: {command.argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
            os._exit(NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE)
        finally:
            os._exit(NOT_EXECUTABLE)

    def _restrict(self, command: Command) -> None:
        if self.registrar is None:
            command.identity.assume()
        for kind, value in self.limits:
            _lower_limit(kind, value)
        if not self.may_write:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        if self.registrar is None:
            sc.close_range(3, 0x7FFFFFFF)
            sc.install_filter(self.program)
            return
        listener = sc.install_watched_filter(self.program)
        wire.send(self.registrar.door, {}, (listener,))
        sc.close_range(3, 0x7FFFFFFF)

    def fork(self) -> int:
        """As `os.fork`: the child is born in the sandbox's cgroup, and is to `join` the others at once."""
        return os.fork() if self.born_fd is None else sc.clone(cgroup_fd=self.born_fd)

    def join(self) -> None:
        """Enter the sandbox's cgroups; raises `OSError`."""
        for fd in self.cgroup_fds:
            os.write(fd, b"0")


def _lower_limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (allowed, allowed))


def execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Replace the process as `execvpe` does, a script without `#!` through `/bin/sh`; raises `OSError`."""
    problem = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    name = argv[0]
    folders = [""] if "/" in name else [f"{folder or '.'}/" for folder in env.get("PATH", "").split(":")]
    for folder in folders:
        try:
            os.execve(folder + name, argv, env)  # noqa: S606 - replacing the process is the point
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                os.execve("/bin/sh", ["sh", folder + name, *argv[1:]], env)  # noqa: S606 - replacing the process is the point
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                problem = error
    raise problem


def mark(exec_id: int, *, who: int = 0) -> None:
    """Put the exec's number, and the registrar's for its user, on the calling process and all that it will start."""
    resource.setrlimit(MARKER_RESOURCE, (who or MARKER_BASE + exec_id, MARKER_BASE + exec_id))


def exec_of(pid: int) -> int | None:
    """The number of the exec that a process belongs to; None for one that has gone."""
    try:
        hard = resource.prlimit(pid, MARKER_RESOURCE)[1]
    except (ProcessLookupError, PermissionError):
        return None
    return hard - MARKER_BASE if hard >= MARKER_BASE else None


def all_pids() -> list[int]:
    """Every process of the sandbox but process 1."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def pids_of_exec(exec_id: int) -> list[int]:
    """The living processes of one exec."""
    return _look(exec_id, set())[0]


def _look(exec_id: int, known: set[int]) -> tuple[list[int], bool]:
    """The living processes of one exec, and whether there can be no more of them.

    A process that ended before or under the look may have left a child that came too late for the list, and one that
    has just been forked may not carry its number yet. Whoever has ended or is of another exec is added to `known`, and
    left out by the next look.
    """
    found, is_whole = [], True
    for pid in all_pids():
        if pid in known:
            continue
        its = exec_of(pid)
        if its == exec_id and is_alive(pid):
            found.append(pid)
            continue
        if its in (exec_id, None):
            is_whole = False
        if its is not None:
            known.add(pid)
    return found, is_whole


def is_alive(pid: int) -> bool:
    """Whether the process runs, sleeps or is stopped: a zombie is not alive, unless only its first thread has ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and _is_living(fields)


def stat_of(pid: int) -> tuple[bytes, int]:
    """The kernel's letter for its state, and its parent; empty and 0 for a process that has gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 2)
    return (fields[0], int(fields[1])) if fields else (b"", 0)


def _is_living(fields: list[bytes]) -> bool:
    return fields[0] not in (b"Z", b"X") or int(fields[THREADS_FIELD]) > 1


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_exec(exec_id: int) -> None:
    """End every process of one exec.

    They are stopped before they are killed: a killed process would make room for the next fork of its sisters.
    """
    give_up = time.monotonic() + KILL_PATIENCE_S
    stopped: set[int] = set()
    known: set[int] = set()
    while time.monotonic() < give_up:
        found, is_whole = _look(exec_id, known)
        fresh = set(found) - stopped
        if not fresh and is_whole:
            break
        for pid in sorted(fresh):  # parents first: a shell that sees its job stopped goes on with its next command
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    while (alive := pids_of_exec(exec_id)) and time.monotonic() < give_up:
        for pid in alive:
            _signal(pid, signal.SIGKILL)
        os.sched_yield()


def kill_everything() -> int:
    """End every process but process 1; the number of those that were alive. Raises `OSError` when one does not end."""
    count = sum(1 for pid in all_pids() if is_alive(pid))
    give_up = time.monotonic() + KILL_PATIENCE_S
    while time.monotonic() < give_up:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        if not any(is_alive(pid) for pid in all_pids()):
            return count
        os.sched_yield()
    raise OSError(errno.EBUSY, "its processes could not be ended")


def private_bytes(pid: int) -> int:
    """Resident memory that the process shares with no file."""
    fields = _read(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * PAGE if len(fields) > 2 else 0  # noqa: PLR2004 - statm's third field


def kill_largest_above(limit_bytes: int) -> int:
    """Kill the largest process while all together hold more than the limit; how many were killed."""
    sizes = {pid: private_bytes(pid) for pid in all_pids()}
    killed = 0
    while sizes and sum(sizes.values()) > limit_bytes:
        largest = max(sizes, key=lambda pid: sizes[pid])
        _signal(largest, signal.SIGKILL)
        sizes.pop(largest)
        killed += 1
    return killed


def describe_processes(registrar: Registrar | None) -> list[dict[str, object]]:
    """Every living process but process 1; its user is whom the registrar takes it for, where there is one."""
    found = []
    for pid in all_pids():
        name, _, rest = _read(f"/proc/{pid}/stat").rpartition(b")")
        fields = rest.split()
        if not fields or not _is_living(fields):
            continue
        command = _read(f"/proc/{pid}/cmdline") or name.partition(b"(")[2]
        with contextlib.suppress(OSError):
            found.append(
                {
                    "pid": pid,
                    "parent": int(fields[1]),
                    "state": fields[0].decode(),
                    "uid": registrar.who(pid).users.effective if registrar else os.stat(f"/proc/{pid}").st_uid,
                    "argv": [os.fsdecode(word) for word in command.rstrip(b"\0").split(b"\0")],
                    "exec": exec_of(pid),
                }
            )
    return found


def open_terminal(cols: int, rows: int) -> tuple[int, int]:
    """A fresh pseudo-terminal of the sandbox: the master and the slave."""
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        return master, fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        os.close(master)
        raise
