"""Comparing runs: how long `termarena compare` takes, from journals on disk to verdicts.

Usage: python benchmarks/stats.py [--rounds 5]

Two cases. *Two large runs*: 1,500 tasks with 5 attempts each, 100,000 permutations drawn; and beside it the same with
all permutations counted, which is what `compare` does by itself. *A leaderboard*: 13 runs of 80 tasks with 5 attempts,
all 78 pairs. Outcomes are drawn; some trials are unscored, so that every pair is compared three times: as it is, and at
both extremes. Each round reads the journals anew. Prints a table (seconds by the clock on the wall, and of processor
time) and one line of JSON; exits 1 if an aim is missed by the wall's.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from termarena.analysis import ComparisonOptions, compare_runs
from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import LockedTask, Origin
from termarena.runs.importing import Ended, ForeignRun, write_foreign
from termarena.runs.reading import read_run
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AIMS_S = {"two runs, 1,500 x 5, 100,000 drawn": 2.0, "two runs, 1,500 x 5, counted": 2.0, "13 runs, 80 x 5": 5.0}
UNSCORED_SHARE = 0.01


def make_run(folder: Path, chances: Sequence[float], *, source: random.Random) -> RunFolder:
    """A run with five attempts at each task, solved with the task's chance."""
    trials = [
        Ended(_summary(f"task-{place:04}", attempt, chance, source), None)
        for place, chance in enumerate(chances)
        for attempt in range(1, 6)
    ]
    tasks = [
        LockedTask(id=f"task-{place:04}", digest="task1:x", path="", format="made") for place in range(len(chances))
    ]
    run = ForeignRun(
        origin=Origin(tool="harbor", version=None, name=folder.name, path=str(folder)),
        agent="made",
        agent_version="1",
        model=None,
        driver="none",
        dataset="made",
        attempts=5,
        tasks=tuple(tasks),
        trials=tuple(trials),
    )
    write_foreign(run, RunFolder(folder))
    return RunFolder(folder)


def _summary(task: str, attempt: int, chance: float, source: random.Random) -> TrialSummary:
    if source.random() < UNSCORED_SHARE:
        return TrialSummary(
            task_id=task, attempt=attempt, outcome="unscored", fault="infra", failure_mode="INFRA_FAULT"
        )
    if source.random() < chance:
        return TrialSummary(task_id=task, attempt=attempt, outcome="solved", failure_mode="NONE", reward=1.0)
    return TrialSummary(task_id=task, attempt=attempt, outcome="unsolved", failure_mode="TEST_FAILED", reward=0.0)


def make_runs(folder: Path, number: int, tasks: int) -> list[RunFolder]:
    """Runs of agents that are alike and not equal."""
    source = random.Random(number * tasks)  # noqa: S311 - a simulation
    common = [source.betavariate(0.4, 0.4) for _ in range(tasks)]
    made = []
    for place in range(number):
        shift = 0.3 * place / number
        chances = [min(1.0, max(0.0, one - shift + source.gauss(0, 0.2))) for one in common]
        made.append(make_run(folder / f"run-{place:02}", chances, source=source))
    return made


class Took(NamedTuple):
    """One round."""

    wall_s: float
    cpu_s: float


def seconds_of(work: Callable[[], object], rounds: int) -> list[Took]:
    """How long it takes, each time."""
    times = []
    for _ in range(rounds):
        start, start_cpu = time.perf_counter(), time.process_time()
        work()
        times.append(Took(time.perf_counter() - start, time.process_time() - start_cpu))
    return times


def measure(rounds: int) -> dict[str, list[Took]]:
    """By case."""
    with tempfile.TemporaryDirectory() as scratch:
        two = make_runs(Path(scratch) / "two", 2, 1500)
        many = make_runs(Path(scratch) / "many", 13, 80)

        def compare(folders: list[RunFolder], permutations: int | None) -> None:
            found = compare_runs([read_run(folder) for folder in folders], ComparisonOptions(permutations=permutations))
            tested = [pair.difference.test for pair in found.pairs if pair.difference is not None]
            assert len(tested) == len(folders) * (len(folders) - 1) // 2  # noqa: S101 - nothing was left out
            assert {test.samples for test in tested} == {permutations}  # noqa: S101 - as asked

        cases: list[Callable[[], object]] = [
            lambda: compare(two, 100_000),
            lambda: compare(two, None),
            lambda: compare(many, None),
        ]
        return {name: seconds_of(case, rounds) for name, case in zip(AIMS_S, cases, strict=True)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    times = measure(parser.parse_args().rounds)
    medians = {name: statistics.median(one.wall_s for one in row) for name, row in times.items()}
    for name, aim_s in AIMS_S.items():
        verdict = "met" if medians[name] < aim_s else "missed"
        cpu_s = statistics.median(one.cpu_s for one in times[name])
        print(f"{name:<40}{medians[name]:6.2f} s ({cpu_s:.2f} s of processor time)   aim: under {aim_s:g} s, {verdict}")
    record = {"schema_version": 1, "kind": "stats", "python": platform.python_version()}
    seconds = {name: [round(one.wall_s, 3) for one in row] for name, row in times.items()}
    print(json.dumps({**record, "wall_s": seconds}))
    return int(any(medians[name] >= aim_s for name, aim_s in AIMS_S.items()))


if __name__ == "__main__":
    sys.exit(main())
