"""Kills a process that carries out a run, with SIGKILL, at random moments, and resumes it each time; says what it saw.

    python -m support.kill_rounds fake|real FOLDER ROUNDS SEED

`real`: the oracle on the embedded sandbox, of which nothing may be left after a kill; `fake`: trials without sandboxes.
Every process is forked from this one, which has everything imported already and is the reaper of all orphans below it,
so that not one can be overlooked.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import select
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from support.fake_trials import FACTS, FakeRunner, make_tasks
from support.tasks import Made, make_task
from termarena.core.records import read_record
from termarena.core.run_folder import RunFolder
from termarena.runs.journal import JournalReader
from termarena.runs.machine import Budget
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.reading import read_run
from termarena.runs.running import execute, open_run, start_run
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from support.fake_trials import End
    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.engine import TrialRunner
    from termarena.runs.plan import TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.tasks.model import Task

PR_SET_CHILD_SUBREAPER: Final = 36
PATIENCE_S: Final = 30
FOREVER: Final = 1 << 30
ROOM: Final = Budget(cpus=4, memory_mb=1 << 20)
ENDS: Final[dict[str, list[End]]] = {
    "task-001": ["unsolved"],
    "task-002": ["infra", "solved"],
    "task-003": ["task"],
}
DAEMONS: Final = (
    "(setsid sleep 601 &)\ntrap '' TERM\nsetsid sh -c 'trap \"\" TERM; sleep 600' &\necho 1 >/app/one.txt\n"
)


@dataclass(frozen=True)
class Bench:
    """What is run, and where."""

    mode: Literal["fake", "real"]
    place: Path

    @property
    def options(self) -> RunOptions:
        driver = "namespace" if self.mode == "real" else "none"
        return RunOptions(attempts=3, agent="oracle", driver=driver, retry_wait_s=0.002, retries=1)

    @property
    def events(self) -> int:
        """A kill comes after fewer beginnings and ends of trials than this: about half of what a run has."""
        return 24 if self.mode == "fake" else 12

    @property
    def then_s(self) -> float:
        """And within this time after: about as long as a trial takes, or opening a run."""
        return 0.01 if self.mode == "fake" else 0.2

    def make_tasks(self) -> None:
        if self.mode == "fake":
            make_tasks(self.place / "tasks", 8)
            return
        for number in range(4):
            solution = DAEMONS if number % 2 else "echo 1 >/app/one.txt\n"
            make_task(self.place / "tasks" / f"task-{number:03}", Made(solution=solution))

    def runner(self, folder: RunFolder) -> TrialRunner:
        if self.mode == "fake":
            return FakeRunner(ends=ENDS)
        from termarena.runs.trials import Trials  # noqa: PLC0415 - only where sandboxes are

        return Trials(self.options, home=self.place / "home", run_id=folder.id)


class Logged:
    """A runner that writes down every start, behind the back of the journal, and tells a pipe of starts and ends."""

    def __init__(self, runner: TrialRunner, log: Path, pipe: int) -> None:
        self._runner, self._log, self._pipe = runner, log, pipe

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        fd = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, json.dumps([*plan.key, retry]).encode() + b"\n")
        os.close(fd)
        os.write(self._pipe, b".")
        await asyncio.sleep(0.002)
        result = await self._runner.run(plan, task, folder=folder, retry=retry)
        os.write(self._pipe, b".")
        return result

    async def aclose(self) -> None:
        await self._runner.aclose()


def _carry_out(bench: Bench, folder: RunFolder, pipe: int) -> None:
    """In the child: begin or resume, and run to the end."""
    tasks = bench.place / "tasks"
    is_there = folder.config_lock.exists()
    with open_run(folder) if is_there else start_run(bench.options, load_dataset(tasks).tasks, folder, FACTS) as run:
        asyncio.run(execute(run, Logged(bench.runner(folder), folder.path.with_suffix(".log"), pipe), budget=ROOM))


def _one_round(bench: Bench, folder: RunFolder, *, events: int, then_s: float) -> int:
    """Fork, wait for so many events and then for so long, kill; the exit status, negative for a signal."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            _carry_out(bench, folder, write_end)
        except BaseException:  # noqa: BLE001 - the child must not go on with its parent's code
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    while events and os.read(read_end, 1):
        events -= 1
    # Nobody waits for anything here: this lets a random time pass.
    select.select([], [], [], then_s)
    os.close(read_end)
    os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _wait_for_orphans()
    return status


