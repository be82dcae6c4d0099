"""What it costs that users and owners are recorded, where a user has one id: the same calls with and without.

    python benchmarks/owners.py [--json FILE] [--rounds N]

Run it as an ordinary user. The same busybox looks at the same files in a sandbox on a root file system of its own,
where process 1 answers calls about owners, and in one on the host's files, where nobody does; they take turns. Exits 2
as root, who has all ids, and without busybox.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from termarena.sandbox import Sandbox

FILES = 4000
MAKE = f"mkdir /tmp/d && cd /tmp/d && i=0; while [ $i -lt {FILES} ]; do : > f$i; i=$((i+1)); done"
JOBS = {"stat": "find /tmp/d -size +1k", "chown": "chown -R 0:0 /tmp/d", "nothing": "find /tmp/d -maxdepth 0"}


def _leave(reason: str) -> None:
    sys.stderr.write(f"{reason}\n")
    sys.exit(2)


def _make_root(folder: Path) -> None:
    program = shutil.which("busybox")
    if program is None:
        _leave("busybox is needed: apt-get install busybox-static")
        raise AssertionError
    for name in ("bin", "etc", "tmp"):
        (folder / name).mkdir(parents=True)
    shutil.copy(program, folder / "bin/busybox")
    for name in ("sh", "find", "chown", "mkdir"):
        (folder / "bin" / name).symlink_to("busybox")


async def _took_s(box: Sandbox, script: str) -> float:
    began = time.monotonic()
    done = await box.exec(["busybox", "sh", "-c", script], env={"PATH": "/bin"})
    if done.exit_status != 0:
        raise SystemExit(f"{script} failed: {done.stderr!r}")
    return time.monotonic() - began


async def _measure(folder: Path, rounds: int) -> dict[str, float]:
    """Microseconds per file of each job, by sandbox."""
    took: dict[str, list[float]] = {}
    own = SandboxSpec(root=Root(kind="folder", path=folder / "root"))
    async with (
        NamespaceDriver(home=folder / "home", allow_ranges=False) as driver,
        driver.start(own) as recorded,
        driver.start(SandboxSpec()) as plain,
    ):
        boxes = {"recorded": recorded, "plain": plain}
        for box in boxes.values():
            await _took_s(box, MAKE)
        for _ in range(rounds):
            for kind, box in boxes.items():
                for job, script in JOBS.items():
                    took.setdefault(f"{kind} {job}", []).append(await _took_s(box, f"busybox {script}"))
    best = {name: statistics.median(values) for name, values in took.items()}
    return {
        f"{kind}_{job}_us": round((best[f"{kind} {job}"] - best[f"{kind} nothing"]) * 1e6 / FILES, 2)
        for kind in boxes
        for job in ("stat", "chown")
    }


def main() -> None:
    """Measure, print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.geteuid() == 0:
        _leave("run it as an ordinary user: root has all ids")
    with tempfile.TemporaryDirectory() as scratch:
        _make_root(Path(scratch) / "root")
        figures = asyncio.run(_measure(Path(scratch), options.rounds))
    report = {"python": platform.python_version(), "files": FILES, "rounds": options.rounds, **figures}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
