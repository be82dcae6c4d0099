"""Places for sandboxes: a name, a trace, cgroups, and a process 1 that waits to hear what it is to be.

Whoever starts sandboxes one after the other need not wait for all of that: the place of the next one is made while the
last one works. What is left of its start is the root file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import select
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import SandboxStartError
from termarena.sandbox.namespace.inside import wire
from termarena.sandbox.namespace.launcher import ANSWER_TIMEOUT_S, FULL_PAUSE_S
from termarena.sandbox.state import Trace

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from termarena.sandbox.namespace.cgroups import CgroupHost
    from termarena.sandbox.namespace.ids import IdMap
    from termarena.sandbox.namespace.launcher import Launched, Launcher

__all__ = ["Place", "Places"]

AHEAD_AFTER: Final = 2
"""Who has started so many sandboxes will start another one."""
FDS_AT_ONCE: Final = wire.MAX_FDS - 1
"""One is for a message that is too long for a packet."""
MOUNTS: Final = "/proc/self/mountinfo"
PAUSE_S: Final = 0.001
"""Between a start and the making of the next place: the caller goes first."""
END_TIMEOUT_S: Final = 10.0


class Place:
    """What belongs to a sandbox before it is one."""

    def __init__(self, home: Path, host: CgroupHost) -> None:
        """Claims a name and leaves its trace; raises `OSError`."""
        self.sandbox_id = f"ta-{secrets.token_hex(6)}"
        self.cgroup = host.plan(f"termarena-{self.sandbox_id}")
        # The trace comes first: a kill between the two must not leave cgroups that nobody knows of.
        self.trace = Trace(home, self.sandbox_id, cgroups=() if self.cgroup is None else self.cgroup.every_folder)
        self.control: socket.socket | None = None
        self.launched: Launched | None = None
        self._is_answered = False
        """Whether nothing more is to be heard from the fork server."""
        self._mounts_fd: int | None = None
        self.ways: dict[str, list[int]] = {}
        """Descriptors of the cgroups, by what process 1 does with them."""

    def make(self, launcher: Launcher, ids: IdMap, joined: Sequence[int]) -> bool:
        """Make the cgroups and ask for a process 1; False where there is no room for that now.

        Raises `OSError` for a cgroup that cannot be made, `SandboxStartError`.
        """
        born: list[int] = []
        if ids.kind != "shifted" and self._mounts_fd is None:
            self._mounts_fd = os.open(MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        if self.cgroup is not None:
            if not self.ways:
                self.cgroup.make_born(owner=ids.root if os.geteuid() == 0 else None)
            born = self.cgroup.open_born()
        try:
            request = {"op": "start", "ids": ids.as_plan(), "is_born": bool(born)}
            self.control = launcher.try_asking(request, (self.trace.lock_fd, *born, *joined))
        finally:
            for fd in born:
                os.close(fd)
        if self.cgroup is not None and not self.ways:
            # While the fork server works.
            self.cgroup.make_joined()
            self.ways["cgroup_fds"] = self.cgroup.open_procs()
            self.ways["born_fds"] = self.cgroup.open_inner()
            self.ways["freezer_fds"] = self.cgroup.open_freezer()
        if self.control is None:
            return False
        self.trace.release()
        return True

    async def come(self, launcher: Launcher) -> bool:
        """Wait for the fork server's answer; whether its process 1 lives. Raises `SandboxStartError`."""
        assert self.control is not None  # noqa: S101 - `make` asked for it
        try:
            await launcher.until_answered(self.control)
        except SandboxStartError:
            self._is_answered = True
            raise
        self._is_answered = True
        launched = self.launched = launcher.answer(self.control)
        if self.cgroup is not None and self.cgroup.born is not None and not launched.is_born:
            self._close_ways("born_fds", "freezer_fds")
            self.cgroup.forget_born()
        return not _is_ready(launched.pidfd, 0)

    def is_stale(self) -> bool:
        """Whether its process 1, which will open paths of the host, may have other mounts below them than the host."""
        return self._mounts_fd is not None and _is_ready(self._mounts_fd, 0, events=select.POLLPRI)

    async def tell(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        """Tell process 1 what it is to be; one that has ended has said why. Raises `OSError`, `SandboxStartError`."""
        assert self.control is not None  # noqa: S101 - as above
        last = max(0, len(fds) - 1) // FDS_AT_ONCE * FDS_AT_ONCE
        parts = [({"more": True}, fds[at : at + FDS_AT_ONCE]) for at in range(0, last, FDS_AT_ONCE)]
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                for part, with_it in (*parts, (message, fds[last:])):
                    while not _has_sent(self.control, part, tuple(with_it)):  # noqa: ASYNC110 - nothing tells when there is room
                        await asyncio.sleep(FULL_PAUSE_S)
        except TimeoutError as error:
            raise SandboxStartError("too many descriptors are on their way to sandboxes") from error

    def _close_ways(self, *names: str) -> None:
        for name in names or self.ways:
            for fd in self.ways[name]:
                os.close(fd)
            self.ways[name] = []

    def hand_over(self) -> tuple[socket.socket, Launched]:
        """What is the sandbox's from now on; the rest is closed."""
        assert self.control is not None  # noqa: S101 - as above
        assert self.launched is not None  # noqa: S101 - `come` waited for it
        self._close_sent()
        return self.control, self.launched

    def _close_sent(self) -> None:
        self._close_ways()
        if self._mounts_fd is not None:
            os.close(self._mounts_fd)
            self._mounts_fd = None
        if self.launched is not None and self.launched.shift_fd is not None:
            os.close(self.launched.shift_fd)
            self.launched.shift_fd = None

    def end(self, launcher: Launcher) -> None:
        """Nothing is left of it. Blocks until its process 1 has ended."""
        if self.control is not None:
            if not self._is_answered:
                with contextlib.suppress(SandboxStartError):
                    self.launched = launcher.answer(self.control)
            self.control.close()
        self._close_sent()
        if self.launched is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.launched.pidfd, signal.SIGKILL)
            _is_ready(self.launched.pidfd, END_TIMEOUT_S)
            os.close(self.launched.pidfd)
        if self.cgroup is None or self.cgroup.remove():
            self.trace.remove()
        self.trace.release()


