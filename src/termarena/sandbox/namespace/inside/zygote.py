"""The fork server: one small single-threaded process that makes every sandbox of a harness.

Its only input is a SEQPACKET socket. When the socket closes, because the harness is gone however it went, it ends;
each sandbox it made ends with it, and with its own control socket. A request brings the socket for its answer: for a
new sandbox that is the control socket, from which its process 1 then hears what the sandbox is to be. So a process 1
can be made before anybody knows that.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import socket
from typing import Any, Final

from . import first, idmaps, removing, seccomp, wire
from . import syscalls as sc

NAMESPACES: Final = (
    sc.CLONE_NEWUSER
    | sc.CLONE_NEWNS
    | sc.CLONE_NEWPID
    | sc.CLONE_NEWNET
    | sc.CLONE_NEWIPC
    | sc.CLONE_NEWUTS
    | sc.CLONE_NEWCGROUP
)
TITLE: Final = b"termarena-init"
ANSWER_BYTES: Final = 64


def main() -> None:
    """Serve until the harness has gone; standard input is the socket."""
    sock = socket.socket(fileno=os.dup(0))
    _detach(sock)
    settings = wire.receive(sock)
    if settings is None or not _follow(settings.message["parent"]):
        return
    server = _ForkServer(sock)
    while (request := wire.receive(sock)) is not None:
        server.answer(request)


def _detach(sock: socket.socket) -> None:
    """Keep nothing of the harness but the socket: no descriptor, no folder, no signal handler, no visible argv."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sc.close_all_but({0, 1, 2, sock.fileno()})
    os.chdir("/")
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # What is ignored stays so in whatever is executed later, and a command would need a tenth of its time to undo it.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    # Ignored, so that the kernel reaps the sandboxes: the harness watches each through a pidfd.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sc.overwrite_command_line(TITLE)
    gc.collect()
    gc.freeze()
    gc.disable()


def _follow(parent: int | None) -> bool:
    """Die with the harness even if someone else holds its end of the socket; False if it is dead already."""
    if parent is None:
        return True
    sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


class _ForkServer:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.map_namespaces: dict[str, int] = {}

    def answer(self, request: wire.Received) -> None:
        """Do one request; a failure is sent back as its errno and words."""
        if not request.fds:  # they could not all be taken, and whoever asks sees his socket closed
            return
        answers, *fds = request.fds
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, answers) as sock:
            try:
                if request.message["op"] == "start":
                    self._start(request.message, sock, fds)
                else:
                    self._remove(request.message["path"], request.message["ids"], sock)
            except OSError as error:
                _tell(sock, {"errno": error.errno, "problem": str(error)})
            finally:
                for fd in fds:
                    os.close(fd)

    def _start(self, request: wire.Message, control: socket.socket, fds: list[int]) -> None:
        """Fork a process 1, which waits on its control socket for what it is to be.

        The first descriptor is the lock that it holds while it lives; then come the group that it is born in, and the
        namespaces that it joins.
        """
        ids = request["ids"]
        # Assembled once and kept: process 1 inherits them.
        for watches_owners in {False, ids["deny_setgroups"]}:
            seccomp.assemble(watches_owners=watches_owners)
        lock, *rest = fds
        born = rest.pop(0) if request["is_born"] else None
        shift = self._map_namespace(ids) if ids["shift"] else None
        gate_out, gate_in = os.pipe()
        try:
            pid, is_born = _clone_joined(born, rest) if rest else _clone(born)
            if pid == 0:
                first.begin(control, gate=gate_out, lock=lock, keeps_host=not ids["shift"])
            _release(pid, control, gate_in, ids=None if rest else ids, is_born=is_born, shift=shift)
        finally:
            os.close(gate_out)
            os.close(gate_in)

    def _map_namespace(self, ids: dict[str, Any]) -> int:
        key = repr((ids["uid"], ids["gid"]))
        if key not in self.map_namespaces:
            self.map_namespaces[key] = namespace_with(ids)
        return self.map_namespaces[key]

    def _remove(self, path: str, ids: dict[str, Any], sock: socket.socket) -> None:
        """Remove a folder of sandboxes in a process of its own, which the harness can wait for."""
        gate_out, gate_in = os.pipe()
        try:
            pid = sc.clone()
            if pid == 0:
                os.close(gate_in)
                removing.begin(path, ids, gate=gate_out)
            # It waits: the kernel reaps our children, and of one that has ended nobody can wait for the end.
            pidfd = os.pidfd_open(pid)
            try:
                _tell(sock, {"pid": pid}, pidfd)
            finally:
                os.close(pidfd)
            os.write(gate_in, b"x")
        finally:
            os.close(gate_out)
            os.close(gate_in)


