"""The stretches of work that a task asks for: the whole of it, or one step after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import TaskError
from termarena.core.run_folder import folder_name
from termarena.sandbox.health import until_healthy
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.plan import RunOptions
    from termarena.sandbox import Sandbox
    from termarena.tasks.model import AgentPhase, Artifact, Grading, Step, Task, Tests, User

__all__ = ["Leg", "lay_step", "legs_of"]

SETUP: Final = "setup.sh"
SETUP_TIMEOUT_S: Final = 600.0
SHOWN_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class Leg:
    """One stretch of work with its own instruction, clock and tests."""

    name: str
    """The step's; empty where the task is one piece."""
    instruction: str
    timeout_s: float
    is_default_timeout: bool
    user: str | None
    tests: Tests | None
    grading: Grading
    artifacts: tuple[Artifact, ...]
    step: Step | None
    workdir: str | None
    is_last: bool

    @property
    def wants_shell(self) -> bool:
        """Whether the tests are to be typed into the agent's own shell."""
        return self.tests is not None and self.tests.same_shell

    def output_in(self, folder: AttemptFolder) -> Path:
        """Where the tests' output goes: `test_output.txt`, or one such file per step."""
        if not self.name:
            return folder.test_output
        return folder.path / f"test_output.{folder_name(self.name)}.txt"

    def logs_in(self, folder: AttemptFolder) -> Path:
        """Where the tests' logs go."""
        return folder.logs / folder_name(self.name) if self.name else folder.logs


def legs_of(task: Task, options: RunOptions) -> Iterator[Leg]:
    """What the agent is asked for, in order; limits are multiplied as the run says."""
    if not task.steps:
        yield _leg(task, options, step=None, is_last=True)
    for number, step in enumerate(task.steps, 1):
        yield _leg(task, options, step=step, is_last=number == len(task.steps))


def _leg(task: Task, options: RunOptions, *, step: Step | None, is_last: bool) -> Leg:
    phase: AgentPhase = step.agent if step else task.agent
    timeout_s = phase.timeout_s or options.default_timeout_s
    return Leg(
        name=step.name if step else "",
        instruction=step.instruction if step else task.instruction,
        timeout_s=timeout_s * options.timeout_multiplier,
        is_default_timeout=phase.timeout_s is None,
        user=_user(phase.user),
        tests=(step.tests if step else None) or task.tests,
        grading=step.grading if step else task.grading,
        artifacts=(*task.artifacts, *(step.artifacts if step else ())),
        step=step,
        workdir=task.environment.workdir,
        is_last=is_last,
    )


def _user(user: User | None) -> str | None:
    return None if user is None else str(user)


async def lay_step(box: Sandbox, leg: Leg) -> None:
    """Put a step's files into the working directory, run its set-up, wait until it is healthy.

    Raises `TaskError` for a set-up that fails, and what `until_healthy` raises.
    """
    step = leg.step
    if step is None:
        return
    if step.workdir:
        target = leg.workdir or "/app"
        with staged("step") as files:
            await asyncio.to_thread(step.workdir.write_to, files)
            await box.put_tree(files, target)
        if step.workdir.get(SETUP) is not None:
            await _set_up(box, step.name, target)
    if step.healthcheck is not None:
        await until_healthy(box, step.healthcheck)


async def _set_up(box: Sandbox, name: str, folder: str) -> None:
    done = await box.exec(["sh", f"{folder}/{SETUP}"], user="root", cwd=folder, timeout_s=SETUP_TIMEOUT_S)
    await box.exec(["rm", "-f", f"{folder}/{SETUP}"], user="root", cwd="/")
    if done.exit_status != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
        raise TaskError(f"the set-up of step {name} ended with status {done.exit_status}: {said}")
