"""Images without an engine: a cached build, what a RUN step costs beside Docker's, many sandboxes on one large image.

    python benchmarks/images.py [--json FILE] [--rounds N] [--size-mb N] [--alive N]

The base is a root file system of busybox. Ours and the engine's builder take turns on the same Dockerfile of ten RUN
steps that do nothing, without cache and without network. Exits 2 without busybox or without an engine that answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, ImageShelf, build_image
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.spec import Network

STEPS = 10
EMPTY = "FROM {base}\n" + "RUN true\n" * STEPS
TASK = (
    "FROM {base}\nENV A=b\nWORKDIR /app\nRUN echo one > one\nCOPY file .\nRUN cat one file > two\nRUN rm one\nCMD sh\n"
)


def _docker(*words: str) -> None:
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    subprocess.run(["docker", *words], env=env, check=True, capture_output=True)  # noqa: S603, S607 - the engine's own client


def _make_base(folder: Path, size_mb: int) -> Path:
    """A tar of busybox with as many megabytes of files beside it, 1 MB each."""
    program = shutil.which("busybox")
    if program is None:
        sys.stderr.write("busybox is not installed: apt-get install busybox-static\n")
        sys.exit(2)
    root = folder / f"root-{size_mb}"
    (root / "bin").mkdir(parents=True)
    shutil.copy(program, root / "bin/busybox")
    for name in ("sh", "true", "cat", "rm", "echo"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "data").mkdir()
    for number in range(size_mb):
        (root / "data" / str(number)).write_bytes(os.urandom(1 << 20))
    target = folder / f"root-{size_mb}.tar"
    subprocess.run(["tar", "-C", root, "-cf", target, "."], check=True)  # noqa: S603, S607 - a tool of the machine
    return target


def _context(folder: Path, text: str, base: str) -> Path:
    folder.mkdir()
    (folder / "Dockerfile").write_text(text.format(base=base))
    (folder / "file").write_text("content\n")
    return folder


async def _timed(shelf: ImageShelf, context: Path, *, use_cache: bool) -> float:
    options = BuildOptions(network=Network(mode="none"), use_cache=use_cache)
    began = time.perf_counter()
    await build_image(shelf, context, "bench/built:1", options)
    return (time.perf_counter() - began) * 1000


async def _builds(shelf: ImageShelf, folder: Path, rounds: int, name: str) -> dict[str, float]:
    task, empty = _context(folder / "task", TASK, name), _context(folder / "empty", EMPTY, name)
    plain = _context(folder / "plain", "FROM {base}\n", name)
    await _timed(shelf, task, use_cache=True)
    cached = [await _timed(shelf, task, use_cache=True) for _ in range(rounds)]
    ours, theirs = [], []
    for _ in range(rounds):
        without = await _timed(shelf, plain, use_cache=False)
        ours.append((await _timed(shelf, empty, use_cache=False) - without) / STEPS)
        began = time.perf_counter()
        _docker("build", "--no-cache", "--network", "none", "-t", f"{name}-empty", str(empty))
        theirs.append((time.perf_counter() - began) * 1000 / STEPS)
    ours_ms, theirs_ms = statistics.median(ours), statistics.median(theirs)
    return {
        "cached_build_ms": statistics.median(cached),
        "run_step_ms": ours_ms,
        "docker_run_step_ms": theirs_ms,
        "run_step_to_docker": ours_ms / theirs_ms,
    }


def _used_mb(folder: Path) -> float:
    told = subprocess.run(["du", "-sm", folder], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607 - a tool of the machine
    return float(told.split()[0])


async def _alive(driver: NamespaceDriver, home: Path, count: int) -> dict[str, float]:
    """Many sandboxes on one large image, beside as many on the host's root."""
    found: dict[str, float] = {}
    roots = {"host": Root(), "image": Root(kind="image", image="bench/large")}
    before = 0.0
    for name, root in roots.items():
        starts, contexts = [], []
        async with driver.start(SandboxSpec(root=root)):
            before = _used_mb(home)
        for _ in range(count):
            context = driver.start(SandboxSpec(root=root))
            began = time.perf_counter()
            await context.__aenter__()
            starts.append((time.perf_counter() - began) * 1000)
            contexts.append(context)
        found[f"{name}_start_ms"] = statistics.median(starts)
        found["disk_growth_mb"] = _used_mb(home) - before
        for context in contexts:
            await context.__aexit__(None, None, None)
    found["start_to_host"] = found["image_start_ms"] / found["host_start_ms"]
    return found


async def measure(folder: Path, *, rounds: int, size_mb: int, alive: int) -> dict[str, object]:
    """Everything, in about a minute on two cores."""
    home, name = folder / "home", f"termarena-bench-{os.getpid()}"
    small, large = _make_base(folder, 0), _make_base(folder, size_mb)
    _docker("import", str(small), name)
    try:
        async with NamespaceDriver(home=home) as driver:
            shelf = ImageShelf(driver, home)
            await shelf.import_archive(small, name=name)
            began = time.perf_counter()
            await shelf.import_archive(large, name="bench/large")
            took_s = time.perf_counter() - began
            return {
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
                "user": "root" if os.geteuid() == 0 else "ordinary user",
                "load_before": os.getloadavg()[0],
                "import_mb_per_s": size_mb / took_s,
                **await _builds(shelf, folder, rounds, name),
                f"alive_{alive}_on_{size_mb}_mb": await _alive(driver, home, alive),
            }
    finally:
        _docker("rmi", "-f", name, f"{name}-empty")


def main() -> None:
    """Measure, print a table, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size-mb", type=int, default=400)
    parser.add_argument("--alive", type=int, default=100)
    options = parser.parse_args()
    try:
        _docker("version")
    except (OSError, subprocess.CalledProcessError):
        sys.stderr.write("no container engine answers: there is nothing to compare with\n")
        sys.exit(2)
    with tempfile.TemporaryDirectory(prefix="termarena-images-", dir="/var/tmp") as folder:
        work = measure(Path(folder), rounds=options.rounds, size_mb=options.size_mb, alive=options.alive)
        found = asyncio.run(work)
    for title, value in found.items():
        print(f"{title:24} {value if not isinstance(value, float) else f'{value:.3f}'}")
    text = json.dumps(found, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
