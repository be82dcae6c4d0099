"""Figures of the namespace sandbox, side by side with the bare kernel in one run: medians and ratios.

    python benchmarks/sandbox.py [--json FILE] [--rounds N]

The yardstick is a script that unshares the same namespaces, mounts an overlay on a tmpfs and runs `true`: no
supervisor, no masks, no filter, no limits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BARE = (
    "mount -t tmpfs none /mnt && cd /mnt && mkdir u w m && "
    "mount -t overlay overlay -o lowerdir=/usr,upperdir=u,workdir=w,userxattr m && exec true"
)
UNSHARE = ["unshare", "-r", "-m", "-p", "-f", "-n", "-i", "-u", "sh", "-c", BARE]


async def _median_ms(action: Callable[[], Awaitable[object]], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await action()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(*UNSHARE)
    if await process.wait() != 0:
        sys.exit("the yardstick failed: unshare with an overlay does not work here")


async def _cycle(driver: NamespaceDriver) -> None:
    async with driver.start(SandboxSpec()) as box:
        await box.exec(["true"])


async def _cycles_per_second(driver: NamespaceDriver, *, workers: int, each: int) -> float:
    async def work() -> None:
        for _ in range(each):
            await _cycle(driver)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(workers)))
    return workers * each / (time.perf_counter() - began)


def _pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return float("nan")


async def _alive(driver: NamespaceDriver, count: int) -> dict[str, float]:
    """Start time with few and with many alive, and the memory of an idle one."""
    starts: list[float] = []
    contexts = []
    pids = []
    for _ in range(count):
        context = driver.start(SandboxSpec())
        began = time.perf_counter()
        box = await context.__aenter__()
        starts.append((time.perf_counter() - began) * 1000)
        contexts.append(context)
        pids.append(box.host_pid)
    try:
        memory = [_pss_mb(pid) for pid in pids[:50]] if os.geteuid() == 0 else [float("nan")]
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)
    edge = min(20, count // 4)
    first, last = statistics.median(starts[:edge]), statistics.median(starts[-edge:])
    return {"first_ms": first, "last_ms": last, "ratio": last / first, "idle_pss_mb": statistics.median(memory)}


async def _states(driver: NamespaceDriver, files: int, rounds: int) -> dict[str, float]:
    """Snapshot, fork and diff of a sandbox with this many changed files."""
    async with driver.start(SandboxSpec()) as box:
        script = f"import os\nos.mkdir('/srv/f')\nfor n in range({files}): open(f'/srv/f/{{n}}', 'w').write('x' * 2000)"
        await box.exec(["/usr/bin/python3", "-c", script])

        async def fork() -> None:
            async with driver.start(snapshot):
                pass

        found = {"diff_ms": await _median_ms(box.diff, rounds)}
        began = time.perf_counter()
        snapshot = await box.snapshot()
        found["snapshot_copied_ms"] = (time.perf_counter() - began) * 1000
        found["fork_from_copy_ms"] = await _median_ms(fork, rounds)
        snapshot.close()
        await box.seal()
        began = time.perf_counter()
        snapshot = await box.snapshot()
        found["snapshot_sealed_ms"] = (time.perf_counter() - began) * 1000
        found["fork_sealed_ms"] = await _median_ms(fork, rounds)
        snapshot.close()
        return found


async def measure(home: Path, rounds: int) -> dict[str, object]:
    """Everything, in about a minute on two cores."""
    async with NamespaceDriver(home=home) as driver:
        await _cycle(driver)
        bare = await _median_ms(_bare, rounds)
        cycle = await _median_ms(lambda: _cycle(driver), rounds)
        async with driver.start(SandboxSpec()) as box:
            exec_ms = await _median_ms(lambda: box.exec(["true"]), rounds * 3)
        return {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
            "python": platform.python_version(),
            "user": "root" if os.geteuid() == 0 else "ordinary user",
            "load_before": os.getloadavg()[0],
            "bare_unshare_overlay_true_ms": bare,
            "start_true_stop_ms": cycle,
            "start_true_stop_to_bare": cycle / bare,
            "exec_true_ms": exec_ms,
            "cycles_per_s_one_worker": await _cycles_per_second(driver, workers=1, each=rounds * 2),
            "cycles_per_s_four_workers": await _cycles_per_second(driver, workers=4, each=rounds),
            "alive_200": await _alive(driver, 200),
            "changed_1000_files": await _states(driver, 1000, 10),
            "changed_100_files": await _states(driver, 100, 10),
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="termarena-bench-") as home:
        found = asyncio.run(measure(Path(home), chosen.rounds))
    text = json.dumps(found, indent=1, default=str)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
