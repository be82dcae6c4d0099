"""The machine that a run is carried out on: what is recorded of it, and how much of it trials may use together."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from termarena.core.processors import usable_processors
from termarena.sandbox.counters import UNIFIED, groups_in, hierarchies

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Budget", "MachineFacts", "budget_here", "groups_above", "machine_facts"]

MIB: Final = 1 << 20
# For the harness itself and for whatever else lives on the machine.
SPARED_SHARE: Final = 0.1


class Budget(NamedTuple):
    """What all running trials may ask for together."""

    cpus: float
    memory_mb: int


class MachineFacts(BaseModel):
    """Where a run was started; what is unknown is None."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    cpu_model: str | None
    cores: int
    """As many as there are."""
    usable_cpus: float
    """As many as this process may use: affinity and cgroup limits counted in."""
    memory_mb: int | None
    usable_memory_mb: int | None
    kernel: str
    architecture: str
    cgroup_version: int | None
    load: tuple[float, float, float]
    """Over one, five and fifteen minutes, before the run."""


def machine_facts() -> MachineFacts:
    """Read them from the kernel."""
    return MachineFacts(
        cpu_model=_cpu_model(),
        cores=os.cpu_count() or 1,
        usable_cpus=_usable_cpus(),
        memory_mb=_memory_mb(),
        usable_memory_mb=_usable_memory_mb(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cgroup_version=_cgroup_version(),
        load=os.getloadavg(),
    )


def budget_here() -> Budget:
    """This machine's processors and nine tenths of its memory, as far as this process may use them.

    Where the memory is unknown, processors alone decide.
    """
    memory_mb = _usable_memory_mb()
    return Budget(_usable_cpus(), int(memory_mb * (1 - SPARED_SHARE)) if memory_mb is not None else sys.maxsize)


def groups_above(
    controller: str, *, mountinfo: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> tuple[Path, ...]:
    """The folders whose limits bind this process, its own group first, then each group above it; none if not mounted.

    Of version 1's hierarchy where that has the controller, else of the unified one. A group that is not below its mount
    point, as in some containers, is the mount point itself.
    """
    mounts, paths = hierarchies(mountinfo), groups_in(own)
    name = controller if controller in mounts and controller in paths else UNIFIED
    if name not in mounts or name not in paths:
        return ()
    top = mounts[name]
    folder = top / paths[name].lstrip("/")
    if not folder.is_dir():
        return (top,)
    return (folder, *(parent for parent in folder.parents if parent.is_relative_to(top)))


def _cpu_model() -> str | None:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return None


def _memory_mb() -> int | None:
    for line in _text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) >> 10
    return None


def _usable_cpus() -> float:
    """The fewest of: the processors in our affinity, and every quota above us."""
    quotas = [_quota(folder) for folder in groups_above("cpu")]
    return min([float(usable_processors()), *(quota for quota in quotas if quota is not None)])


def _quota(folder: Path) -> float | None:
    """Processors per wall time that a group may use, of either version; None is no limit."""
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
    quota = quota or _text(folder / "cpu.cfs_quota_us").strip()
    period = period or _text(folder / "cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit():
        return None
    return int(quota) / int(period)


def _usable_memory_mb() -> int | None:
    limits = [_memory_limit_mb(folder) for folder in groups_above("memory")]
    return _least([_memory_mb(), *limits])


def _memory_limit_mb(folder: Path) -> int | None:
    """What a group may use, of either version; version 1 writes "no limit" as a number beyond any machine."""
    text = (_text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")).strip()
    return int(text) // MIB if text.isdigit() else None


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _cgroup_version() -> int | None:
    folders = groups_above("memory")
    if not folders:
        return None
    return 1 if (folders[0] / "memory.limit_in_bytes").exists() else 2


def _text(path: Path) -> str:
    """A file of the kernel's, or nothing where it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
