"""Tasks of several services: from the compose file to a healthy pair and back to nothing, embedded beside an engine.

    python benchmarks/services.py [--json FILE] [--rounds N]

Both drivers take turns on one file: a web server with a healthcheck, and a main service that waits for it, on a base
of busybox that both have already. Exits 2 without busybox, without an engine that answers or without Compose.
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

from termarena.core.errors import SandboxError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver

BASE = f"termarena-bench-services-{os.getpid()}:1"
FILE = f"""
services:
  main: {{image: "{BASE}", depends_on: {{web: {{condition: service_healthy}}}}}}
  web:
    image: "{BASE}"
    command: [httpd, -f, -p, "8000"]
    healthcheck: {{test: [CMD, "true"], interval: 100ms}}
"""


def _leave(reason: str) -> None:
    sys.stderr.write(f"{reason}\n")
    sys.exit(2)


def _make_base(folder: Path) -> Path:
    program = shutil.which("busybox")
    if program is None or shutil.which("docker") is None or shutil.which("docker-compose") is None:
        _leave("busybox, docker and docker-compose are needed: apt-get install busybox-static docker.io docker-compose")
        raise AssertionError
    (folder / "root/bin").mkdir(parents=True)
    shutil.copy(program, folder / "root/bin/busybox")
    for name in ("sh", "true", "httpd", "sleep", "mkdir", "cat"):
        (folder / "root/bin" / name).symlink_to("busybox")
    subprocess.run(["tar", "-C", folder / "root", "-cf", folder / "root.tar", "."], check=True)  # noqa: S603, S607 - a tool of the machine
    return folder / "root.tar"


async def _once(driver: NamespaceDriver | DockerDriver, spec: SandboxSpec) -> float:
    began = time.monotonic()
    async with driver.start(spec) as box:
        done = await box.exec(["true"])
        if done.exit_status != 0:
            raise SystemExit(f"the command failed: {done.stderr!r}")
    return time.monotonic() - began


async def _measure(folder: Path, archive: Path, rounds: int) -> dict[str, list[float]]:
    (folder / "task").mkdir()
    (folder / "task/docker-compose.yaml").write_text(FILE)
    spec = SandboxSpec(root=Root(kind="compose", path=folder / "task/docker-compose.yaml"))
    took: dict[str, list[float]] = {"namespace": [], "docker": []}
    async with NamespaceDriver(home=folder / "home") as ours, DockerDriver(home=folder / "home") as theirs:
        shelf = ImageShelf(ours, folder / "home")
        await shelf.import_archive(archive, name=BASE)
        shelf.close()
        for round_number in range(rounds + 1):
            for name, driver in (("namespace", ours), ("docker", theirs)):
                took_s = await _once(driver, spec)
                if round_number:
                    took[name].append(took_s)
    return took


def main() -> None:
    """Measure, print a table and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        archive = _make_base(Path(place))
        imported = subprocess.run(["docker", "import", archive, BASE], check=False, capture_output=True, text=True)  # noqa: S603, S607 - the engine's own client
        if imported.returncode != 0:
            _leave(f"no engine answers: {imported.stderr.strip()}")
        try:
            took = asyncio.run(_measure(Path(place), archive, options.rounds))
        except SandboxError as error:
            _leave(f"it could not be measured: {error}")
            raise
        finally:
            subprocess.run(["docker", "rmi", "-f", BASE], check=False, capture_output=True)  # noqa: S603, S607 - as above
    medians = {name: statistics.median(times) for name, times in took.items()}
    for name, median_s in medians.items():
        print(f"{name:10} {median_s * 1000:8.0f} ms")
    ratio = medians["docker"] / medians["namespace"]
    print(f"ratio      {ratio:8.1f}")
    report = {"rounds": options.rounds, "seconds": took, "ratio": ratio, "load": os.getloadavg()[0]}
    text = json.dumps({**report, "machine": platform.platform()}, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text)


if __name__ == "__main__":
    main()
