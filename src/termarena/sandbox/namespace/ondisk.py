"""Where sandboxes keep their changes when those do not fit in memory: one folder each below the home.

    <home>/layers/<id>/lock   locked, shared, by every sandbox that lies on this layer: its own and all forks of it
    <home>/layers/<id>/fs/    what the sandbox changed, with its ids as owners

The last one that ends removes the folder; what killed harnesses left is swept.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, Literal

from termarena.core.errors import SandboxBroken, SandboxStartError
from termarena.sandbox.namespace.launcher import Launcher
from termarena.sandbox.namespace.probe import try_disk
from termarena.sandbox.state import LOCK, abandoned, about_now, claim, held_alone, list_traces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from termarena.sandbox.contract import SandboxRecord
    from termarena.sandbox.namespace.ids import IdMap
    from termarena.sandbox.spec import Limits

__all__ = ["Changes", "DiskLayers", "Keep", "fits_memory", "free_bytes", "hold", "memory_share", "reserve_of"]

Keep = Literal["auto", "memory", "disk"]
FOLDER: Final = "layers"
CHANGES: Final = "fs"
MOST_RESERVE_BYTES: Final = 2 << 30
RESERVE_PART: Final = 20
FILES_PART: Final = 50
REMOVERS: Final = 2
"""How many layers are removed at once."""


def memory_share(limits: Limits) -> int:
    """As much as files may take of the memory: a full disk must be met before the memory limit kills."""
    return min(limits.disk_bytes, limits.memory_bytes * 3 // 4)


def fits_memory(limits: Limits) -> bool:
    """Whether all that a sandbox may write can be kept in its memory."""
    return memory_share(limits) == limits.disk_bytes


def reserve_of(folder: Path) -> int:
    """What is to be left free on a folder's file system: a twentieth of it, and no more than 2 GiB."""
    found = os.statvfs(folder)
    return min(MOST_RESERVE_BYTES, found.f_blocks * found.f_frsize // RESERVE_PART)


def files_reserve_of(folder: Path) -> int:
    """How many files are to stay possible on a folder's file system: one in fifty; none where it has no such bound."""
    return os.statvfs(folder).f_files // FILES_PART


def free_bytes(folder: Path) -> int:
    """What the reserve leaves of a folder's file system."""
    found = os.statvfs(folder)
    return max(0, found.f_bavail * found.f_frsize - reserve_of(folder))


def hold(layer: Path) -> int:
    """A descriptor that keeps a layer while it, or a copy, is open; raises `SandboxBroken` for one that is going."""
    try:
        fd = os.open(layer / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SandboxBroken(layer.name, "its files have been removed") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if (layer / LOCK).stat().st_ino == os.fstat(fd).st_ino:
            return fd
    except OSError:
        pass
    os.close(fd)
    raise SandboxBroken(layer.name, "its files are being removed")


class Changes:
    """The folder of one sandbox's changes; `lock_fd` goes to its process 1 and is then closed."""

    def __init__(self, layer: Path, lock_fd: int) -> None:
        """Of a folder that was just made."""
        self.layer = layer
        self.lock_fd = lock_fd

    def as_plan(self, limits: Limits) -> dict[str, object]:
        """The form in which process 1 takes it."""
        return {
            "path": str(self.layer / CHANGES),
            "limit_bytes": limits.disk_bytes,
            "reserve_bytes": reserve_of(self.layer),
            "reserve_files": files_reserve_of(self.layer),
        }

    def release(self) -> None:
        """Close our copy of the lock."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1


class DiskLayers:
    """All such folders of one home, for one driver."""

    def __init__(self, home: Path, launcher: Launcher, ids: Callable[[], IdMap], *, keep: Keep) -> None:
        """Creates nothing yet; `keep` is where changes go, `auto` for memory as long as they fit."""
        self._folder = home / FOLDER
        self._launcher = launcher
        self._ids = ids
        self._keep = keep
        self._trying = threading.Lock()
        self.problem: str | None = None
        """Why the home cannot keep changes: empty if it can, None as long as nobody has asked."""
        self.notice = ""
        """Why changes that do not fit in memory were left there all the same."""
        self.left: set[Path] = set()
        """What could not be removed."""
        self._remover = ThreadPoolExecutor(REMOVERS, thread_name_prefix="termarena-layers")
        self._going: set[Future[None]] = set()

    async def wants(self, limits: Limits) -> bool:
        """Whether a sandbox with these limits is to keep its changes on disk, found out once by trying."""
        if self._keep == "memory" or (self._keep == "auto" and fits_memory(limits)):
            return False
        if self.problem is None:
            await asyncio.to_thread(self._try)
        if self.problem:
            return False
        if self._is_short(limits):
            await asyncio.to_thread(self.settle)
        is_short = self._is_short(limits)
        self.notice = f"the disk of {self._folder} has too little room" if is_short else ""
        return not is_short

    def _is_short(self, limits: Limits) -> bool:
        has_few_files = os.statvfs(self._folder).f_favail < files_reserve_of(self._folder)
        return has_few_files or free_bytes(self._folder) < memory_share(limits)

    def _try(self) -> None:
        with self._trying:
            if self.problem is None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.problem = self.notice = try_disk(self._folder)

    def make(self, sandbox_id: str) -> Changes:
        """A folder for the changes of a new sandbox; raises `OSError`."""
        layer = self._folder / sandbox_id
        changes = Changes(layer, claim(layer, about_now(changes="disk"), is_shared=True))
        (layer / CHANGES).mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(layer / CHANGES, *self._ids().root)
        return changes

    def drop(self, layers: Sequence[Path]) -> None:
        """Have those layers removed that nobody lies on any more; the others are left to whoever does.

        Whoever ends a sandbox need not wait for that: `settle` does.
        """
        for layer in layers:
            with contextlib.ExitStack() as lock:
                if lock.enter_context(held_alone(layer)) and layer.exists():
                    going = self._remover.submit(self._remove, layer, lock.pop_all())
                    self._going.add(going)
                    going.add_done_callback(self._going.discard)

    def settle(self) -> None:
        """Block until all that was dropped is gone; what cannot be removed is told in `left`, and stays for a sweep."""
        wait(tuple(self._going))

    def _remove(self, layer: Path, lock: contextlib.ExitStack) -> None:
        with lock:
            try:
                if not self._remove_with(self._launcher, layer):
                    self._remove_apart([layer])
            except OSError:
                self.left.add(layer)

    def _remove_apart(self, layers: Sequence[Path]) -> None:
        """Remove with a fork server of its own."""
        server = Launcher()
        try:
            server.ensure()
            for layer in layers:
                self._remove_with(server, layer)
        except SandboxStartError:
            self.left.update(layers)
        finally:
            server.close()

    def _remove_with(self, server: Launcher, layer: Path) -> bool:
        """Whether it is gone: a fork server that is closed meanwhile takes with it who removes."""
        try:
            removing = server.remove(layer / CHANGES, self._ids().as_plan())
        except SandboxStartError:
            self.left.add(layer)
            return False
        try:
            poll = select.poll()
            poll.register(removing, select.POLLIN)
            poll.poll()
        finally:
            os.close(removing)
        try:
            return self._finish(layer)
        except OSError:
            self.left.add(layer)
            return False

    def _finish(self, layer: Path) -> bool:
        """Remove what is left of a layer whose changes have been removed; False where they are still there."""
        if os.path.lexists(layer / CHANGES):
            self.left.add(layer)
            return False
        (layer / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            layer.rmdir()
        self.left.discard(layer)
        return True

    def sweep(self) -> None:
        """Remove what killed harnesses left."""
        with contextlib.ExitStack() as stack:
            dead = [layer for layer in abandoned(self._folder) if stack.enter_context(held_alone(layer))]
            if dead:
                self._remove_apart(dead)

    def list(self) -> tuple[SandboxRecord, ...]:
        """The sandboxes whose files lie there although nobody needs them any more."""
        return tuple(record for record in list_traces(self._folder) if not record.is_alive)
