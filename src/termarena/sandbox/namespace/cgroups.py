"""Limits by cgroup, version 1 or 2: found by trying, made below the harness's own group so that its limits still hold.

Process 1 of a sandbox stays outside. Each command joins by writing to descriptors that the harness opened: the kernel
checks the permission of whoever opened them.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from termarena.sandbox.spec import Limits

__all__ = ["Cgroup", "CgroupHost", "find_cgroups", "groups_above"]

CPU_PERIOD_US: Final = 100_000
CONTROLLERS: Final[tuple[str, ...]] = ("memory", "pids", "cpu")
HARNESS_LEAF: Final = "termarena-harness"
V2_REMEDY: Final = "start the harness with: systemd-run --user --scope -p Delegate=yes …"


@dataclass(slots=True)
class Cgroup:
    """The groups of one sandbox."""

    version: Literal[1, 2]
    folders: tuple[Path, ...]
    counter: Path | None
    """The file whose `oom_kill` line counts kills; absent where memory is not limited."""
    _counter_fd: int = field(default=-1, init=False)

    def open_procs(self) -> list[int]:
        """Descriptors of the files a process writes `0` to in order to join; the caller closes them."""
        # Moving the calling thread alone skips a lock whose taking costs 9 ms after a pause; version 2 has no such way.
        name = "tasks" if self.version == 1 else "cgroup.procs"
        return [os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC) for folder in self.folders]

    def oom_kills(self) -> int:
        """How many processes the memory limit has killed so far."""
        if self.counter is None:
            return 0
        if self._counter_fd < 0:
            self._counter_fd = os.open(self.counter, os.O_RDONLY | os.O_CLOEXEC)
        for line in os.pread(self._counter_fd, 4096, 0).splitlines():
            name, _, value = line.partition(b" ")
            if name == b"oom_kill":
                return int(value)
        return 0

    def remove(self) -> None:
        """Remove the groups; every process must have ended. One that still holds something is left to the sweep."""
        if self._counter_fd >= 0:
            os.close(self._counter_fd)
            self._counter_fd = -1
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


@dataclass(frozen=True, slots=True)
class CgroupHost:
    """Where groups can be made on this machine, or why not."""

    version: Literal[1, 2] | None
    parents: dict[str, Path] = field(default_factory=dict)
    """Controller → folder below which groups are made; one folder for all with version 2."""
    problem: str = ""
    remedy: str = ""

    def has(self, controller: str) -> bool:
        """Whether this controller's limits can be set."""
        return controller in self.parents

    def folders_of(self, name: str) -> tuple[Path, ...]:
        """Where the groups of this name would be."""
        return tuple(dict.fromkeys(parent / name for parent in self.parents.values()))

    def create(self, name: str, limits: Limits) -> Cgroup | None:
        """The groups of one sandbox with its limits set, or None where there are none; `OSError` if refused now."""
        if self.version is None:
            return None
        folders = {controller: parent / name for controller, parent in self.parents.items()}
        unique = self.folders_of(name)
        made = Cgroup(self.version, unique, self._counter(folders.get("memory")))
        try:
            for folder in unique:
                folder.mkdir()
            for controller, folder in folders.items():
                _write_limits(folder, controller, limits, version=self.version)
        except OSError:
            made.remove()
            raise
        return made

    def _counter(self, memory: Path | None) -> Path | None:
        if memory is None:
            return None
        return memory / ("memory.oom_control" if self.version == 1 else "memory.events")


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
    mounts = _cgroup_mounts(mountinfo)
    paths = _own_paths(own)
    first = {name: mounts[name] / paths[name].lstrip("/") for name in CONTROLLERS if name in mounts and name in paths}
    usable = {name: folder for name, folder in first.items() if _can_create(folder)}
    if usable:
        return CgroupHost(1, usable)
    if "" in mounts and "" in paths:
        second = _prepare_second(mounts[""] / paths[""].lstrip("/"), prepare=prepare)
        if second.version is not None or not first:
            return second
    if first:
        return CgroupHost(None, problem="the cgroup folders are not writable for this user", remedy="run as root")
    return CgroupHost(None, problem="no cgroup file system is mounted", remedy="mount cgroup2 on /sys/fs/cgroup")


def _cgroup_mounts(mountinfo: Path) -> dict[str, Path]:
    """Controller → mount point; the unified hierarchy has the empty name."""
    found: dict[str, Path] = {}
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        point = Path(left.split()[4])
        if kind == "cgroup2":
            found.setdefault("", point)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, point)
    return found


def _own_paths(own: Path) -> dict[str, str]:
    found = {}
    for line in own.read_text().splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


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
        _put(leaf / "cgroup.procs", str(os.getpid()))
        _put(control, " ".join(f"+{name}" for name in missing))
    return wanted


def groups_above(
    controller: str, *, mountinfo: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> tuple[Path, ...]:
    """The folders whose limits bind this process, its own group first, then each group above it; none if not mounted.

    Of version 1's hierarchy where that has the controller, else of the unified one. A group that is not below its mount
    point, as in some containers, is the mount point itself.
    """
    mounts, paths = _cgroup_mounts(mountinfo), _own_paths(own)
    name = controller if controller in mounts and controller in paths else ""
    if name not in mounts or name not in paths:
        return ()
    top = mounts[name]
    folder = top / paths[name].lstrip("/")
    if not folder.is_dir():
        return (top,)
    return (folder, *(parent for parent in folder.parents if parent.is_relative_to(top)))
