"""Loading and validating thousands of Harbor folders: TermArena beside Harbor's own loader, on the same folders.

Usage: python benchmarks/load_tasks.py [--folder TASKS | --distinct] [--tasks 3500] [--rounds 5]
       [--harbor-python PYTHON]

Without --folder, folders of the shape of a large public set are made: 8 files in 5 folders each, and one task.toml for
all of them, as in that set (TermArena checks a document once); with --distinct, no two are alike. PYTHON is an
interpreter that has the package harbor installed; without it, only TermArena is measured, and the end is status 2, "not
measured". Each round is a fresh process
for each of the two, taking turns, so that a change in the machine's load falls on both. Prints a table and one line of
JSON; exits 1 if TermArena is less than ten times as fast, or if its memory grows with the files' contents.

What is compared is what each does before a run can start: find the tasks in a folder, check each one, build its object.
Harbor: `Task.is_valid_dir`, then `Task`. TermArena: `load_dataset`. The digest (Harbor: `checksum`) and the static
rules, which Harbor does not have, are measured apart.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WANTED_RATIO = 10
WANTED_GROWTH_MB = 8

OURS = """
import json, resource, sys, time
from termarena.tasks import load_dataset
from termarena.tasks.lint import lint
start = time.perf_counter()
dataset = load_dataset(sys.argv[1])
loaded = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
times = {"load": loaded - start}
if len(sys.argv) > 2:
    for task in dataset: task.digest
    times["digest"] = time.perf_counter() - loaded
    loaded = time.perf_counter()
    for task in dataset: lint(task)
    times["lint"] = time.perf_counter() - loaded
print(json.dumps({"tasks": len(dataset), "seconds": times, "peak_kb": peak}))
"""
HARBORS = """
import json, pathlib, sys, time, warnings
warnings.simplefilter("ignore")
from harbor.models.task.task import Task
start = time.perf_counter()
folders = [path for path in sorted(pathlib.Path(sys.argv[1]).iterdir()) if path.is_dir() and Task.is_valid_dir(path)]
tasks = [Task(path) for path in folders]
loaded = time.perf_counter()
for task in tasks: task.checksum
print(json.dumps({"tasks": len(tasks), "seconds": {"load": loaded - start, "digest": time.perf_counter() - loaded}}))
"""
TASK_TOML = """\
version = "1.0"

[metadata]
author_name = "Example"
author_email = "example@example.org"
difficulty = "medium"
category = "software-engineering"
tags = ["coding", "automation"]
expert_time_estimate_min = 30.0
junior_time_estimate_min = 60.0

[verifier]
timeout_sec = 240.0

[agent]
timeout_sec = 900.0

[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 2048
storage_mb = 10240
gpus = 0
allow_internet = true
mcp_servers = []

[verifier.env]

[solution.env]
"""


def make_tasks(folder: Path, count: int, *, data_bytes: int, distinct: bool = False) -> Path:
    """Write `count` tasks; `data_bytes` is the size of the one data file of each."""
    for number in range(count):
        task = folder / f"task-{number:05}"
        files = {
            "task.toml": TASK_TOML.replace('"coding"', f'"coding-{number}"') if distinct else TASK_TOML,
            "instruction.md": f"Task {number}: mend /app/src/main.py.\n"
            + "It must handle every row of the input.\n" * 60,
            "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY . /app\n",
            "environment/src/main.py": "import csv\n" * 40,
            "environment/data/input.csv": "a,b,c\n" * (data_bytes // 6),
            "environment/config.ini": "[main]\nkey = value\n",
            "tests/test.sh": "#!/bin/sh\npytest /tests/test_outputs.py && echo 1 >/logs/verifier/reward.txt\n",
            "tests/test_outputs.py": "def test_it():\n    assert open('/app/out.txt').read() == 'ok'\n" * 20,
        }
        for name, text in files.items():
            place = task / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    return folder


def run(python: str, code: str, *arguments: str) -> dict[str, object]:
    """One round in a fresh process."""
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=True)  # noqa: S603
    result: dict[str, object] = json.loads(done.stdout)
    return result


def measure(folder: Path, rounds: int, harbor: str | None) -> dict[str, dict[str, list[float]]]:
    """Microseconds per task, by program and by what was done."""
    programs = {"termarena": (sys.executable, OURS), **({"harbor": (harbor, HARBORS)} if harbor else {})}
    times: dict[str, dict[str, list[float]]] = {name: {} for name in programs}
    for turn in range(rounds + 1):
        for name, (python, code) in programs.items():
            result = run(python, code, str(folder), "all")
            if turn:  # the first warms the disk cache
                for what, seconds in result["seconds"].items():  # type: ignore[attr-defined]  # as the code above prints
                    times[name].setdefault(what, []).append(seconds / result["tasks"] * 1e6)
    return times


def growth_mb(count: int) -> float:
    """How much more memory loading takes when the files hold a hundred times as much."""
    peaks = []
    for data_bytes in (2_000, 200_000):
        with tempfile.TemporaryDirectory() as scratch:
            folder = make_tasks(Path(scratch), count, data_bytes=data_bytes)
            peaks.append(int(str(run(sys.executable, OURS, str(folder))["peak_kb"])))
    return (peaks[1] - peaks[0]) / 1024


def has_harbor(python: str | None) -> bool:
    """Whether there is an interpreter, and it can import Harbor's loader."""
    if python is None or shutil.which(python) is None:
        return False
    code = "import harbor.models.task.task"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0  # noqa: S603


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="a folder of Harbor tasks; made if not given")
    parser.add_argument("--distinct", action="store_true", help="make folders of which no two share a task.toml")
    parser.add_argument("--tasks", type=int, default=3500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--harbor-python", help="an interpreter with harbor installed")
    options = parser.parse_args()
    harbor = options.harbor_python if has_harbor(options.harbor_python) else None
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or make_tasks(Path(scratch), options.tasks, data_bytes=2_000, distinct=options.distinct)
        times = measure(folder, options.rounds, harbor)
    medians = {name: {what: statistics.median(row) for what, row in rows.items()} for name, rows in times.items()}
    for what in ("load", "digest", "lint"):
        row = "  ".join(f"{name} {rows[what]:7.0f} µs" for name, rows in medians.items() if what in rows)
        print(f"{what:<8}{row}")
    grown = growth_mb(200)
    ratio = medians["harbor"]["load"] / medians["termarena"]["load"] if "harbor" in medians else None
    print(f"ratio   {ratio:.1f}" if ratio else "ratio   not measured: --harbor-python names no interpreter with harbor")
    print(f"memory  {grown:+.1f} MB when 200 tasks hold 40 MB instead of 0.4 MB")
    record = {"schema_version": 1, "kind": "load-tasks", "python": platform.python_version(), "us_per_task": medians}
    print(json.dumps({**record, "ratio": ratio, "growth_mb": round(grown, 2)}))
    if grown > WANTED_GROWTH_MB or (ratio is not None and ratio < WANTED_RATIO):
        return 1
    return 2 if ratio is None else 0


if __name__ == "__main__":
    sys.exit(main())
