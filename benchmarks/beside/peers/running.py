"""Running a command and weighing it."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from peers.contract import Ran

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["run_measured"]


def run_measured(command: list[str], log: Path) -> Ran:
    """Run to the end, with both outputs in `log`; its wall time and its processor time."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        # Not wait(): it would not tell how much processor time the process had used.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - start
    return Ran(command, wall_s, usage.ru_utime + usage.ru_stime, process.returncode)
