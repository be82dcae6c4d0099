"""How long `termarena --help`, `--version` and a run of one small task take, beside an interpreter that does nothing.

Usage: python benchmarks/startup.py [--rounds 40]. The commands take turns, so that a change in the machine's load falls
on all of them. The run is an oracle's at the bundled hello-world in an embedded sandbox, nearly all of it the program's
beginning and end; where there are no such sandboxes, its row is missing. Wall time, and beside it the processor time of
all its processes. Prints a table and then one line of JSON.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import termarena
from termarena.sandbox.namespace.probe import probe

LIMIT_MS = 150
ENOUGH_ROUNDS = 30


RUN = "termarena run"


class Taken(NamedTuple):
    """What one command took, from start to end."""

    wall_ms: float
    cpu_ms: float
    """Of all its processes."""


def commands(place: Path) -> dict[str, list[str]]:
    """What is measured: the installed command, as a shell would start it."""
    program = str(Path(sys.executable).with_name("termarena"))
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "termarena --version": [program, "--version"],
        "termarena --help": [program, "--help"],
    }
    if probe(place).can_run:
        found[RUN] = [program, "run", "--dataset", "samples", "--task", "hello-world", "--driver", "namespace"]
    return found


def taken_by(command: list[str], place: Path) -> Taken:
    """Run a command to its end; raises `CalledProcessError` if it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "TERMARENA_HOME": str(place / "home")}
    subprocess.run(command, capture_output=True, check=True, cwd=place, env=env)  # noqa: S603 - the commands above
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(wall_s * 1000, cpu_s * 1000)


def measure(rounds: int) -> dict[str, list[Taken]]:
    """What every command took, after one round that warms the disk cache; compiled, as an installed package is."""
    compileall.compile_dir(Path(termarena.__file__).parent, quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        measured = commands(place)
        times: dict[str, list[Taken]] = {name: [] for name in measured}
        for turn in range(rounds + 1):
            for name, command in measured.items():
                taken = taken_by(command, place)
                if turn:
                    times[name].append(taken)
    return times


def main() -> None:
    """Measure and print. Judging is left to the reader: what fails on a busy machine is the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = max(parser.parse_args().rounds, ENOUGH_ROUNDS)
    times = measure(rounds)
    print(f"{'command':<22} {'median':>9} {'lowest':>9} {'90 %':>9} {'processor':>9}")
    rows = {}
    for name, taken in times.items():
        walls = [one.wall_ms for one in taken]
        median, lowest, high = statistics.median(walls), min(walls), statistics.quantiles(walls, n=10)[-1]
        cpu = statistics.median(one.cpu_ms for one in taken)
        print(f"{name:<22} {median:>6.1f} ms {lowest:>6.1f} ms {high:>6.1f} ms {cpu:>6.1f} ms")
        found = {"median_ms": median, "lowest_ms": lowest, "p90_ms": high, "cpu_ms": cpu}
        rows[name] = {key: round(value, 1) for key, value in found.items()}
    about = {"python": platform.python_version(), "rounds": rounds, "load": os.getloadavg()[0]}
    within = all(row["median_ms"] <= LIMIT_MS for name, row in rows.items() if name != RUN)
    print(json.dumps({"schema_version": 1, "kind": "startup", **about, "within_150_ms": within, "times": rows}))


if __name__ == "__main__":
    main()
