"""How much a trial had to share its machine: facts of the kernel over a span of time, for people to judge by."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.contract import Usage

__all__ = ["Contention", "Sample", "take_sample"]

PROC: Final = Path("/proc")
STEAL_AT: Final = 8
"""`cpu user nice system idle iowait irq softirq steal …` in `/proc/stat`."""
FIRST_BYTES: Final = 4096
PRESSURES: Final = ("cpu", "memory", "io")


@dataclass(frozen=True, slots=True)
class Contention:
    """What held a span of time up; None where the machine cannot tell.

    A pressure is the time in which work waited for something: `some` of it, or, in `full`, all of it.
    """

    span_s: float
    cpu_count: int
    load_1m: float | None = None
    """Processes that ran or wanted to, averaged over the last minute of the span."""
    cpu_steal_s: float | None = None
    """Time that a hypervisor gave to other machines, summed over processors."""
    cpu_some_s: float | None = None
    cpu_full_s: float | None = None
    memory_some_s: float | None = None
    memory_full_s: float | None = None
    io_some_s: float | None = None
    io_full_s: float | None = None
    cpu_throttled_s: float | None = None
    """The sandbox's own limit: see `Usage`."""
    cpu_throttled_periods: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The machine's counters at one moment."""

    at_s: float
    load_1m: float | None = None
    steal_s: float | None = None
    pressure_s: Mapping[str, float] = field(default_factory=dict)
    """`cpu_some` and its like → seconds since the machine started."""

    def until(self, later: Sample, *, usage: Usage | None = None) -> Contention:
        """What happened between the two; `usage` is that of a sandbox which lived within."""
        waited = {
            f"{name}_s": later.pressure_s[name] - seconds
            for name, seconds in self.pressure_s.items()
            if name in later.pressure_s
        }
        is_told = self.steal_s is not None and later.steal_s is not None
        return Contention(
            span_s=later.at_s - self.at_s,
            cpu_count=os.cpu_count() or 1,
            load_1m=later.load_1m,
            cpu_steal_s=(later.steal_s or 0.0) - (self.steal_s or 0.0) if is_told else None,
            cpu_throttled_s=None if usage is None else usage.cpu_throttled_s,
            cpu_throttled_periods=None if usage is None else usage.cpu_throttled_periods,
            **waited,
        )


def take_sample(proc: Path = PROC) -> Sample:
    """The counters now; about a tenth of a millisecond."""
    pressure: dict[str, float] = {}
    for name in PRESSURES:
        pressure |= _pressure(proc, name)
    return Sample(time.monotonic(), _load(proc), _steal(proc), pressure)


def _read(path: str) -> str:
    """A file of the kernel's, by its first page: what is asked for stands at its beginning."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, FIRST_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _load(proc: Path) -> float | None:
    words = _read(f"{proc}/loadavg").split()
    return float(words[0]) if words else None


def _steal(proc: Path) -> float | None:
    words = _read(f"{proc}/stat").partition("\n")[0].split()
    return int(words[STEAL_AT]) / os.sysconf("SC_CLK_TCK") if len(words) > STEAL_AT else None


def _pressure(proc: Path, name: str) -> dict[str, float]:
    """`some avg10=0.00 avg60=0.00 avg300=0.00 total=123` and, mostly, the same with `full`; microseconds."""
    found = {}
    for line in _read(f"{proc}/pressure/{name}").splitlines():
        kind, *pairs = line.split()
        total = dict(pair.split("=", 1) for pair in pairs).get("total")
        if kind in ("some", "full") and total is not None:
            found[f"{name}_{kind}"] = int(total) / 1e6
    return found