def _tell(sock: socket.socket, answer: wire.Message, *fds: int) -> None:
    """Answer a request; nobody may wait for it any longer."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        wire.send(sock, answer, fds)


def _release(
    pid: int, control: socket.socket, gate: int, *, ids: dict[str, Any] | None, is_born: bool, shift: int | None
) -> None:
    """Give the child its ids, if they are its own, and let it go on; it ends if this fails, because its gate closes."""
    pidfd = os.pidfd_open(pid)
    try:
        if ids is not None:
            idmaps.write_maps(pid, ids)
        _tell(control, {"pid": pid, "is_born": is_born}, pidfd, *(() if shift is None else (shift,)))
        os.write(gate, b"x")
    except OSError:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        raise
    finally:
        os.close(pidfd)


def _clone(born: int | None) -> tuple[int, bool]:
    """Fork process 1, in its cgroup where it has one; whether it is there, which kernels and filters may refuse."""
    if born is not None:
        with contextlib.suppress(OSError):
            return sc.clone(NAMESPACES, cgroup_fd=born), True
    return sc.clone(NAMESPACES), False


def _clone_joined(born: int | None, namespaces: list[int]) -> tuple[int, bool]:
    """Fork process 1 in the user and network namespaces of another sandbox; raises `OSError`.

    A child goes in first, because there is no way back, and forks on as if we had: process 1 is our own child. That
    child is born in the cgroup, which what it forks inherits: from inside it may not move there any more.
    """
    joined = sc.CLONE_NEWUSER | sc.CLONE_NEWNET
    heard, told = os.pipe()
    try:
        between = sc.clone(cgroup_fd=born)
        if between == 0:
            return _fork_on(namespaces, told=told, flags=(NAMESPACES & ~joined) | sc.CLONE_PARENT), True
        os.close(told)
        told = -1
        answer = os.read(heard, ANSWER_BYTES)
    finally:
        os.close(heard)
        if told >= 0:
            os.close(told)
    code, _, pid = answer.decode().partition(" ")
    if not pid:
        raise OSError(errno.ECHILD, "the process that joins namespaces has ended")
    if code != "0":
        raise OSError(int(code), f"joining namespaces: {os.strerror(int(code))}")
    return int(pid), born is not None


def _fork_on(namespaces: list[int], *, told: int, flags: int) -> int:
    """Enter the namespaces and fork; 0 in process 1. Tells the fork server its number, or why there is none."""
    try:
        for fd, kind in zip(namespaces, (sc.CLONE_NEWUSER, sc.CLONE_NEWNET), strict=True):
            sc.setns(fd, kind)
        pid = sc.clone(flags)
    except OSError as error:
        os.write(told, f"{error.errno} -".encode())
        os._exit(1)
    if pid == 0:
        return 0
    os.write(told, f"0 {pid}".encode())
    os._exit(0)


def namespace_with(ids: dict[str, Any]) -> int:
    """A user namespace that has the id map and no process: only a mount refers to it."""
    gate_out, gate_in = os.pipe()
    pid = sc.clone(sc.CLONE_NEWUSER)
    if pid == 0:
        os.close(gate_in)
        os.read(gate_out, 1)
        os._exit(0)
    try:
        idmaps.write_maps(pid, ids)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(gate_out)
        os.close(gate_in)
