"""A run of 100,000 trials, nearly all of them finished: how long it takes to open, and how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from hello import write_harbor_tasks

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Cost", "LongRun", "measure_journal"]

TASKS, ATTEMPTS, LEFT = 1000, 100, 10

OPEN = """
import json, resource, sys, time
from pathlib import Path
start = time.perf_counter()
from termarena.core.run_folder import RunFolder
from termarena.runs.opening import open_run
with open_run(RunFolder(Path(sys.argv[1]))) as run:
    print(json.dumps({
        "seconds": time.perf_counter() - start,
        "cpu_s": time.process_time(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "left": len(run.jobs),
    }))
"""
REPORT = """
import contextlib, io, json, resource, sys, time
from termarena.cli.main import main
start = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    status = main(["report", sys.argv[1]])
if status:
    sys.exit(status)
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "cpu_s": time.process_time(),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


class Cost(NamedTuple):
    """Of a whole process."""

    wall_s: float
    cpu_s: float
    """On a busy machine the better figure of the two."""
    peak_mb: float


class LongRun(NamedTuple):
    """What each of the two processes took, its imports included."""

    opening: Cost | None
    """None, as below, where the process failed; its own words are on stderr."""
    reporting: Cost | None


def measure_journal(home: Path) -> LongRun:
    """Write the run, open it in one process, report on it in another."""
    folder = home / "long-run"
    write_run(folder, home / "tasks")
    return LongRun(_cost(OPEN, folder), _cost(REPORT, folder))


def write_run(folder: Path, tasks_folder: Path) -> None:
    """All but a few trials finished, by the run's own code."""
    from termarena.core.run_folder import RunFolder  # noqa: PLC0415 - only --journal needs it
    from termarena.runs.config_lock import RunFacts  # noqa: PLC0415
    from termarena.runs.opening import start_run  # noqa: PLC0415
    from termarena.runs.plan import RunOptions  # noqa: PLC0415
    from termarena.runs.result import TrialSummary  # noqa: PLC0415
    from termarena.tasks import load_dataset  # noqa: PLC0415

    tasks = list(load_dataset(write_harbor_tasks(tasks_folder, TASKS, "debian:bookworm")))
    facts = RunFacts(agent_name="oracle", agent_version="1", driver="docker", dataset="hello")
    with start_run(RunOptions(attempts=ATTEMPTS), tasks, RunFolder(folder), facts) as run:
        keys = [job.plan.key for job in run.jobs]
        for number, key in enumerate(keys[: len(keys) - LEFT]):
            is_solved = bool(number % 3)
            summary = TrialSummary(
                task_id=key.task_id,
                attempt=key.attempt,
                outcome="solved" if is_solved else "unsolved",
                agent_end="submitted",
                failure_mode="NONE" if is_solved else "TEST_FAILED",
                reward=float(is_solved),
                graded_in="sealed",
                tests_passed=int(is_solved),
                tests_total=1,
                duration_s=0.5 + number % 7 / 10,
            )
            run.journal.append("trial_started", {**key._asdict(), "retry": 0})
            run.journal.append("trial_finished", summary.model_dump())


def _cost(code: str, folder: Path) -> Cost | None:
    done = subprocess.run([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        return None
    found = json.loads(done.stdout)
    if found.get("left", LEFT) != LEFT:
        raise SystemExit(f"{LEFT} trials were left, and {found['left']} were found")
    return Cost(found["seconds"], found["cpu_s"], found["peak_mb"])
