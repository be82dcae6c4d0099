"""Runs as an arena takes them in, and a server over them."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import ConfigLock, LockedDataset, LockedTask, Versions, digest_of_all
from termarena.runs.journal import Journal, now
from termarena.runs.opening import begin_run
from termarena.runs.plan import RunOptions
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["ATTEMPTS", "TASKS", "make_run", "serving"]

TASKS, ATTEMPTS, AGENTS, RUNS_OF_ONE = 100, 5, 20, 5


def make_run(place: Path, number: int, chance: random.Random) -> RunFolder:
    """One run, with a journal as a real one has it."""
    dataset, agent = number // (AGENTS * RUNS_OF_ONE), number % AGENTS
    tasks = tuple(
        LockedTask(id=f"set-{dataset}/task-{n:03}", digest="task1:same", path="", format="harbor") for n in range(TASKS)
    )
    options = RunOptions(agent=f"agents:Number{agent}", model=f"acme/model-{agent % 7}", attempts=ATTEMPTS)
    lock = ConfigLock(
        created_at=now(),
        options=options,
        agent=options.agent,
        driver="namespace",
        versions=Versions(termarena="0", python="3", kernel="6", agent="1", driver=None),
        dataset=LockedDataset(name=f"set-{dataset}", digest=digest_of_all(tasks)),
        tasks=tasks,
        machine=None,
        argv=(),
    )
    folder = RunFolder(place / f"run-{number:05}")
    with begin_run(folder, lock) as journal:
        _write_trials(journal, tasks, agent, chance)
    return folder


def _write_trials(journal: Journal, tasks: tuple[LockedTask, ...], agent: int, chance: random.Random) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        for place, task in enumerate(tasks):
            is_solved = chance.random() < 0.2 + 0.03 * agent - 0.004 * (place % 50)
            summary = TrialSummary(
                task_id=task.id,
                attempt=attempt,
                outcome="solved" if is_solved else "unsolved",
                agent_end="submitted",
                failure_mode="NONE" if is_solved else "TEST_FAILED",
                reward=float(is_solved),
                graded_in="sealed",
                tests_passed=3,
                tests_total=4,
                duration_s=20.0,
                work_s=15.0,
                commands=12,
                input_tokens=30_000,
                output_tokens=2_000,
                cost_usd=0.01 * (1 + agent % 7),
            )
            journal.append("trial_finished", summary.model_dump(mode="json"))
    journal.append("run_finished", {})


@contextmanager
def serving(db: Path, runs: Path | None = None) -> Iterator[tuple[str, int]]:
    """A server over the database, and over these runs or none: its address and its process."""
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as empty:
        words = ["serve", "--runs", str(runs or empty), "--db", f"sqlite:///{db}", "--port", "0", "--no-battles"]
        server = subprocess.Popen([sys.executable, "-m", "termarena", *words], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own program
        try:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            yield server.stdout.readline().strip(), server.pid
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
