"""How fast a driver is here and now: medians of a start, a command and a stop, and of a command alone."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.sandbox.contract import Driver
    from termarena.sandbox.spec import SandboxSpec

__all__ = ["Figures", "measure_driver", "median_ms"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians in milliseconds."""

    driver: str
    rounds: int
    start_true_stop_ms: float
    start_ms: float
    exec_true_ms: float


async def median_ms(action: Callable[[], Awaitable[object]], rounds: int) -> float:
    """The median time of an action."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await action()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


async def measure_driver(driver: Driver, spec: SandboxSpec, *, rounds: int) -> Figures:
    """Start, run `true` and stop this many times, after one round that does not count. Errors as the driver's."""
    starts: list[float] = []

    async def cycle() -> None:
        began = time.perf_counter()
        async with driver.start(spec) as box:
            starts.append(time.perf_counter() - began)
            await box.exec(["true"])

    await cycle()
    starts.clear()
    whole = await median_ms(cycle, rounds)
    async with driver.start(spec) as box:
        alone = await median_ms(lambda: box.exec(["true"]), rounds)
    return Figures(driver.name, rounds, whole, statistics.median(starts) * 1000, alone)
