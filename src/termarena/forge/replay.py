"""Replay: the session's commands again, in a terminal of the recorded size, each held against the recording."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from termarena.core.errors import NoExitStatus, TerminalEnded, TerminalTimeout
from termarena.forge.masking import likeness
from termarena.forge.steps import Role
from termarena.sandbox.terminal import TerminalOptions, open_terminal
from termarena.shell.effects import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.draft import Draft
    from termarena.forge.steps import Step
    from termarena.sandbox.staging import StartState
    from termarena.sandbox.terminal import Terminal

__all__ = ["Replay", "Replayed", "amended", "replay"]

STEP_TIMEOUT_S: Final = 60.0
REPLAY_TIMEOUT_S: Final = 300.0
SHOWN: Final = 400
_ENV: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "TERM": "xterm-256color"}


@dataclass(frozen=True, slots=True)
class Replayed:
    """How one command went, beside how it went in the recording."""

    number: int
    text: str
    exit_status: int | None
    """None where the shell did not come back with one."""
    recorded_status: int | None
    likeness: float
    """Of the outputs, from 0 to 1; 0 where one of the two failed and the other did not."""
    output: str
    """The end of it."""
    changes: bool = False
    """Whether it is a step of the solution that changes something."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A whole session again."""

    steps: tuple[Replayed, ...]

    @property
    def fidelity(self) -> float:
        """The mean likeness of its commands; 0 for none at all."""
        return sum(step.likeness for step in self.steps) / len(self.steps) if self.steps else 0.0

    @property
    def worst(self) -> Replayed | None:
        """The command that went least like the recording."""
        return min(self.steps, key=lambda step: step.likeness, default=None)


async def replay(state: StartState, draft: Draft) -> Replay:
    """Type the session into a shell on the start state; what makes inputs has happened there already.

    A command that does not come back ends the replay, and so do five minutes: those behind it count as unlike.
    """
    wanted = [step for step in draft.steps if _is_replayed(step)]
    done: list[Replayed] = []
    began = time.monotonic()
    async with state.start() as box:
        options = TerminalOptions(draft.cols, draft.rows, shell_argv=("bash", "--norc"), cwd=draft.workdir, env=_ENV)
        async with open_terminal(box, options) as terminal:
            for step in wanted:
                done.append(await _again(terminal, step))
                if done[-1].exit_status is None or time.monotonic() - began > REPLAY_TIMEOUT_S:
                    break
    missing = [_unlike(step) for step in wanted[len(done) :]]
    return Replay((*done, *missing))


def _is_replayed(step: Step) -> bool:
    if step.role is Role.INPUT or not step.line.is_sound:
        return step.role is Role.INPUT and step.effect is Effect.SHELL
    return step.effect in (Effect.READS, Effect.SHELL, Effect.CHANGES) and bool(step.text)


async def _again(terminal: Terminal, step: Step) -> Replayed:
    try:
        result = await terminal.run(step.text, timeout_s=STEP_TIMEOUT_S)
    except (NoExitStatus, TerminalTimeout, TerminalEnded) as error:
        return replace(_unlike(step), output=str(error)[:SHOWN])
    if result.timed_out or result.shell_ended:
        return replace(_unlike(step), output=result.text[-SHOWN:])
    agrees = step.exit_status is None or bool(step.exit_status) == bool(result.exit_status)
    score = likeness(step.output, result.text) if agrees else 0.0
    return replace(_unlike(step), exit_status=result.exit_status, likeness=score, output=result.text[-SHOWN:])


def _unlike(step: Step) -> Replayed:
    return Replayed(step.number, step.text, None, step.exit_status, 0.0, "", changes=step.changes)


def amended(steps: Sequence[Step], again: Replay) -> tuple[Step, ...]:
    """The steps with the status that the replay found where the recording shows none."""
    found = {step.number: step.exit_status for step in again.steps}
    return tuple(
        replace(step, exit_status=found[step.number])
        if step.exit_status is None and found.get(step.number) is not None
        else step
        for step in steps
    )
