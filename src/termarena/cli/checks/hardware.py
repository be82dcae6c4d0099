"""Processors, memory, disk space, accelerators."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check, first_line_of
from termarena.core.processors import usable_processors

if TYPE_CHECKING:
    from termarena.cli.checks.contract import Machine

__all__ = ["check_disk", "check_gpu", "check_processors"]

GIB = 1 << 30
# A checkout of a public dataset with its images wants several of these.
ENOUGH_DISK_BYTES = 5 * GIB
# What most public tasks ask for.
ENOUGH_MEMORY_BYTES = 2 * GIB


def check_processors(machine: Machine) -> Check:
    """Processors that this process may use, and memory that is free to use."""
    cpus = usable_processors()
    memory = _memory_bytes(machine, "MemTotal")
    available = _memory_bytes(machine, "MemAvailable")
    details = {"cpus": cpus, "memory_bytes": memory, "available_bytes": available}
    if memory is None or available is None:
        return Check(
            "cpu, memory", "limited", f"{cpus} cpus, memory unknown", "this system has no /proc/meminfo", details
        )
    found = f"{cpus} cpus, {memory / GIB:.1f} GiB of memory, {available / GIB:.1f} GiB available"
    if available < ENOUGH_MEMORY_BYTES:
        return Check("cpu, memory", "limited", found, "run one trial at a time: most tasks ask for 2 GiB", details)
    return Check("cpu, memory", "ok", found, details=details)


def _memory_bytes(machine: Machine, name: str) -> int | None:
    for line in (machine.text("/proc/meminfo") or "").splitlines():
        label, _, value = line.partition(":")
        if label == name:
            return int(value.split()[0]) * 1024
    return None


def check_disk(machine: Machine) -> Check:
    """Free space where caches and temporary files go."""
    places = {"home": _home(machine), "tmp": Path(tempfile.gettempdir())}
    free = {name: shutil.disk_usage(_existing(path)).free for name, path in places.items()}
    found = ", ".join(f"{free[name] / GIB:.1f} GiB free for {places[name]}" for name in places)
    details = {name: {"path": str(places[name]), "free_bytes": free[name]} for name in places}
    if min(free.values()) < ENOUGH_DISK_BYTES:
        advice = "free some space, or point TERMARENA_HOME and TMPDIR at a larger disk"
        return Check("disk", "limited", found, advice, details)
    return Check("disk", "ok", found, details=details)


def _home(machine: Machine) -> Path:
    from termarena.core.errors import TermArenaError
    from termarena.core.home import default_home
    from termarena.core.settings import resolve_settings

    try:
        return resolve_settings(environment=machine.environment).settings.paths.home
    except TermArenaError:  # told by the check of the settings
        return default_home(machine.environment)


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if os.path.isdir(parent))  # noqa: PTH112 - never raises


def check_gpu(machine: Machine) -> Check:
    """An accelerator that tasks could be given."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    named = first_line_of(query, patience_s=machine.patience_s)
    if named is not None:
        return Check("gpu", "ok", named, details={"name": named})
    devices = sorted(str(path) for path in (machine.root / "dev").glob("nvidia[0-9]*"))
    if devices:
        advice = "install the driver's tools (nvidia-smi), so that the device can be named"
        return Check("gpu", "limited", ", ".join(devices), advice, {"devices": devices})
    return Check("gpu", "missing", "no NVIDIA device", "only tasks that ask for a gpu need one")
