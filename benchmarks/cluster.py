"""What a cluster costs: the same trials by `--engine local` and by `--engine ray`, with the same number of slots.

Usage: python benchmarks/cluster.py [--trials 1000] [--tasks 20] [--json]

A Ray cluster is started on this machine: a head that carries out nothing, and two nodes of one processor each. Locally
two trials run at once. The agent is `nop`, on the embedded sandbox, and every task asks for one processor. A small run
by each engine comes first, so that neither makes the root file system. Both are timed as whole commands: starting,
connecting and the report are in it. Exits 1 if the cluster takes more than 1.5 times as long, 2 without Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent / "beside"))

from hello import write_harbor_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED_RATIO = 1.5
SLOTS = 2
# Not 127.0.0.1, which Ray takes for the machine's own address on the network.
SHARED: dict[str, Any] = {"node_ip_address": "127.0.0.2", "object_store_memory": 80 << 20, "include_dashboard": False}


@contextmanager
def two_nodes() -> Iterator[str]:
    """The address of a cluster that lives as long as the block."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra, and its environment is set first

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SHARED})
    try:
        for _ in range(SLOTS):
            cluster.add_node(num_cpus=1, memory=4 << 30, **SHARED)
        yield cluster.address
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call] # Ray's own has no types


def timed(tasks: Path, out: Path, attempts: int, *engine: str) -> float:
    """Seconds of one command."""
    words = ["run", "--path", str(tasks), "--agent", "nop", "--driver", "namespace", "--out", str(out)]
    command = [sys.executable, "-m", "termarena", *words, "--attempts", str(attempts), *engine, "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own program
    took_s = time.perf_counter() - start
    found = json.loads(done.stdout)
    if found["unsolved"] != found["total"]:
        raise SystemExit(f"not measured: {found['unscored']} of {found['total']} trials were not scored")
    return took_s


def measure(place: Path, *, tasks: int, trials: int) -> dict[str, float]:
    """Seconds by engine."""
    write_harbor_tasks(place / "tasks", tasks, "debian:bookworm-slim")
    with two_nodes() as address:
        engines = {
            "local": ["--engine", "local", "--concurrency", str(SLOTS)],
            "ray": ["--engine", "ray", "--address", address],
        }
        for name, words in engines.items():
            timed(place / "tasks", place / f"{name}-first", 1, *words)
        return {
            name: timed(place / "tasks", place / f"{name}-run", trials // tasks, *words)
            for name, words in engines.items()
        }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if find_spec("ray") is None:
        print("not measured: Ray is not installed (pip install 'termarena[ray]')")
        return 2
    with tempfile.TemporaryDirectory(prefix="ta-", dir="/tmp") as scratch:  # short: sockets lie below it
        (Path(scratch) / "ray").mkdir()
        os.environ |= {
            "RAY_TMPDIR": scratch,
            "RAY_USAGE_STATS_ENABLED": "0",
            "TERMARENA_HOME": f"{scratch}/home",
        }
        took_s = measure(Path(scratch), tasks=given.tasks, trials=given.trials)
    ratio = took_s["ray"] / took_s["local"]
    if not given.json:
        for name, seconds in took_s.items():
            print(f"{name:<6} {given.trials} trials  {seconds:8.1f} s  {1000 * seconds / given.trials:7.1f} ms each")
        print(f"the cluster takes {ratio:.2f} times as long (aim: at most {WANTED_RATIO})")
    facts = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    print(json.dumps({"trials": given.trials, "seconds": took_s, "ratio": ratio, **facts}))
    return int(ratio > WANTED_RATIO)


if __name__ == "__main__":
    sys.exit(main())
