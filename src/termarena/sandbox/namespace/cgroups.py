"""Limits by cgroup, version 1 or 2: found by trying, made below the harness's own group so that its limits still hold.

Process 1 of a sandbox stays outside. Each command joins by writing to descriptors that the harness opened: the kernel
checks the permission of whoever opened them.

Beside the hierarchies of version 1 there is often an empty one of version 2. It counts processor time and freezes, also
what is then to be killed, which the freezer of version 1 cannot. Joining it by writing would cost 9 ms, so commands are
born in it: process 1 is in a group of its own and forks into one below, which is why both belong to the sandbox's root.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from termarena.sandbox.counters import UNIFIED, groups_in, hierarchies, read_usage
from termarena.sandbox.state import BUSY_S, remove_cgroups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.sandbox.contract import Usage
    from termarena.sandbox.spec import Limits

__all__ = ["Cgroup", "CgroupHost", "find_cgroups"]

CPU_PERIOD_US: Final = 100_000
CONTROLLERS: Final[tuple[str, ...]] = ("memory", "pids", "cpu")
HARNESS_LEAF: Final = "termarena-harness"
INNER: Final = "commands"
BORN_IN_KERNEL: Final = (5, 7)
"""Since when a process can be forked into a group."""
FREEZE, EVENTS, PROCS = "cgroup.freeze", "cgroup.events", "cgroup.procs"
KILLS: Final = b"\noom_kill "
COUNTERS_BYTES: Final = 4096
V2_REMEDY: Final = "start the harness with: systemd-run --user --scope -p Delegate=yes …"


@dataclass(slots=True)
class Cgroup:
    """The groups of one sandbox."""

    version: Literal[1, 2]
    groups: dict[str, Path]
    """Controller → folder."""
    born: Path | None = None
    """Version 1: the group of the unified hierarchy that holds process 1, and below it the one of the commands."""
    _kills_fd: int = -1
    """Where the memory limit's kills are counted: asked for before and after every command."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The groups that a command joins."""
        return tuple(dict.fromkeys(self.groups.values()))

    @property
    def frozen(self) -> Path | None:
        """The group that holds every command and can be frozen."""
        return self.born / INNER if self.born is not None else self.folders[0] if self.version == 2 else None  # noqa: PLR2004 - a version

    def usage(self) -> Usage:
        """What the groups have counted."""
        return read_usage(self.groups if self.frozen is None else {UNIFIED: self.frozen, **self.groups})

    def make_born(self, *, owner: tuple[int, int] | None) -> None:
        """Make the groups that process 1 and its commands are born in, if there are to be any; they are `owner`'s.

        Raises `OSError`.
        """
        if self.born is not None:
            for folder in (self.born, self.born / INNER):
                folder.mkdir()
                if owner is not None:
                    os.chown(folder / PROCS, *owner)

    def make_joined(self) -> None:
        """Make the groups that commands join. Raises `OSError`."""
        for folder in self.folders:
            folder.mkdir()

    def limit(self, limits: Limits) -> None:
        """Set the limits. Raises `OSError`."""
        for controller, folder in self.groups.items():
            _write_limits(folder, controller, limits, version=self.version)

    def open_procs(self) -> list[int]:
        """Descriptors of the files a process writes `0` to in order to join; the caller closes them."""
        # Moving the calling thread alone skips a lock whose taking costs 9 ms after a pause; version 2 has no such way.
        name = "tasks" if self.version == 1 else PROCS
        return _open_all((folder / name, os.O_WRONLY) for folder in self.folders)

    def open_born(self) -> list[int]:
        """The group of process 1, to be born in; none where there is none. The caller closes it."""
        return [] if self.born is None else _open_all([(self.born, os.O_RDONLY | os.O_DIRECTORY)])

    def open_inner(self) -> list[int]:
        """The group of the commands, to be born in; none where they join. The caller closes it."""
        return [] if self.born is None else _open_all([(self.born / INNER, os.O_RDONLY | os.O_DIRECTORY)])

    def open_freezer(self) -> list[int]:
        """What freezes, to write to, and what tells when it is done; empty where there is none. The caller closes."""
        if self.frozen is None or not (self.frozen / FREEZE).exists():
            return []
        return _open_all(((self.frozen / FREEZE, os.O_WRONLY), (self.frozen / EVENTS, os.O_RDONLY)))

    def oom_kills(self) -> int:
        """How many processes the memory limit has killed so far; 0 where memory is not limited, or no more."""
        if "memory" not in self.groups:
            return 0
        try:
            if self._kills_fd < 0:
                name = "memory.oom_control" if self.version == 1 else "memory.events"
                self._kills_fd = os.open(self.groups["memory"] / name, os.O_RDONLY | os.O_CLOEXEC)
            told = os.pread(self._kills_fd, COUNTERS_BYTES, 0)
        except OSError:
            return 0
        _, _, rest = told.partition(KILLS)
        return int(rest.split(None, 1)[0]) if rest else 0

    def remove(self, *, patience_s: float = BUSY_S) -> bool:
        """Remove the groups, and give a process that is leaving one a moment. Whether they are gone: else the sandbox's
        trace has to stay for the sweep."""
        if self._kills_fd >= 0:
            os.close(self._kills_fd)
            self._kills_fd = -1
        return remove_cgroups([*self.every_folder], patience_s=patience_s)

    def forget_born(self) -> None:
        """Nothing was born there after all: its counters would say that nothing ran."""
        if self.born is not None:
            for folder in (self.born / INNER, self.born):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            self.born = None

    @property
    def every_folder(self) -> tuple[Path, ...]:
        """All there is to remove, inner ones first."""
        return (*self.folders, *(() if self.born is None else (self.born / INNER, self.born)))


