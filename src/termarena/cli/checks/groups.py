"""Control groups: what can bound the memory, the processes and the processor time of a sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.cli.checks.contract import Machine

__all__ = ["check_control_groups"]

WANTED = ("cpu", "memory", "pids")
DELEGATE = "run TermArena in a delegated group, such as `systemd-run --user --scope -p Delegate=yes …`"


def check_control_groups(machine: Machine) -> Check:
    """Which of the controllers that limits need could be used by this process as it is."""
    own = _own_groups(machine)
    if not own:
        return Check("cgroups", "missing", "no control groups", f"limits fall back to rlimits; {DELEGATE}")
    version = 2 if set(own) == {""} else 1
    usable = _usable_v2(machine, own[""]) if version == 2 else _usable_v1(machine, own)  # noqa: PLR2004 - the version's name
    lacking = [name for name in WANTED if name not in usable]
    found = f"v{version}, usable: {', '.join(usable) or 'none'}"
    details = {"version": version, "usable": usable, "lacking": lacking}
    if lacking:
        advice = f"limits on {', '.join(lacking)} fall back to rlimits; {DELEGATE}"
        return Check("cgroups", "limited", found, advice, details)
    return Check("cgroups", "ok", found, details=details)


def _own_groups(machine: Machine) -> dict[str, str]:
    """This process's group by controller; version 2 is the one without a name.

    A version 2 hierarchy beside version 1 controllers holds none of those, so it is left out.
    """
    groups: dict[str, str] = {}
    for line in (machine.text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups if set(groups) == {""} else {name: path for name, path in groups.items() if name}


def _usable_v1(machine: Machine, own: dict[str, str]) -> list[str]:
    base = machine.root / "sys/fs/cgroup"
    return [name for name in WANTED if name in own and _can_add_groups(base / name / own[name].lstrip("/"))]


def _usable_v2(machine: Machine, path: str) -> list[str]:
    group = f"/sys/fs/cgroup/{path.lstrip('/')}"
    controllers = (machine.text(f"{group}/cgroup.controllers") or "").split()
    if not _can_add_groups(machine.root / group.lstrip("/")):
        return []
    return [name for name in WANTED if name in controllers]


def _can_add_groups(folder: Path) -> bool:
    """The kernel's own answer, which knows of read-only mounts; making a group to find out would touch a live one."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