def _wait_for_orphans() -> None:
    """Until nothing lives that the killed process had started; SIGALRM ends the patience."""
    signal.alarm(PATIENCE_S)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    signal.alarm(0)


def _left_over(*_: object) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    left = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in children]
    raise SystemExit(f"still alive {PATIENCE_S} s after the kill: {left}")


def _check_folders(folder: RunFolder) -> None:
    """Every finished try has its whole result; whatever else was begun is kept under another name."""
    finished = [event.fields for event in JournalReader(folder.journal) if event.name == "trial_finished"]
    for fields in finished:
        attempt = folder.attempt(fields["task_id"], fields["attempt"], retry=fields["retry"])
        result = read_record(attempt.result, "trial-result")
        assert (result["retry"], result["outcome"]) == (fields["retry"], fields["outcome"])
        assert not list(attempt.path.glob(".*"))
    whole = {folder.attempt(f["task_id"], f["attempt"], retry=f["retry"]).path for f in finished}
    others = {path for path in folder.trials.glob("*/*") if path not in whole}
    assert all("-interrupted-" in path.name for path in others), others


def _check_order(folder: RunFolder) -> None:
    """No try begins again after it has ended."""
    ended = set()
    for event in JournalReader(folder.journal):
        trial = (event.fields.get("task_id"), event.fields.get("attempt"), event.fields.get("retry"))
        assert event.name != "trial_started" or trial not in ended, trial
        if event.name == "trial_finished":
            ended.add(trial)


def _check(folder: RunFolder) -> dict[str, int]:
    """The finished run: each trial once, none twice."""
    names = Counter(event.name for event in JournalReader(folder.journal))
    finished = [event.fields for event in JournalReader(folder.journal) if event.name == "trial_finished"]
    tries = Counter((fields["task_id"], fields["attempt"], fields["retry"]) for fields in finished)
    assert set(tries.values()) == {1}, tries
    _check_order(folder)
    view = read_run(folder)
    assert view.state == "finished"
    assert {TrialKey(task, attempt) for task, attempt, _ in tries} == set(view.lock.trial_keys())
    assert view.counts.missing == 0
    assert names["trial_started"] == names["trial_finished"] + names["trial_interrupted"]
    begun = [tuple(json.loads(line)) for line in folder.path.with_suffix(".log").read_text().splitlines()]
    assert len(begun) <= names["trial_started"]
    assert set(begun) == set(tries)
    _check_folders(folder)
    return {"interrupted": names["trial_interrupted"], "trials": len(view.history), "solved": view.counts.solved}


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, _left_over)
    bench = Bench("real" if sys.argv[1] == "real" else "fake", Path(sys.argv[2]))
    rounds, moment = int(sys.argv[3]), random.Random(int(sys.argv[4]))  # noqa: S311 - moments, not secrets
    bench.make_tasks()
    seen: Counter[str] = Counter()
    while seen["kills"] < rounds:
        folder = RunFolder(bench.place / f"run-{seen['runs']}")
        is_done = False
        while not is_done:
            events = moment.randrange(bench.events) if seen["kills"] < rounds else FOREVER
            status = _one_round(bench, folder, events=events, then_s=moment.uniform(0, bench.then_s))
            assert status in (0, -signal.SIGKILL), status
            is_done = status == 0
            seen["kills"] += not is_done
        seen["runs"] += 1
        seen.update(_check(folder))
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
