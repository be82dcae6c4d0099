"""What a proof costs: the whole battery over bundled samples, and beside it the same with containers.

Usage: python benchmarks/prove.py [--task NAME …] [--jobs N] [--docker] [--out FOLDER] [--json]

Every battery is fresh: nothing that was found before is used. The aims, on 2 cores with the embedded driver: a median
under 30 s, and no task over 120 s. --docker proves the same tasks with the docker driver too, one after the other, and
gives the ratio of the times; the samples' base image must be on the engine. --out keeps the proofs and their cards, a
folder for each driver.

Prints a table and the median, or JSON. Exits 0 if the aims were met, 1 if one was missed, 2 where the machine has no
user namespaces or, with --docker, no engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from termarena.core.errors import TermArenaError
from termarena.proof.proving import Proven, ProveOptions, prove
from termarena.sandbox.drivers import check_driver
from termarena.tasks import load_dataset

MEDIAN_S, LONGEST_S = 30.0, 120.0


class Took(NamedTuple):
    """One task's battery."""

    task: str
    driver: str
    seconds: float
    trials: int
    grade: str


def _prove(names: list[str] | None, driver: str, jobs: int, out: Path | None) -> list[Took]:
    """One task after the other, so that none waits for another's turns."""
    kept = None if out is None else out / driver
    tasks = [task for task in load_dataset("samples") if names is None or task.id.removeprefix("termarena/") in names]
    with tempfile.TemporaryDirectory() as home:
        options = ProveOptions(home=Path(home), driver=driver, jobs=jobs, is_cached=False)
        return [_took(asyncio.run(prove([task], options, out=kept, on_proof=_tell))[0], driver) for task in tasks]


def _tell(proven: Proven) -> None:
    seconds = f"{proven.proof.seconds:.1f} s" if proven.proof else str(proven.error)
    print(f"{proven.task.id}: {seconds}", file=sys.stderr)


def _took(proven: Proven, driver: str) -> Took:
    if proven.proof is None:
        raise SystemExit(f"{proven.task.id} could not be tried: {proven.error}")
    proof = proven.proof
    return Took(proof.task_id, driver, proof.seconds, proof.trials, proof.letter)


def _print(took: list[Took], found: dict[str, object]) -> None:
    print("| task | driver | battery | trials | grade |\n|---|---|---|---|---|")
    for one in took:
        print(f"| {one.task} | {one.driver} | {one.seconds:.1f} s | {one.trials} | {one.grade} |")
    for name, value in found.items():
        print(f"{name}: {value}")


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="What a proof costs.")
    parser.add_argument("--task", action="append", help="a sample by its name; all by default")
    parser.add_argument("--jobs", type=int, default=0, help="trials at once; as many as processors by default")
    parser.add_argument("--docker", action="store_true", help="the same with containers, and the ratio")
    parser.add_argument("--out", type=Path, help="a folder for the proofs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    drivers = ["namespace", *(["docker"] if given.docker else [])]
    try:
        for driver in drivers:
            check_driver(driver)
    except TermArenaError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    took = [one for driver in drivers for one in _prove(given.task, driver, given.jobs, given.out)]
    seconds = {name: [one.seconds for one in took if one.driver == name] for name in drivers}
    median, longest = statistics.median(seconds["namespace"]), max(seconds["namespace"])
    found: dict[str, object] = {
        "median_s": round(median, 1),
        "longest_s": round(longest, 1),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    if given.docker:
        found["docker_ratio"] = round(sum(seconds["docker"]) / sum(seconds["namespace"]), 1)
    if not given.json:
        _print(took, found)
    print(json.dumps({**found, "tasks": [one._asdict() for one in took]}))
    return 0 if median < MEDIAN_S and longest < LONGEST_S else 1


if __name__ == "__main__":
    sys.exit(main())
