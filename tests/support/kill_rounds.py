"""Kills a process that carries out a run, with SIGKILL, at random moments, and resumes it each time; says what it saw.

    python -m support.kill_rounds FOLDER ROUNDS SEED

Every process is forked from this one, which has everything imported already: a round takes milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from support.fake_trials import FACTS, FakeRunner, make_tasks
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
    from termarena.runs.plan import TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.tasks.model import Task

TASKS = 8
OPTIONS = RunOptions(attempts=3, retry_wait_s=0.002)
ENDS: dict[str, list[End]] = {"task-001": ["unsolved"], "task-002": ["infra", "solved"], "task-003": ["task"]}
ROOM = Budget(cpus=4, memory_mb=1 << 20)
# The whole run takes about as long as the longest of these moments.
LATEST_S = 0.12


class Logging(FakeRunner):
    """Writes down every start, behind the back of the journal."""

    log: Path
    chance: random.Random

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        _append(self.log, {"key": list(plan.key), "retry": retry})
        await asyncio.sleep(self.chance.uniform(0, 0.01))
        return await super().run(plan, task, folder=folder, retry=retry)


def _append(log: Path, entry: object) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, json.dumps(entry).encode() + b"\n")
    os.close(fd)


def _carry_out(folder: RunFolder, tasks: Path, seed: int) -> None:
    """In the child: begin or resume, and run to the end."""
    runner = Logging(ends=ENDS)
    runner.log, runner.chance = folder.path.with_suffix(".log"), random.Random(seed)  # noqa: S311 - moments
    is_there = folder.config_lock.exists()
    with open_run(folder) if is_there else start_run(OPTIONS, load_dataset(tasks).tasks, folder, FACTS) as run:
        asyncio.run(execute(run, runner, budget=ROOM))


def _one_round(folder: RunFolder, tasks: Path, *, seed: int, after_s: float | None) -> int:
    """Fork, wait for so long (None: until it ends), kill; the status as `waitpid` has it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            _carry_out(folder, tasks, seed)
        except BaseException:  # noqa: BLE001 - the child must not go on with its parent's code
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    # The pipe closes when the child ends: this lets a random time pass, and no longer than the child lives.
    select.select([read_end], [], [], after_s)
    os.close(read_end)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


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
    ended = set()
    for event in JournalReader(folder.journal):
        trial = (event.fields.get("task_id"), event.fields.get("attempt"), event.fields.get("retry"))
        assert event.name != "trial_started" or trial not in ended, trial
        if event.name == "trial_finished":
            ended.add(trial)


def _check(folder: RunFolder) -> dict[str, int]:
    """The finished run: each trial once, none twice, and none begun again after its end."""
    names = Counter(event.name for event in JournalReader(folder.journal))
    finished = [event for event in JournalReader(folder.journal) if event.name == "trial_finished"]
    tries = Counter((event.fields["task_id"], event.fields["attempt"], event.fields["retry"]) for event in finished)
    assert set(tries.values()) == {1}, tries
    _check_order(folder)
    view = read_run(folder)
    assert view.state == "finished"
    assert {TrialKey(task, attempt) for task, attempt, _ in tries} == set(view.lock.trial_keys())
    assert view.counts.missing == 0
    assert names["trial_started"] == names["trial_finished"] + names["trial_interrupted"]
    begun = [json.loads(line) for line in folder.path.with_suffix(".log").read_text().splitlines()]
    assert len(begun) <= names["trial_started"]
    assert {(*entry["key"], entry["retry"]) for entry in begun} == set(tries)
    _check_folders(folder)
    return {"interrupted": names["trial_interrupted"], "trials": len(view.history), "resumes": view.history.resumes}


def main() -> None:
    place, rounds, moment = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))  # noqa: S311 - moments
    make_tasks(place / "tasks", TASKS)
    seen: Counter[str] = Counter()
    while seen["kills"] < rounds:
        folder = RunFolder(place / f"run-{seen['runs']}")
        is_done = False
        while not is_done:
            is_last = seen["kills"] >= rounds
            after_s = None if is_last else moment.uniform(0, LATEST_S)
            status = _one_round(folder, place / "tasks", seed=moment.randrange(1 << 30), after_s=after_s)
            assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), status
            is_done = status == 0
            seen["kills"] += not is_done
        seen["runs"] += 1
        seen.update(_check(folder))
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
