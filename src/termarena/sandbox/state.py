"""The folder in which sandboxes leave their traces, so that another process can list and sweep them.

    <home>/sandboxes/<id>/lock         locked as long as the sandbox's process 1 lives; says who made it, which
                                       cgroups are to be removed, and whether it only waits to be a sandbox
    <home>/layers/<id>/lock            locked as long as a sandbox lives whose files lie there, or a fork of it
    <home>/staged/<what>-<id>/lock     locked as long as the harness lives that stages files there
    <home>/rootfs/…                    unpacked and synthesised root file systems
    <home>/rootfs/host-<key>.lock      locked as long as a driver may start sandboxes on that root

A free lock is proof of death, whatever ended the harness.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import shutil
import stat
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.sandbox.contract import SandboxRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "BUSY_S",
    "LOCK",
    "SANDBOXES",
    "Trace",
    "abandoned",
    "about_now",
    "claim",
    "default_home",
    "held_alone",
    "list_traces",
    "remove_cgroups",
    "remove_tree",
    "sweep_dead",
]

SANDBOXES = "sandboxes"
LOCK = "lock"
BUSY_S = 1.0
"""How long a dead sandbox's last process may take to leave; one that takes longer is left to the next sweep."""
BUSY_AGAIN_S = 0.002
UNFINISHED_AFTER_S = 60.0
"""A trace that is still being made after this time never will be."""


def default_home() -> Path:
    """`TERMARENA_HOME`, else the user's cache folder; nothing is created."""
    if configured := os.environ.get("TERMARENA_HOME"):
        return Path(configured)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "termarena"


def about_now(**more: object) -> dict[str, object]:
    """What is written down about something that this process makes now."""
    return {"started_at": datetime.now(UTC).isoformat(timespec="seconds"), "harness_pid": os.getpid(), **more}


def claim(folder: Path, about: Mapping[str, object], *, is_shared: bool = False) -> int:
    """Make a folder that counts as alive while the returned descriptor, or a copy of it, is open. Raises `OSError`.

    Where it `is_shared`, others may lock it too, and it is alive as long as any of them has it locked.
    """
    # It gets its name when it is complete and locked: a sweep in between would take it for a dead one's.
    fresh = folder.with_name(f".{folder.name}")
    try:
        fresh.mkdir(0o700)
    except FileNotFoundError:
        fresh.mkdir(0o700, parents=True)
    lock_fd = -1
    try:
        lock_fd = os.open(fresh / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock_fd, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        os.write(lock_fd, json.dumps(about).encode())
        fresh.rename(folder)
    except BaseException:
        if lock_fd >= 0:
            os.close(lock_fd)
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return lock_fd


class Trace:
    """The trace of one sandbox; `lock_fd` is to be handed to its process 1 and then closed."""

    def __init__(self, home: Path, sandbox_id: str, *, cgroups: tuple[Path, ...]) -> None:
        """Creates the folder and takes the lock, for a sandbox that is none yet: `describe` makes it one to others.

        Raises `OSError` where the home is not writable.
        """
        self.folder = home / SANDBOXES / sandbox_id
        self._cgroups = [str(path) for path in cgroups]
        self.lock_fd = claim(self.folder, about_now(cgroups=self._cgroups, is_waiting=True))

    def describe(self, *, root: str, changes: str) -> None:
        """Say what the sandbox is, and where its changes are kept. Raises `OSError`."""
        about = about_now(root=root, cgroups=self._cgroups, changes=changes)
        # In one write and at least as long as what was there: nobody reads the half of it.
        text = json.dumps(about).encode()
        fd = os.open(self.folder / LOCK, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            os.write(fd, text.ljust(size))
        finally:
            os.close(fd)

    def release(self) -> None:
        """Close our copy of the lock; the sandbox's process 1 keeps it locked while it lives."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1

    def remove(self) -> None:
        """Remove the folder; the sandbox has ended."""
        self.release()
        with contextlib.suppress(OSError):
            (self.folder / LOCK).unlink(missing_ok=True)
            self.folder.rmdir()


@contextmanager
def held_alone(folder: Path) -> Iterator[bool]:
    """Whether nobody else has a folder locked, and for the length of the block nobody comes to; one without a lock too.

    Raises `OSError` for a lock that cannot be opened.
    """
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _is_locked(folder: Path) -> bool:
    with held_alone(folder) as is_alone:
        return not is_alone


def _about(folder: Path) -> dict[str, object]:
    try:
        found = json.loads((folder / LOCK).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _folders(parent: Path, *, unfinished: bool = False) -> list[Path]:
    """What was claimed; or that whose making began long ago and never ended. A file that strayed there is neither."""
    try:
        there = sorted(parent.iterdir())
    except FileNotFoundError:
        return []
    before_s = time.time() - UNFINISHED_AFTER_S if unfinished else math.inf
    return [path for path in there if path.name.startswith(".") == unfinished and _is_folder_of(path, before_s)]


def _is_folder_of(path: Path, before_s: float) -> bool:
    """Whether it is a folder that was last changed before then; one that vanishes meanwhile is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_mtime < before_s


def list_traces(parent: Path) -> tuple[SandboxRecord, ...]:
    """Every sandbox that left a trace below a folder, alive or not; what only waits to be one is left out."""
    records = []
    for folder in _folders(parent):
        about = _about(folder)
        if about.get("is_waiting") or (not about and not folder.exists()):  # the latter was removed meanwhile
            continue
        pid = about.get("harness_pid")
        records.append(
            SandboxRecord(
                id=folder.name,
                is_alive=_is_locked(folder),
                started_at=str(about.get("started_at", "")),
                harness_pid=pid if isinstance(pid, int) else 0,
                root=str(about.get("root", "")),
                changes=str(about.get("changes", "")),
            )
        )
    return tuple(records)


def remove_cgroups(paths: list[Path], *, patience_s: float = BUSY_S) -> bool:
    """Whether they are gone. A process lets go of its lock before it leaves its cgroup, so a busy one is given time."""
    give_up = time.monotonic() + patience_s
    for path in paths:
        while True:
            try:
                path.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    break
                if time.monotonic() >= give_up:
                    return False
                time.sleep(BUSY_AGAIN_S)
            else:
                break
    return True


def abandoned(parent: Path) -> list[Path]:
    """What was claimed below a folder and is alive no more, and what was never finished."""
    return [*(folder for folder in _folders(parent) if not _is_locked(folder)), *_folders(parent, unfinished=True)]


def remove_tree(folder: Path) -> None:
    """Remove a folder, those in it that were closed to their owner too; what cannot be removed is left to a sweep."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _open_up(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _open_up(folder: Path) -> None:
    """Open every folder to its owner before the walk comes to it, and none that a link leads to."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    for path, names, _ in os.walk(folder):
        for inner in (Path(path, name) for name in names):
            with contextlib.suppress(OSError):
                if not inner.is_symlink():
                    inner.chmod(0o700)


def sweep_dead(parent: Path) -> None:
    """Remove what was claimed below a folder and is alive no more, with its cgroups; what is still busy stays."""
    dead = [folder for folder in _folders(parent) if not _is_locked(folder)]
    for folder in dead:
        cgroups = _about(folder).get("cgroups")
        if remove_cgroups([Path(str(path)) for path in cgroups] if isinstance(cgroups, list) else []):
            remove_tree(folder)
    for folder in _folders(parent, unfinished=True):
        remove_tree(folder)