class Places:
    """The places of one driver, of which one may be made ahead."""

    def __init__(
        self,
        home: Path,
        launcher: Launcher,
        *,
        find: Callable[[], tuple[CgroupHost, IdMap]],
        using_home: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Makes nothing yet; `using_home` tells what an `OSError` of the home means."""
        self._home = home
        self._launcher = launcher
        self._find = find
        self._using_home = using_home
        self._ahead: Place | None = None
        self._planned_in: asyncio.AbstractEventLoop | None = None
        """The event loop in which the next place will be made; one that has been closed will not."""
        self._under_way = 0
        self._taken = 0

    async def take(self, joined: Sequence[int] = ()) -> Place:
        """A place whose process 1 waits, in the namespaces of another sandbox if they are given.

        Raises `SandboxStartError`, and `OSError` for a cgroup that cannot be made.
        """
        self._taken += 1
        self._under_way += 1
        try:
            if not joined:
                place, self._ahead = self._ahead, None
                if place is not None and await self._is_usable(place):
                    return place
            return await self._made(joined)
        finally:
            self._under_way -= 1

    async def _is_usable(self, place: Place) -> bool:
        try:
            if await place.come(self._launcher) and not place.is_stale():
                return True
        except BaseException as error:
            await self._end(place)
            if isinstance(error, SandboxStartError):
                return False
            raise
        await self._end(place)
        return False

    async def _made(self, joined: Sequence[int]) -> Place:
        host, ids = self._find()
        with self._using_home():
            place = Place(self._home, host)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                while not place.make(self._launcher, ids, joined):  # noqa: ASYNC110 - nothing tells when there is room
                    await asyncio.sleep(FULL_PAUSE_S)
                await place.come(self._launcher)
        except BaseException as error:
            await self._end(place)
            if isinstance(error, TimeoutError):
                raise SandboxStartError("the fork server does not answer") from error
            raise
        return place

    async def _end(self, place: Place) -> None:
        await asyncio.shield(asyncio.to_thread(place.end, self._launcher))

    def look_ahead(self) -> None:
        """A sandbox has been started: make the place of the next one when its caller waits for something."""
        loop = asyncio.get_running_loop()
        if self._taken >= AHEAD_AFTER and self._ahead is None and self._planned_in is not loop:
            self._planned_in = loop
            loop.call_later(PAUSE_S, self._make_ahead)

    def _make_ahead(self) -> None:
        self._planned_in = None
        if self._ahead is not None or self._under_way or self._taken < AHEAD_AFTER:
            return
        host, ids = self._find()
        place = None
        # Whoever starts the next sandbox meets the same, and is told.
        with contextlib.suppress(OSError, SandboxStartError):
            place = Place(self._home, host)
            if place.make(self._launcher, ids, ()):
                self._ahead = place
        if place is not None and self._ahead is not place:
            threading.Thread(target=place.end, args=(self._launcher,), daemon=True).start()

    async def aclose(self) -> None:
        """End the place that was made ahead; the next one waits for starts again."""
        place, self._ahead = self._ahead, None
        self._taken = 0
        if place is not None:
            await self._end(place)


def _has_sent(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...]) -> bool:
    """False where there are too many descriptors on their way now, of which an ordinary user can have only so many."""
    try:
        wire.send(sock, message, fds)
    except OSError as error:
        if error.errno == errno.ETOOMANYREFS:
            return False
        if error.errno not in (errno.EPIPE, errno.ECONNRESET):
            raise
    return True


def _is_ready(fd: int, timeout_s: float, *, events: int = select.POLLIN) -> bool:
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(timeout_s * 1000))
