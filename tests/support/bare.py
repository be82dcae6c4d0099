"""Runs a task's bare recipe in the embedded sandbox: set-up, an agent that is a script, hidden tests, the reward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from termarena.sandbox.bare import bare_spec, prepare_bare

if TYPE_CHECKING:
    from termarena.sandbox import Driver, Sandbox
    from termarena.tasks import Task


async def reward_of(driver: Driver, task: Task, agent: str | None) -> str:
    """The reward after running `agent`, a script of the task's folder (None: nothing), graded as the task asks.

    Without services, the tests see a fork of the files in which no process of the agent is alive.
    """
    folder = Path(task.provenance.path)
    async with driver.start(bare_spec(task.environment)) as box:
        await prepare_bare(box, task.environment)
        if agent is not None:
            await box.put_tree(folder / "solution", "/solution")
            await box.write("/solution/.agent.sh", (folder / agent).read_bytes())
            await box.exec(["bash", "/solution/.agent.sh"], timeout_s=240)
            await box.exec(["rm", "-rf", "/solution"])
        if task.environment.services:
            return await _grade(box, folder)
        await box.seal()
        snapshot = await box.snapshot()
        try:
            async with driver.start(snapshot) as fork:
                return await _grade(fork, folder)
        finally:
            snapshot.close()


async def _grade(box: Sandbox, folder: Path) -> str:
    await box.exec(["rm", "-rf", "/tests", "/logs"])
    await box.put_tree(folder / "tests", "/tests")
    await box.exec(["mkdir", "-p", "/logs/verifier"])
    done = await box.exec(["sh", "/tests/test.sh"], timeout_s=240)
    assert not done.timed_out, done.stderr.decode(errors="replace")
    return (await box.read("/logs/verifier/reward.txt")).decode().strip()
