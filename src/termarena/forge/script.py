"""From steps to scripts: the reference solution, and what prepares the start state."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from termarena.forge.steps import Role
from termarena.shell.effects import Effect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from termarena.forge.steps import Step

__all__ = ["inputs_script", "solution_script"]

_MOVES: Final = frozenset({"cd", "pushd", "popd", "umask"})


def solution_script(steps: Sequence[Step], workdir: str, *, without: Collection[int] = ()) -> str:
    """`solve.sh`: the steps that solve, in their order, in one bash. `without` leaves out steps by their numbers."""
    kept = [step for step in steps if step.role in (Role.SOLVE, Role.ANSWER) and step.number not in without]
    return _script(kept, workdir, "set -e")


def inputs_script(steps: Sequence[Step], workdir: str) -> str | None:
    """What makes the inputs, with the changes of folder between them; None where there are none.

    It runs while an image is built, which has a network: so it holds nothing but words that put down what stands in
    them, and nothing that could run something else, such as `source`, `eval` or a variable that programs heed.
    """
    last = max((at for at, step in enumerate(steps) if step.role is Role.INPUT), default=-1)
    kept = [step for step in steps[: last + 1] if step.role is Role.INPUT or _only_moves(step)]
    return _script(kept, workdir, "set -e") if kept else None


def _only_moves(step: Step) -> bool:
    is_shell = step.role is Role.SOLVE and step.effect is Effect.SHELL and not step.line.functions
    literal = all(one.is_literal and not one.assignments and one.name in _MOVES for one in step.line.simples)
    return is_shell and bool(step.line.simples) and literal


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
