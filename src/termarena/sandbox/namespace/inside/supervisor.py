"""What process 1 of a sandbox does: it starts commands and answers about files until told to end.

One thread, one loop. It stays outside the sandbox's cgroups, so that the sandbox's own excess never kills it, and it
ends when its control socket closes, which ends every process of the sandbox.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time
from typing import Any, Final, NoReturn

from . import children, files, freezing, jobs, mounts, owners, registrar, room, wire
from . import syscalls as sc

WATCH_INTERVAL_S: Final = 0.05
CONNECT_TIMEOUT_S: Final = 5.0
MOST_SHARED: Final = 64
"""Layers that a fork can have as they are; a message has room for three times as many descriptors."""


class Supervisor:
    """The loop of process 1 and what it knows: running commands, their deadlines, the volumes."""

    def __init__(
        self, plan: dict[str, Any], control: socket.socket, *, volumes: list[mounts.Volume], fds: list[int]
    ) -> None:
        """The plan says which of `fds` are the cgroups that commands join or are born in, and the way to freeze."""
        self.control = control
        self.volumes = volumes
        self.registrar = registrar.Registrar() if plan["records_owners"] else None
        self.launcher = children.Launcher(
            plan,
            registrar=self.registrar,
            cgroup_fds=[fds[at] for at in plan["cgroup_fds"]],
            born_fd=fds[plan["born_fds"][0]] if plan["born_fds"] else None,
        )
        if self.registrar is not None:
            self.registrar.launcher = self.launcher
        self.freezer: freezing.CgroupFreezer | freezing.SignalFreezer = freezing.SignalFreezer(self._jobs)
        if plan["freezer_fds"]:
            self.freezer = freezing.CgroupFreezer(*(fds[at] for at in plan["freezer_fds"]))
        self.running: dict[int, children.Running] = {}
        self.listeners: set[int] = set()
        self.watch_bytes: int | None = plan["watch_bytes"]
        self.next_watch: float | None = None
        self.watch_kills = 0
        self.disk: room.DiskWatch | None = None
        if plan["changes"] is not None:
            # The disk limit refuses writing as a limit on the size of files does, and that must not end a shell.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            roots = [volume.upper_fd for volume in volumes]
            self.disk = room.DiskWatch(plan["changes"], roots, launcher=self.launcher, spared=self._jobs)
        wall = plan["wall_s"]
        self.wall_deadline = None if wall is None else time.monotonic() + wall
        self.is_sealed = False
        self.user: str = plan["user"]
        self.shares_folders = any(mount["tree"] is not None and not mount["is_file"] for mount in plan["step_mounts"])

    def run(self) -> None:
        """Serve until the control socket ends."""
        waker, wake_fd = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for sock in (waker, wake_fd):
            sock.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_fd.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(waker, select.POLLIN)
        if self.registrar is not None:
            poll.register(self.registrar, select.POLLIN)
        # The first command is on its way: whom it runs as is looked up meanwhile.
        with contextlib.suppress(LookupError, OSError):
            files.find_user(self.user)
        while True:
            ready = dict(poll.poll(self._pause_ms()))
            self._answer_calls(poll, ready)
            if waker.fileno() in ready:
                waker.recv(4096)
                self._reap()
            if self.control.fileno() in ready and not self._serve():
                return
            self._meet_deadlines()

    def _answer_calls(self, poll: select.poll, ready: dict[int, int]) -> None:
        """What the filters of commands leave to the registrar; a filter that no process has any more is closed."""
        if self.registrar is None:
            return
        for fd in self.listeners & ready.keys():
            if ready[fd] & select.POLLIN:
                self.registrar.serve(fd)
            else:
                poll.unregister(fd)
                self.listeners.remove(fd)
                os.close(fd)
        if self.registrar.fileno() in ready:
            for fd in self.registrar.accept():
                self.listeners.add(fd)
                poll.register(fd, select.POLLIN)

    def _serve(self) -> bool:
        request = wire.receive(self.control)
        if request is None:
            return False
        try:
            self._refuse_if_cut_or_sealed(request.message)
            getattr(self, f"_do_{request.message['op']}")(request.message, request.fds)
        except OSError as error:
            self._reply(request.message, {"errno": error.errno, "problem": error.strerror, "path": error.filename})
        except LookupError as error:
            self._reply(request.message, {"errno": None, "problem": error.args[0], "unknown": True})
        finally:
            for fd in request.fds:
                os.close(fd)
        return True

    def _refuse_if_cut_or_sealed(self, request: wire.Message) -> None:
        if "problem" in request:
            raise OSError(request["errno"], request["problem"])
        if self.is_sealed and request["op"] in ("exec", "pty"):
            raise OSError(errno.EPERM, "the sandbox has been sealed")

    def _reply(self, request: wire.Message, answer: wire.Message, fds: tuple[int, ...] = ()) -> None:
        wire.send(self.control, {"re": request["id"], **answer}, fds)

    # The requests.

    def _do_exec(self, request: wire.Message, fds: list[int]) -> None:
        command = children.Command(request)
        self._track(self.launcher.start(command, stdio=(fds[0], fds[1], fds[2])))

    def _do_pty(self, request: wire.Message, _: list[int]) -> None:
        command = children.Command(request)
        master, slave = children.open_terminal(request["cols"], request["rows"])
        try:
            owners.give(slave, command.identity.uid, -1)
            running = self.launcher.start(command, stdio=(slave, slave, slave), has_terminal=True)
            self._track(running)
            wire.send(self.control, {"opened": request["id"], "pid": running.pid}, (master,))
        finally:
            os.close(master)
            os.close(slave)

    def _do_job(self, request: wire.Message, fds: list[int]) -> None:
        request["limit_bytes"] = None if self.disk is None else self.disk.limit_bytes
        if self.registrar is not None:
            self.registrar.settle()
        if jobs.is_done_at_once(request, fds, volumes=self.volumes, shares_folders=self.shares_folders):
            self._reply(request, {})
        else:
            self._track(jobs.start(request, fds, volumes=self.volumes))

    def _do_kill(self, request: wire.Message, _: list[int]) -> None:
        for running in self.running.values():
            if running.exec_id == request["exec"]:
                running.deadline = None
                children.kill_exec(running.exec_id)
        self._reply(request, {})

    def _do_kill_all(self, request: wire.Message, _: list[int]) -> None:
        self._reply(request, {"count": self._end_all()})

    def _end_all(self) -> int:
        """End everything; what was frozen ends as it is."""
        count = children.kill_everything()
        self.freezer.thaw()
        self._reap()
        return count

    def _do_freeze(self, request: wire.Message, _: list[int]) -> None:
        is_held = self.freezer.freeze()
        if not is_held:
            self.freezer.thaw()
        self._reply(request, {"is_held": is_held})

    def _do_thaw(self, request: wire.Message, _: list[int]) -> None:
        self.freezer.thaw()
        self._reply(request, {})

    def _jobs(self) -> set[int]:
        return {running.pid for running in self.running.values() if running.is_job}

    def _do_usage(self, request: wire.Message, _: list[int]) -> None:
        if self.disk is not None:
            self.disk.look_now()
        self._reply(
            request,
            {
                "disk": tuple(os.fstatvfs(self.volumes[0].upper_fd)),
                "on_disk": None if self.disk is None else self.disk.describe(),
                "watch_kills": self.watch_kills,
            },
        )

    def _do_processes(self, request: wire.Message, _: list[int]) -> None:
        self._reap()
        self._reply(request, {"processes": children.describe_processes(self.registrar)})

    def _do_open(self, request: wire.Message, _: list[int]) -> None:
        if self.disk is not None and request["access"] == "write":
            self.disk.give(request["size_bytes"])
        fd = files.open_for(request)
        try:
            self._reply(request, {"size": os.fstat(fd).st_size}, (fd,))
        finally:
            os.close(fd)

    def _do_nothing(self, request: wire.Message, _: list[int]) -> None:
        """An answer means that all before it is done, closing included."""
        self._reply(request, {})

    def _do_listen(self, request: wire.Message, _: list[int]) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", request["port"]))
            listener.listen(256)
            self._reply(request, {"port": listener.getsockname()[1]}, (listener.fileno(),))

    def _do_connect(self, request: wire.Message, _: list[int]) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(CONNECT_TIMEOUT_S)
            connection.connect((request["address"], request["port"]))
            connection.settimeout(0)
            self._reply(request, {}, (connection.fileno(),))

    def _do_seal(self, request: wire.Message, _: list[int]) -> None:
        count = self._end_all()
        self.is_sealed = True
        self._reply(request, {"count": count})

    def _do_share(self, request: wire.Message, _: list[int]) -> None:
        """Fresh detached mounts of all layers: attaching one uses it up."""
        if sum(len(volume.tree_fds) for volume in self.volumes) > MOST_SHARED:
            raise OSError(errno.E2BIG, "too many layers")
        copies = [sc.open_tree("", dir_fd=fd) for volume in self.volumes for fd in volume.tree_fds]
        try:
            self._reply(request, {"volumes": len(self.volumes)}, tuple(copies))
        finally:
            for fd in copies:
                os.close(fd)

    def _do_namespaces(self, request: wire.Message, _: list[int]) -> None:
        """Those that other sandboxes may join, the user namespace first."""
        opened = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net")]
        try:
            self._reply(request, {}, tuple(opened))
        finally:
            for fd in opened:
                os.close(fd)

    def _do_tree(self, request: wire.Message, _: list[int]) -> None:
        """What is mounted at a path, or lies in it, for another sandbox to mount."""
        fd = sc.open_tree(request["path"])
        self.shares_folders = True
        try:
            self._reply(request, {}, (fd,))
        finally:
            os.close(fd)

    # Time.

    def _track(self, running: children.Running) -> None:
        running.watch_kills_before = self.watch_kills
        self.running[running.pid] = running
        if self.watch_bytes is not None and self.next_watch is None:
            self.next_watch = time.monotonic() + WATCH_INTERVAL_S
        if self.disk is not None:
            self.disk.begin()

    def _pause_ms(self) -> float | None:
        moments = [running.deadline for running in self.running.values() if running.deadline is not None]
        next_look = None if self.disk is None else self.disk.next
        moments += [moment for moment in (self.wall_deadline, self.next_watch, next_look) if moment is not None]
        return max(0.0, (min(moments) - time.monotonic()) * 1000 + 1) if moments else None

    def _meet_deadlines(self) -> None:
        now = time.monotonic()
        for running in list(self.running.values()):
            if running.deadline is not None and running.deadline <= now:
                running.expire(now)
        if self.wall_deadline is not None and self.wall_deadline <= now:
            self._end("its wall time limit was reached")
        if self.disk is not None and self.disk.next is not None and self.disk.next <= now:
            self._watch_disk(self.disk, now)
        if self.next_watch is not None and self.watch_bytes is not None and self.next_watch <= now:
            killed = children.kill_largest_above(self.watch_bytes)
            self.watch_kills += killed
            self.next_watch = now + WATCH_INTERVAL_S if children.all_pids() else None

    def _watch_disk(self, disk: room.DiskWatch, now: float) -> None:
        if disk.go_on(now) == "short":
            whose = "it has written more than its limit and " if disk.is_full else ""
            self._end(f"{whose}the disk of this machine is nearly full", disk.describe())

    def _end(self, why: str, on_disk: dict[str, Any] | None = None) -> NoReturn:
        wire.send(self.control, {"ended": why, "on_disk": on_disk})
        os._exit(0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            running = self.running.pop(pid, None)
            if running is None:
                continue
            if running.timed_out:
                children.kill_exec(running.exec_id)
            wire.send(
                self.control,
                {
                    "re": running.exec_id,
                    "status": status,
                    "timed_out": running.timed_out,
                    "watch_kills": self.watch_kills - running.watch_kills_before,
                },
            )
