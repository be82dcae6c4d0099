"""From steps to scripts: the reference solution, and what prepares the start state."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from termarena.forge.steps import Role
from termarena.shell.effects import Effect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from termarena.forge.steps import Step

__all__ = ["inputs_script", "solution_script"]


def solution_script(steps: Sequence[Step], workdir: str, *, without: Collection[int] = ()) -> str:
    """`solve.sh`: the steps that solve, in their order, in one bash. `without` leaves out steps by their numbers."""
    kept = [step for step in steps if step.role in (Role.SOLVE, Role.ANSWER) and step.number not in without]
    return _script(kept, workdir, "set -e")


def inputs_script(steps: Sequence[Step], workdir: str) -> str | None:
    """What makes the inputs, with the changes of the shell between them; None where there are none."""
    last = max((at for at, step in enumerate(steps) if step.role is Role.INPUT), default=-1)
    kept = [step for step in steps[: last + 1] if step.role is Role.INPUT or _is_shell(step)]
    return _script(kept, workdir, "set -e") if kept else None


def _is_shell(step: Step) -> bool:
    return step.role is Role.SOLVE and step.effect is Effect.SHELL


def _script(steps: Iterable[Step], workdir: str, options: str) -> str:
    lines = ["#!/bin/bash", options, f"cd {shlex.quote(workdir)}", *map(_rendered, steps)]
    return "\n".join(lines) + "\n"


def _rendered(step: Step) -> str:
    text = step.text.rstrip()
    if step.answer is not None:
        return f"{{\n{text}\n}} > {shlex.quote(step.answer)}"
    if not step.exit_status:
        return text
    # What ended with another status than 0 in the session does so again: the script goes on all the same.
    return f"{{\n{text}\n}} || true"