@dataclass(frozen=True, slots=True)
class CgroupHost:
    """Where groups can be made on this machine, or why not."""

    version: Literal[1, 2] | None
    parents: dict[str, Path] = field(default_factory=dict)
    """Controller → folder below which groups are made; one folder for all with version 2."""
    unified: Path | None = None
    """Version 1: the folder of the unified hierarchy below which groups can be made too."""
    problem: str = ""
    remedy: str = ""

    def has(self, controller: str) -> bool:
        """Whether this controller's limits can be set."""
        return controller in self.parents

    def plan(self, name: str) -> Cgroup | None:
        """The groups of one sandbox, not made yet; None where there are none."""
        if self.version is None:
            return None
        groups = {controller: parent / name for controller, parent in self.parents.items()}
        return Cgroup(self.version, groups, None if self.unified is None else self.unified / name)


def _open_all(files: Iterable[tuple[Path, int]]) -> list[int]:
    """All of them, or none."""
    opened: list[int] = []
    try:
        for path, flags in files:
            opened.append(os.open(path, flags | os.O_CLOEXEC))
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return opened


def _put(path: Path, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _put_if_there(path: Path, value: str) -> None:
    """For files that exist on some kernels only, such as those of swap accounting."""
    with contextlib.suppress(FileNotFoundError):
        _put(path, value)


def _write_limits(folder: Path, controller: str, limits: Limits, *, version: Literal[1, 2]) -> None:
    if controller == "pids":
        _put(folder / "pids.max", str(limits.pids))
    elif controller == "memory" and version == 1:
        _put(folder / "memory.limit_in_bytes", str(limits.memory_bytes))
        _put_if_there(folder / "memory.memsw.limit_in_bytes", str(limits.memory_bytes))
    elif controller == "memory":
        _put(folder / "memory.max", str(limits.memory_bytes))
        _put_if_there(folder / "memory.swap.max", "0")
    elif controller == "cpu" and limits.cpus is not None:
        quota = str(int(limits.cpus * CPU_PERIOD_US))
        if version == 1:
            _put(folder / "cpu.cfs_period_us", str(CPU_PERIOD_US))
            _put(folder / "cpu.cfs_quota_us", quota)
        else:
            _put(folder / "cpu.max", f"{quota} {CPU_PERIOD_US}")


def find_cgroups(
    *, mountinfo: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup"), prepare: bool = True
) -> CgroupHost:
    """Where groups can be made here, tried by making one.

    With version 2, `prepare` moves the calling process into a leaf of its group and switches the controllers on, as
    the kernel's rule against processes in inner groups asks for.
    """
    mounts = hierarchies(mountinfo)
    paths = groups_in(own)
    first = {name: mounts[name] / paths[name].lstrip("/") for name in CONTROLLERS if name in mounts and name in paths}
    usable = {name: folder for name, folder in first.items() if _can_create(folder)}
    if usable:
        return CgroupHost(1, usable, _unified(mounts, paths))
    if UNIFIED in mounts and UNIFIED in paths:
        second = _prepare_second(mounts[UNIFIED] / paths[UNIFIED].lstrip("/"), prepare=prepare)
        if second.version is not None or not first:
            return second
    if first:
        remedy = "without them memory is watched and processors are not limited; as root they are there"
        return CgroupHost(None, problem="the cgroup folders are not writable for this user", remedy=remedy)
    return CgroupHost(None, problem="no cgroup file system is mounted", remedy="mount cgroup2 on /sys/fs/cgroup")


def _unified(mounts: dict[str, Path], paths: dict[str, str]) -> Path | None:
    """The harness's own group in the unified hierarchy, if groups below it can be made and frozen (kernel 5.7)."""
    if UNIFIED not in mounts or UNIFIED not in paths:
        return None
    folder = mounts[UNIFIED] / paths[UNIFIED].lstrip("/")
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return folder if release >= BORN_IN_KERNEL and _can_create(folder) else None


def _can_create(folder: Path) -> bool:
    trial = folder / f"termarena-trial-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return False
    trial.rmdir()
    return True


def _prepare_second(folder: Path, *, prepare: bool) -> CgroupHost:
    if folder.name == HARNESS_LEAF:
        folder = folder.parent
    try:
        available = (folder / "cgroup.controllers").read_text().split()
    except OSError as error:
        return CgroupHost(None, problem=f"the harness's cgroup cannot be read: {error.strerror}", remedy=V2_REMEDY)
    wanted = [name for name in CONTROLLERS if name in available]
    if "memory" not in wanted:
        return CgroupHost(None, problem="the memory controller is not delegated to this user", remedy=V2_REMEDY)
    if not _can_create(folder):
        return CgroupHost(None, problem="the harness's cgroup is not writable for this user", remedy=V2_REMEDY)
    try:
        enabled = _enable(folder, wanted, prepare=prepare)
    except OSError as error:
        problem = f"the controllers cannot be switched on below {folder}: {error.strerror}"
        return CgroupHost(None, problem=problem, remedy=V2_REMEDY)
    return CgroupHost(2, dict.fromkeys(enabled, folder))


def _enable(folder: Path, wanted: list[str], *, prepare: bool) -> list[str]:
    """Switch the controllers on for the folder's children; a group with processes of its own refuses (EBUSY)."""
    control = folder / "cgroup.subtree_control"
    missing = [name for name in wanted if name not in control.read_text().split()]
    if missing and prepare:
        leaf = folder / HARNESS_LEAF
        leaf.mkdir(exist_ok=True)
        _put(leaf / PROCS, str(os.getpid()))
        _put(control, " ".join(f"+{name}" for name in missing))
    return wanted
