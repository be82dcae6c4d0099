"""The labels that everything of ours carries on an engine: whose it is, and whether that harness still lives."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HARNESS", "HOME", "SANDBOX", "Harness", "is_harness_alive"]

PREFIX: Final = "termarena."
SANDBOX: Final = PREFIX + "sandbox"
HARNESS: Final = PREFIX + "harness"
HOME: Final = PREFIX + "home"
PID: Final = PREFIX + "pid"
PID_START: Final = PREFIX + "pid-start"
BOOT: Final = PREFIX + "boot"
STARTED: Final = PREFIX + "started"
ROOT: Final = PREFIX + "root"
RUN: Final = PREFIX + "run"
START_TIME_FIELD: Final = 19
UNKNOWN: Final = "unknown"
"""The life of a machine that has no name for it (macOS)."""


@dataclass(frozen=True, slots=True)
class Harness:
    """This process as the owner of what one driver makes."""

    home: str
    run_id: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    def labels(self, sandbox: str, root: str) -> dict[str, str]:
        """For everything that belongs to one sandbox and dies with it."""
        pid = os.getpid()
        return {
            SANDBOX: sandbox,
            HARNESS: self.id,
            HOME: self.home,
            PID: str(pid),
            PID_START: _start_time(pid) or "",
            BOOT: boot_id(),
            STARTED: datetime.now(UTC).isoformat(timespec="seconds"),
            ROOT: root,
            **({RUN: self.run_id} if self.run_id else {}),
        }


def is_harness_alive(labels: Mapping[str, str]) -> bool:
    """Whether the process that made something lives; where nobody can tell it counts as alive.

    Nobody can tell on another machine, nor on one that does not show its processes (macOS).
    """
    if labels.get(BOOT) != boot_id() or boot_id() == UNKNOWN:
        return True
    pid = labels.get(PID, "")
    return pid.isdecimal() and _start_time(int(pid)) == labels.get(PID_START)


def boot_id() -> str:
    """The number of this machine's present life."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return UNKNOWN


def _start_time(pid: int) -> str | None:
    """When the process began, in ticks: with its number unique within one life of the machine."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[START_TIME_FIELD]
    except (OSError, IndexError):
        return None
