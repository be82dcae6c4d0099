"""A run in a process of its own, to be interrupted or killed; `begin` starts one.

    python -m support.run_process quick|hang|stubborn TASKS RUN

`hang`: every trial hangs until it is cancelled, and a line says so; `stubborn`: it then does not end either. A run that
is there already is resumed. Ends as the command line does: 0, 1, 2 or 130.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from support.fake_trials import FACTS, FakeRunner
from termarena.core.errors import TermArenaError
from termarena.core.run_folder import RunFolder
from termarena.runs.machine import Budget
from termarena.runs.plan import RunOptions
from termarena.runs.running import execute, open_run, start_run
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.fake_trials import End
    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.plan import TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.runs.running import OpenRun
    from termarena.tasks.model import Task

ROOM = Budget(cpus=4, memory_mb=1 << 20)
HERE = Path(__file__).parent.parent


def begin(mode: Literal["quick", "hang", "stubborn"], tasks: Path, folder: RunFolder) -> subprocess.Popen[bytes]:
    """Start the process; the caller ends it."""
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "support.run_process", mode, str(tasks), str(folder.path)],
        env=with_tests(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def with_tests(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python finds what stands beside the tests."""
    return {**environment, "PYTHONPATH": str(HERE)}


def _tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())


class _Hanging(FakeRunner):
    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        _tell("hanging")
        return await super().run(plan, task, folder=folder, retry=retry)


class _Stubborn(_Hanging):
    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        while True:
            try:
                return await super().run(plan, task, folder=folder, retry=retry)
            except asyncio.CancelledError:
                _tell("asked to stop")
                (folder.path / "trajectory.json").unlink()


def _runner(mode: str, run: OpenRun) -> FakeRunner:
    if mode == "quick":
        return FakeRunner()
    hanging: dict[str, tuple[End]] = dict.fromkeys(run.tasks, ("hang",))
    return _Hanging(ends=hanging) if mode == "hang" else _Stubborn(ends=hanging)


def _open(folder: RunFolder, tasks: Path) -> OpenRun:
    if folder.config_lock.exists():
        return open_run(folder)
    return start_run(RunOptions(), load_dataset(tasks).tasks, folder, FACTS)


async def _main(mode: str, tasks: Path, folder: RunFolder) -> int:
    with _open(folder, tasks) as run:
        end = await execute(run, _runner(mode, run), budget=ROOM)
    return 130 if end.reason == "interrupted" else 0


if __name__ == "__main__":
    try:
        status = asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), RunFolder(Path(sys.argv[3]))))
    except TermArenaError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        status = error.exit_status
    sys.exit(status)
