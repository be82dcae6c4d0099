"""Figures of the sandboxes, side by side with the bare kernel and the bare engine in one run: medians and ratios.

    python benchmarks/sandbox.py [--json FILE] [--rounds N] [--image NAME]

The yardstick is a script that unshares the same namespaces, mounts an overlay on a tmpfs and runs `true`: no
supervisor, no masks, no filter, no limits. The docker driver is measured against the same calls made one after the
other on one connection: create, start, exec, its output to the end, its status, remove.
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

from termarena.core.errors import SandboxError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.bench import median_ms
from termarena.sandbox.docker import DockerDriver, find_address
from termarena.sandbox.docker.client import Engine, Request
from termarena.sandbox.docker.driver import host_config
from termarena.sandbox.docker.execs import UPGRADE
from termarena.sandbox.docker.scripts import KEEPER
from termarena.sandbox.namespace import NamespaceDriver

BARE = (
    "mount -t tmpfs none /mnt && cd /mnt && mkdir u w m && "
    "mount -t overlay overlay -o lowerdir=/usr,upperdir=u,workdir=w,userxattr m && exec true"
)
UNSHARE = ["unshare", "-r", "-m", "-p", "-f", "-n", "-i", "-u", "sh", "-c", BARE]


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

        found = {"diff_ms": await median_ms(box.diff, rounds)}
        began = time.perf_counter()
        snapshot = await box.snapshot()
        found["snapshot_copied_ms"] = (time.perf_counter() - began) * 1000
        found["fork_from_copy_ms"] = await median_ms(fork, rounds)
        snapshot.close()
        await box.seal()
        began = time.perf_counter()
        snapshot = await box.snapshot()
        found["snapshot_sealed_ms"] = (time.perf_counter() - began) * 1000
        found["fork_sealed_ms"] = await median_ms(fork, rounds)
        snapshot.close()
        return found


async def measure(home: Path, rounds: int) -> dict[str, object]:
    """Everything, in about a minute on two cores."""
    async with NamespaceDriver(home=home) as driver:
        await _cycle(driver)
        bare = await median_ms(_bare, rounds)
        cycle = await median_ms(lambda: _cycle(driver), rounds)
        async with driver.start(SandboxSpec()) as box:
            exec_ms = await median_ms(lambda: box.exec(["true"]), rounds * 3)
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


async def _raw_exec(engine: Engine, container: str) -> None:
    asked = {"Cmd": ["true"], "AttachStdin": True, "AttachStdout": True, "AttachStderr": True}
    made = (await engine.call("POST", f"/containers/{container}/exec", json=asked)).json()["Id"]
    stream = await engine.take_over(Request("POST", f"/exec/{made}/start", json={"Detach": False}, headers=UPGRADE))
    while await stream.receive():
        pass
    await stream.close()
    if (await engine.call("GET", f"/exec/{made}/json")).json()["ExitCode"] != 0:
        sys.exit("the yardstick failed: true is not true in the container")


async def _raw_start(engine: Engine, image: str) -> str:
    limits = host_config(SandboxSpec().limits, network="none")
    asked = {"Image": image, "Entrypoint": ["/bin/sh", "-c", KEEPER], "OpenStdin": True, "HostConfig": limits}
    container = str((await engine.call("POST", "/containers/create", json=asked)).json()["Id"])
    await engine.call("POST", f"/containers/{container}/start")
    return container


async def measure_docker(home: Path, image: str, rounds: int) -> dict[str, float]:
    """The docker driver and the bare calls, taking turns; raises `SandboxError` where there is no engine or image."""
    spec = SandboxSpec(root=Root(kind="image", image=image))
    engine = Engine(find_address())
    times: dict[str, list[float]] = {"driver": [], "calls": []}

    async def calls() -> None:
        container = await _raw_start(engine, image)
        await _raw_exec(engine, container)
        await engine.call("DELETE", f"/containers/{container}", query={"force": True})

    async with DockerDriver(home=home) as driver:

        async def cycle() -> None:
            async with driver.start(spec) as box:
                await box.exec(["true"])

        await cycle()
        for _ in range(rounds):
            for name, action in (("driver", cycle), ("calls", calls)):
                times[name].append(await median_ms(action, 1))
        async with driver.start(spec) as box:
            exec_ms = await median_ms(lambda: box.exec(["true"]), rounds)
            raw_exec_ms = await median_ms(lambda: _raw_exec(engine, box.container.id), rounds)
    await engine.close()
    cycle_ms, calls_ms = (statistics.median(times[name]) for name in ("driver", "calls"))
    return {
        "start_true_stop_ms": cycle_ms,
        "bare_calls_ms": calls_ms,
        "start_true_stop_to_bare_calls": cycle_ms / calls_ms,
        "exec_true_ms": exec_ms,
        "bare_exec_ms": raw_exec_ms,
    }


async def _both(home: Path, image: str, rounds: int) -> dict[str, object]:
    found = await measure(home, rounds)
    try:
        docker = await measure_docker(home, image, rounds)
    except SandboxError as error:
        return {**found, "docker": f"not measured: {error}"}
    cycle, alone = found["start_true_stop_ms"], found["exec_true_ms"]
    ratios = {
        "docker_calls_to_namespace_cycle": docker["bare_calls_ms"] / float(str(cycle)),
        "docker_exec_to_namespace_exec": docker["bare_exec_ms"] / float(str(alone)),
    }
    return {**found, "docker": docker, **ratios}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--image", default="debian:bookworm")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="termarena-bench-") as home:
        found = asyncio.run(_both(Path(home), chosen.image, chosen.rounds))
    text = json.dumps(found, indent=1, default=str)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
