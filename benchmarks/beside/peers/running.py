"""Running a command and weighing it."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from peers.contract import Ran

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["run_measured"]

SAMPLE_S = 5.0


def run_measured(command: list[str], log: Path) -> Ran:
    """Run to the end, with both outputs in `log`; its wall time, its processor time, and the load meanwhile."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("wb") as output, _loads() as loads:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        # Not wait(): it would not tell how much processor time the process had used.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - start
    load = round(sum(loads) / len(loads), 1)
    return Ran(command, wall_s, usage.ru_utime + usage.ru_stime, process.returncode, load)


@contextmanager
def _loads() -> Iterator[list[float]]:
    """The load over the last minute, every few seconds."""
    loads = [os.getloadavg()[0]]
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(SAMPLE_S):
            loads.append(os.getloadavg()[0])

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield loads
    finally:
        is_over.set()
        sampler.join()
