"""Figures of the sandboxes, side by side with the bare kernel and the bare engine in one run: medians and ratios.

    python benchmarks/sandbox.py [--json FILE] [--rounds N] [--image NAME] [--user UID]

The yardstick is a script that unshares the same namespaces, mounts an overlay on a tmpfs and runs `true`: no
supervisor, no masks, no filter, no limits. Cycles are one after the other, so that each finds the place of its sandbox
made ahead; what one takes that does not is told beside it. The docker driver is measured against the same calls made
one after the other on one connection: create, start, exec, its output to the end, its status, remove. `--user` (of
root) measures the embedded sandbox as that user, in a process of its own, and the engine as before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import site
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, cast

from termarena.core.errors import SandboxError
from termarena.sandbox import Limits, Root, SandboxSpec
from termarena.sandbox.bench import median_ms
from termarena.sandbox.docker import DockerDriver, find_address
from termarena.sandbox.docker.client import Engine, Request
from termarena.sandbox.docker.description import host_config
from termarena.sandbox.docker.execs import UPGRADE
from termarena.sandbox.docker.scripts import KEEPER
from termarena.sandbox.namespace import NamespaceDriver

BARE = (
    "mount -t tmpfs none /mnt && cd /mnt && mkdir u w m && "
    "mount -t overlay overlay -o lowerdir=/usr,upperdir=u,workdir=w,userxattr m && exec true"
)
ON_DISK = SandboxSpec(limits=Limits(memory_bytes=2 << 30, disk_bytes=10 << 30))
"""Harbor's usual limits: more disk than memory has room for."""
PAUSE_S = 0.03
ASKS = "TERMARENA_BENCH_ASKS"
"""Set for a process that measures as an ordinary user and can ask root."""
UNSHARE = ["unshare", "-r", "-m", "-p", "-f", "-n", "-i", "-u", "sh", "-c", BARE]


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(*UNSHARE)
    if await process.wait() != 0:
        sys.exit("the yardstick failed: unshare with an overlay does not work here")


async def _cycle(driver: NamespaceDriver, spec: SandboxSpec | None = None) -> None:
    async with driver.start(spec or SandboxSpec()) as box:
        await box.exec(["true"])


async def _after_pauses(driver: NamespaceDriver, single: NamespaceDriver, rounds: int) -> dict[str, float]:
    """Starts with a pause before each, as whoever runs agents has it; in turns with those that find no place made."""
    starts: dict[str, list[float]] = {"start_ms": [], "single_start_ms": []}
    for _ in range(rounds):
        for name, by in (("start_ms", driver), ("single_start_ms", single)):
            await asyncio.sleep(PAUSE_S)
            began = time.perf_counter()
            async with by.start(SandboxSpec()):
                starts[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(took) for name, took in starts.items()}


async def _cycles_per_second(driver: NamespaceDriver, *, workers: int, each: int) -> float:
    async def work() -> None:
        for _ in range(each):
            await _cycle(driver)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(workers)))
    return workers * each / (time.perf_counter() - began)


