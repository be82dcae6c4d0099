"""The fork server: one small single-threaded process that makes every sandbox of a harness.

Its only input is a SEQPACKET socket. When the socket closes, because the harness is gone however it went, it ends;
each sandbox it made ends with it, and with its own control socket. A request brings the socket for its answer: for a
new sandbox that is the control socket, which its process 1 goes on with.
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
                    self._start(request.message["plan"], sock, fds)
                else:
                    self._remove(request.message["path"], request.message["ids"], sock)
            except OSError as error:
                _tell(sock, {"errno": error.errno, "problem": str(error)})
            finally:
                for fd in fds:
                    os.close(fd)

    def _start(self, plan: dict[str, Any], control: socket.socket, fds: list[int]) -> None:
        # Assembled once and kept: process 1 inherits it.
        seccomp.assemble(watches_owners=plan["records_owners"])
        gate_out, gate_in = os.pipe()
        trees: list[int] = []
        try:
            lowers = self._lowers(plan, fds, trees)
            self._lend_disk(plan, trees)
            self._lend_changes(plan, trees)
            pid = _clone_joined(plan, fds) if plan["join_fds"] else _clone(plan, fds)
            if pid == 0:
                first.begin(plan, control=control, gate=gate_out, fds=fds, lowers=lowers)
            _release(pid, plan, control, gate_in)
        finally:
            for fd in (gate_out, gate_in, *trees):
                os.close(fd)

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

    def _lowers(self, plan: dict[str, Any], fds: list[int], trees: list[int]) -> list[list[int | str]]:
        """Each lower as the child takes it: a detached mount, shifted to the sandbox's ids where we may, or a path.

        One group per volume, then one per folder that is mounted.
        """
        groups: list[list[int | str]] = []
        for volume in plan["volumes"]:
            group: list[int | str] = []
            for lower in volume["lowers"]:
                if "fd" in lower:
                    group.append(fds[lower["fd"]])
                    continue
                tree = self._shifted(lower["path"], plan["ids"])
                if tree is not None:
                    trees.append(tree)
                group.append(lower["path"] if tree is None else tree)
            groups.append(group)
        for mount in plan["mounts"]:
            tree = self._shifted(mount["path"], plan["ids"])
            if tree is not None:
                trees.append(tree)
            groups.append([mount["path"] if tree is None else tree])
        return groups

    def _lend_disk(self, plan: dict[str, Any], trees: list[int]) -> None:
        """Open the folder of the host that the sandbox may write to as a mount with the sandbox's ids, where we may."""
        if plan.get("disk") is None:
            return
        tree = self._shifted(plan["disk"]["path"], plan["ids"], is_writable=True)
        trees += [] if tree is None else [tree]
        plan["disk"]["fd"] = tree
        for mount in plan["step_mounts"]:
            mount["fd"] = None
            if mount["path"] is not None:
                mount["fd"] = self._shifted(mount["path"], plan["ids"], is_writable=mount["is_writable"])
                trees += [] if mount["fd"] is None else [mount["fd"]]

    def _lend_changes(self, plan: dict[str, Any], trees: list[int]) -> None:
        """Open the folder of the sandbox's changes as root; its owner cannot come to it, an ordinary user can.

        Owners are not shifted: on the disk of the host no file of a sandbox belongs to the host's root.
        """
        if plan["changes"] is None:
            return
        plan["changes"]["fd"] = None
        if plan["ids"]["shift"]:
            tree = sc.open_tree(plan["changes"]["path"])
            trees.append(tree)
            sc.set_mount_attributes(tree, sc.MOUNT_ATTR_NOSUID | sc.MOUNT_ATTR_NODEV)
            plan["changes"]["fd"] = tree

    def _shifted(self, path: str, ids: dict[str, Any], *, is_writable: bool = False) -> int | None:
        if not ids["shift"]:
            return None
        key = repr((ids["uid"], ids["gid"]))
        if key not in self.map_namespaces:
            self.map_namespaces[key] = namespace_with(ids)
        tree = shifted_mount(path, self.map_namespaces[key], is_writable=is_writable)
        # Its owners are nobody's then; by its path the sandbox's root might not even come to it.
        return _plain_mount(path) if tree is None and not is_writable else tree


def _tell(sock: socket.socket, answer: wire.Message, *fds: int) -> None:
    """Answer a request; nobody may wait for it any longer."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        wire.send(sock, answer, fds)


def _release(pid: int, plan: dict[str, Any], control: socket.socket, gate: int) -> None:
    """Give the child its ids and let it go on; it ends if this fails, because its gate closes."""
    pidfd = os.pidfd_open(pid)
    try:
        if not plan["join_fds"]:
            idmaps.write_maps(pid, plan["ids"])
        _tell(control, {"pid": pid}, pidfd)
        os.write(gate, b"x")
    except OSError:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        raise
    finally:
        os.close(pidfd)


def _clone(plan: dict[str, Any], fds: list[int]) -> int:
    """Fork process 1, in its cgroup where it has one; a kernel or filter that refuses that is told in the plan."""
    if plan["born_fds"]:
        try:
            return sc.clone(NAMESPACES, cgroup_fd=fds[plan["born_fds"][0]])
        except OSError:
            plan["born_fds"] = plan["freezer_fds"] = []
    return sc.clone(NAMESPACES)


def _clone_joined(plan: dict[str, Any], fds: list[int]) -> int:
    """Fork process 1 in the user and network namespaces of another sandbox; raises `OSError`.

    A child goes in first, because there is no way back, and forks on as if we had: process 1 is our own child. That
    child is born in the cgroup, which what it forks inherits: from inside it may not move there any more.
    """
    joined = sc.CLONE_NEWUSER | sc.CLONE_NEWNET
    heard, told = os.pipe()
    try:
        between = sc.clone(cgroup_fd=fds[plan["born_fds"][0]] if plan["born_fds"] else None)
        if between == 0:
            return _fork_on(plan, fds, told=told, flags=(NAMESPACES & ~joined) | sc.CLONE_PARENT)
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
    return int(pid)


def _fork_on(plan: dict[str, Any], fds: list[int], *, told: int, flags: int) -> int:
    """Enter the namespaces and fork; 0 in process 1. Tells the fork server its number, or why there is none."""
    try:
        for at, kind in zip(plan["join_fds"], (sc.CLONE_NEWUSER, sc.CLONE_NEWNET), strict=True):
            sc.setns(fds[at], kind)
        pid = sc.clone(flags)
    except OSError as error:
        os.write(told, f"{error.errno} -".encode())
        os._exit(1)
    if pid == 0:
        return 0
    os.write(told, f"0 {pid}".encode())
    os._exit(0)


def shifted_mount(path: str, userns_fd: int, *, is_writable: bool = False) -> int | None:
    """A detached mount of `path` with the namespace's ids as owners, or None where its file system cannot."""
    tree = sc.open_tree(path)
    attributes = sc.MOUNT_ATTR_IDMAP | sc.MOUNT_ATTR_NOSUID | sc.MOUNT_ATTR_NODEV
    if not is_writable:
        attributes |= sc.MOUNT_ATTR_RDONLY
    try:
        sc.set_mount_attributes(tree, attributes, userns_fd=userns_fd)
    except OSError as error:
        os.close(tree)
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        raise
    return tree


def _plain_mount(path: str) -> int:
    """A detached mount of `path`, read-only, with the owners that it has."""
    tree = sc.open_tree(path)
    sc.set_mount_attributes(tree, sc.MOUNT_ATTR_RDONLY | sc.MOUNT_ATTR_NOSUID | sc.MOUNT_ATTR_NODEV)
    return tree


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
