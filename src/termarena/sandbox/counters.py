"""What the kernel counts for a control group, version 1 or 2, as a `Usage`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.sandbox.contract import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UNIFIED", "Room", "groups_in", "hierarchies", "oom_kills", "read_usage", "room_of"]

UNIFIED: Final = ""
"""The name of the unified hierarchy among controllers, as `/proc/self/cgroup` has it."""
READ_BYTES: Final = 4096
SMALLEST_ROOM_BYTES: Final = 1 << 20
"""Less is no room: a program that wanted to write more has failed before the last block was taken."""


class Room(NamedTuple):
    """What a file system says of its size."""

    used_bytes: int
    is_full: bool


def room_of(found: os.statvfs_result) -> Room:
    """From `statvfs`; full is less than a mebibyte, or than a 64th of a small one, or no file more."""
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    is_full = free < min(SMALLEST_ROOM_BYTES, total // 64) or (found.f_files > 0 and found.f_favail == 0)
    return Room((found.f_blocks - found.f_bfree) * found.f_frsize, is_full)


def read_usage(folders: Mapping[str, Path], *, room: Room | None = None) -> Usage:
    """Read the counters of a group: controller to its folder, the unified hierarchy under the empty name.

    A file that is not there, or not there any more, gives None. About a tenth of a millisecond.
    """
    memory, pids, cpu = (folders.get(name) for name in ("memory", "pids", "cpu"))
    throttling = _table(cpu, "cpu.stat")
    nanoseconds = throttling.get("throttled_time")
    microseconds = throttling.get("throttled_usec")
    return Usage(
        cpu_s=_cpu_s(folders),
        memory_peak_bytes=_number(memory, "memory.max_usage_in_bytes", or_else="memory.peak"),
        oom_kills=oom_kills(folders),
        pids_limit_hits=_table(pids, "pids.events").get("max"),
        cpu_throttled_s=_scaled(microseconds, 1e6) if nanoseconds is None else nanoseconds / 1e9,
        cpu_throttled_periods=throttling.get("nr_throttled"),
        disk_bytes=None if room is None else room.used_bytes,
        disk_full=None if room is None else room.is_full,
    )


def oom_kills(folders: Mapping[str, Path]) -> int | None:
    """How many processes the memory limit of a group has killed."""
    return _table(folders.get("memory"), "memory.oom_control", or_else="memory.events").get("oom_kill")


def hierarchies(mountinfo: Path) -> dict[str, Path]:
    """Controller → where its hierarchy is mounted; the unified one has the empty name."""
    found: dict[str, Path] = {}
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        point = Path(left.split()[4])
        if kind == "cgroup2":
            found.setdefault(UNIFIED, point)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, point)
    return found


def groups_in(listing: Path) -> dict[str, str]:
    """Controller → the group of a process, from its `/proc/<pid>/cgroup`."""
    found = {}
    for line in listing.read_text().splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def _cpu_s(folders: Mapping[str, Path]) -> float | None:
    """From the unified hierarchy, which always counts; else where version 1 has its accounting."""
    for name in (UNIFIED, "cpu"):
        if (found := _table(folders.get(name), "cpu.stat").get("usage_usec")) is not None:
            return found / 1e6
    for name in ("cpuacct", "cpu"):
        if (nanoseconds := _number(folders.get(name), "cpuacct.usage")) is not None:
            return nanoseconds / 1e9
    return None


def _scaled(count: int | None, per_second: float) -> float | None:
    return None if count is None else count / per_second


def _read(folder: Path | None, name: str, *, or_else: str | None = None) -> bytes:
    """A file of a group, or the one that the other version has in its place; empty where there is neither."""
    if folder is None:
        return b""
    try:
        fd = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b"" if or_else is None else _read(folder, or_else)
    try:
        return os.read(fd, READ_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _number(folder: Path | None, name: str, *, or_else: str | None = None) -> int | None:
    text = _read(folder, name, or_else=or_else).strip()
    return int(text) if text.isdigit() else None


def _table(folder: Path | None, name: str, *, or_else: str | None = None) -> dict[str, int]:
    rows = (line.split() for line in _read(folder, name, or_else=or_else).decode("ascii", "replace").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}  # noqa: PLR2004 - name and value