def _pss_mb(pid: int) -> float:
    """Of a process that only root may look into; `nan` for others."""
    if os.geteuid() != 0:
        return _ask_root(pid)
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _ask_root(pid: int) -> float:
    """Ask whoever started this process with `--user`, over standard input and output."""
    if sys.stdin.isatty() or os.environ.get(ASKS) is None:
        return float("nan")
    print(json.dumps({"pss": pid}), flush=True)
    return float(sys.stdin.readline())


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
        memory = [_pss_mb(pid) for pid in pids[:50]]
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)
    edge = min(20, count // 4)
    first, last = statistics.median(starts[:edge]), statistics.median(starts[-edge:])
    return {"first_ms": first, "last_ms": last, "ratio": last / first, "idle_pss_mb": statistics.median(memory)}


async def _states(
    driver: NamespaceDriver, files: int, rounds: int, spec: SandboxSpec | None = None
) -> dict[str, float]:
    """Snapshot, fork and diff of a sandbox with this many changed files."""
    async with driver.start(spec or SandboxSpec()) as box:
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


def _copied_ms(place: Path, files: int, rounds: int) -> float:
    """What the disk takes for as many new files of that size, without a sandbox: the part of a fork that is copying."""
    took = []
    for _ in range(rounds):
        folder = Path(tempfile.mkdtemp(dir=place)) / "f"
        folder.mkdir()
        began = time.perf_counter()
        for name in range(files):
            fd = os.open(folder / str(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(fd, b"x" * 2000)
            os.utime(fd, ns=(1, 1))
            os.close(fd)
        took.append((time.perf_counter() - began) * 1000)
        shutil.rmtree(folder.parent)
    return statistics.median(took)


async def measure(home: Path, rounds: int) -> dict[str, object]:
    """Everything, in about a minute on two cores."""
    async with NamespaceDriver(home=home) as driver:
        await _cycle(driver)
        os.sync()  # the first start made the root that all lie on: what is left of that to write is no part of a start
        bare = await median_ms(_bare, rounds)
        cycle = await median_ms(lambda: _cycle(driver), rounds)
        async with NamespaceDriver(home=home, looks_ahead=False) as single:
            await _cycle(single)
            alone = await median_ms(lambda: _cycle(single), rounds)
            after_pauses = await _after_pauses(driver, single, rounds)
        async with driver.start(SandboxSpec()) as box:
            exec_ms = await median_ms(lambda: box.exec(["true"]), rounds * 3)
        return {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
            "python": platform.python_version(),
            "user": "root" if os.geteuid() == 0 else f"ordinary user, ids: {driver.ids.kind}",
            "load_before": os.getloadavg()[0],
            "bare_unshare_overlay_true_ms": bare,
            "start_true_stop_ms": cycle,
            "start_true_stop_to_bare": cycle / bare,
            "start_true_stop_of_single_start_ms": alone,
            "after_a_pause": after_pauses,
            "exec_true_ms": exec_ms,
            "start_true_stop_on_disk_ms": await median_ms(lambda: _cycle(driver, ON_DISK), rounds),
            "cycles_per_s_one_worker": await _cycles_per_second(driver, workers=1, each=rounds * 2),
            "cycles_per_s_four_workers": await _cycles_per_second(driver, workers=4, each=rounds),
            "alive_200": await _alive(driver, 200),
            "changed_1000_files": await _states(driver, 1000, 10),
            "changed_100_files": await _states(driver, 100, 10),
            "changed_1000_files_on_disk": await _states(driver, 1000, 10, ON_DISK),
            "copy_1000_files_on_disk_ms": _copied_ms(home, 1000, 10),
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


def _interpreter(env: dict[str, str], user: int) -> str:
    """One that the user can run with our packages: ours may lie in root's home."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        command = [candidate, "-c", "import termarena.sandbox, pydantic"]
        try:
            done = subprocess.run(command, env=env, user=user, group=user, extra_groups=[], check=False)  # noqa: S603 - our own program
        except PermissionError:
            continue
        if done.returncode == 0:
            return candidate
    sys.exit(f"the user {user} can read neither this interpreter nor these packages: keep them outside of /root")


def _measure_as(user: int, home: Path, rounds: int) -> dict[str, object]:
    """What `measure` finds as that user; root tells the memory of processes that the user may not look into."""
    home.chmod(0o755)
    theirs = home / "theirs"
    theirs.mkdir()
    os.chown(theirs, user, user)
    paths = [str(Path(__file__).parents[1] / "src"), *site.getsitepackages()]
    env = {"PATH": os.environ["PATH"], "HOME": str(theirs), "TMPDIR": str(theirs)}
    env |= {"PYTHONPATH": ":".join(paths), ASKS: "1"}
    command = [_interpreter(env, user), __file__, "--rounds", str(rounds), "--only-embedded"]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, env=env, user=user, group=user, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as child:  # fmt: skip
        questions, answers = cast("IO[str]", child.stdout), cast("IO[str]", child.stdin)
        text = ""
        for line in questions:
            if line.startswith('{"pss"'):
                answers.write(f"{_pss_mb(json.loads(line)['pss'])}\n")
                answers.flush()
            else:
                text += line
    if child.returncode != 0:
        sys.exit(f"the measurement as user {user} failed with status {child.returncode}")
    found: dict[str, object] = json.loads(text)
    return found


async def _both(home: Path, image: str, rounds: int, user: int | None) -> dict[str, object]:
    if user is None:
        found = await measure(home, rounds)
    else:
        found = await asyncio.to_thread(_measure_as, user, home, rounds)
    try:
        docker = await measure_docker(home, image, rounds)
    except SandboxError as error:
        return {**found, "docker": f"not measured: {error}"}
    cycle, exec_ms = found["start_true_stop_ms"], found["exec_true_ms"]
    ratios = {
        "docker_calls_to_namespace_cycle": docker["bare_calls_ms"] / float(str(cycle)),
        "docker_exec_to_namespace_exec": docker["bare_exec_ms"] / float(str(exec_ms)),
    }
    return {**found, "docker": docker, **ratios}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--image", default="debian:bookworm")
    parser.add_argument("--user", type=int, help="measure the embedded sandbox as this user id; for root")
    parser.add_argument("--only-embedded", action="store_true", help="leave the engine out")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="termarena-bench-") as home:
        if chosen.only_embedded:
            found = asyncio.run(measure(Path(home), chosen.rounds))
        else:
            found = asyncio.run(_both(Path(home), chosen.image, chosen.rounds, chosen.user))
    text = json.dumps(found, indent=1, default=str)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
