"""Runs a task's bare recipe in the embedded sandbox: set-up, an agent that is a script, hidden tests, the reward."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.grading import Grader, GradingJob
from termarena.grading.integrity import apply, examine
from termarena.sandbox.bare import bare_spec, prepare_bare

if TYPE_CHECKING:
    from termarena.grading import Verdict
    from termarena.sandbox import Driver
    from termarena.tasks import Task

GRADER = Grader()


async def reward_of(driver: Driver, task: Task, agent: str | None) -> str:
    """The reward after running `agent`, a script of the task's folder (None: nothing), graded as the task asks.

    Without services, the tests see a fork of the files in which no process of the agent is alive.
    """
    verdict = await verdict_of(driver, task, agent)
    assert verdict.reward is not None, verdict.fault
    return f"{verdict.reward:g}"


async def verdict_of(driver: Driver, task: Task, agent: str | None) -> Verdict:
    """The same, as a verdict with its integrity findings."""
    folder = Path(task.provenance.path)
    with tempfile.TemporaryDirectory() as output:
        job = GradingJob.of(task, output=Path(output) / "test_output.txt")
        async with driver.start(bare_spec(task.environment)) as box:
            await prepare_bare(box, task.environment)
            start = await box.snapshot()
            if agent is not None:
                await box.put_tree(folder / "solution", "/solution")
                await box.write("/solution/.agent.sh", (folder / agent).read_bytes())
                await box.exec(["bash", "/solution/.agent.sh"], timeout_s=240)
                await box.exec(["rm", "-rf", "/solution"])
            await box.freeze()
            changes = await box.diff(start)
            start.close()
            findings = await examine(box, changes, task)
            if task.environment.services:
                await box.thaw()
                return apply(await GRADER.grade(box, job, graded_in="live", changes=changes), findings)
            await box.seal()
            snapshot = await box.snapshot()
            try:
                async with driver.start(snapshot) as fork:
                    return apply(await GRADER.grade(fork, job, graded_in="sealed", changes=changes), findings)
            finally:
                snapshot.close()
