"""A run of a hundred thousand trials: how long its journal takes to write, to fold and to resume from, and the memory.

Usage: python benchmarks/journal.py [--trials 100000] [--rounds 3]

The run is of a thousand tasks; all but ten trials have an outcome. Each round opens it in a fresh process, as
`termarena resume` and `termarena report` do, without starting anything. Prints a table and one line of JSON; exits 1 if
resuming takes five seconds or more of processor time, or if a trial costs more than a kilobyte of memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import RunFacts
from termarena.runs.journal import Journal
from termarena.runs.opening import start_run
from termarena.runs.plan import RunOptions
from termarena.runs.reading import history_of
from termarena.runs.result import TrialSummary
from termarena.tasks import load_dataset

TASKS = 1000
LEFT = 10
WANTED_S = 5.0
WANTED_BYTES_PER_TRIAL = 1024

OPENING = """
import json, sys, time
from pathlib import Path
from termarena.core.run_folder import RunFolder
from termarena.runs.opening import open_run
from termarena.runs.reading import read_run
folder = RunFolder(Path(sys.argv[1]))
def peak():  # of this program alone: getrusage counts its parent's in
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
before = peak()
start = time.process_time()
counts = read_run(folder).counts
read = time.process_time()
grown = peak() - before
with open_run(folder) as run:
    left = len(run.jobs)
done = time.process_time()
print(json.dumps({"read_s": read - start, "resume_s": done - read, "left": left, "bytes": grown}))
"""


def make_run(place: Path, trials: int) -> tuple[RunFolder, float]:
    """The run, and the seconds that a line took."""
    source = place / "tasks.json"
    entries = [{"task_id": f"task-{n:04}", "instruction": "Do it.", "test_script": "true"} for n in range(TASKS)]
    source.write_text(json.dumps(entries))
    folder = RunFolder(place / "run")
    facts = RunFacts(agent_name="none", agent_version="1", driver="none", dataset="made")
    options = RunOptions(attempts=trials // TASKS)
    with start_run(options, load_dataset(source).tasks, folder, facts) as run:
        keys = list(islice(run.lock.trial_keys(), trials - LEFT))
    with Journal(folder.journal, history_of(folder.journal).tail) as journal:
        start = time.process_time()
        for number, key in enumerate(keys):
            journal.append("trial_started", {**key._asdict(), "retry": 0})
            journal.append("trial_finished", summary_of(number).model_dump() | key._asdict())
        return folder, (time.process_time() - start) / len(keys) / 2


def summary_of(number: int) -> TrialSummary:
    """An outcome with every field that usually has a value."""
    return TrialSummary(
        task_id="",
        attempt=1,
        outcome="solved" if number % 3 else "unsolved",
        agent_end="submitted",
        failure_mode="NONE" if number % 3 else "TEST_FAILED",
        reward=float(number % 3 > 0),
        graded_in="sealed",
        tests_passed=number % 7,
        tests_total=7,
        duration_s=12.5 + number / 7,
        work_s=10.25 + number / 9,
        commands=number % 50,
        input_tokens=1000 + number,
        output_tokens=number,
        cost_usd=number / 1000,
    )


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, line_s = make_run(Path(place), options.trials)
        size_bytes = folder.journal.stat().st_size
        command = [sys.executable, "-c", OPENING, str(folder.path)]
        opened = [json.loads(subprocess.check_output(command)) for _ in range(options.rounds)]  # noqa: S603 - ours
    medians = {name: statistics.median(one[name] for one in opened) for name in ("read_s", "resume_s", "bytes")}
    per_trial = medians["bytes"] / options.trials
    print(
        f"{options.trials} trials, a journal of {size_bytes / 1e6:.0f} MB; medians of {options.rounds}, processor time"
    )
    print(f"writing an event        {line_s * 1e6:8.1f} µs")
    print(f"reading for a report    {medians['read_s']:8.2f} s")
    print(f"opening to resume       {medians['resume_s']:8.2f} s   (limit {WANTED_S:g})")
    print(f"memory                  {per_trial:8.0f} bytes per trial   (limit {WANTED_BYTES_PER_TRIAL})")
    print(json.dumps({"python": platform.python_version(), "line_s": line_s, "bytes_per_trial": per_trial, **medians}))
    return int(medians["resume_s"] >= WANTED_S or per_trial > WANTED_BYTES_PER_TRIAL)


if __name__ == "__main__":
    sys.exit(main())
