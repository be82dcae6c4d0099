"""Spoiling: what the solution left, with one output made wrong afterwards."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.agents.contract import AgentReport
from termarena.agents.oracle import Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.agents.contract import Brief, Workspace
    from termarena.tasks.model import Task

__all__ = ["Spoiled", "Spoiling", "asked_for", "is_spoiling", "spoilings"]

MOST_OUTPUTS: Final = 4
# $1: the file. Every letter and digit becomes the next one.
_GARBLED: Final = 'tr "A-Za-z0-9" "B-ZAb-za1-90" <"$1" >"$1.new" && cat "$1.new" >"$1"; rm -f "$1.new"'
_CUT: Final = 'sed \'$d\' "$1" >"$1.new" && cat "$1.new" >"$1"; rm -f "$1.new"'
_WAYS: Final = (
    ("emptied", ': >"$1"', "is empty"),
    ("removed", 'rm -f "$1"', "is not there"),
    ("garbled", _GARBLED, "holds other letters and digits"),
    ("cut", _CUT, "lacks its last line"),
)


@dataclass(frozen=True, slots=True)
class Spoiling:
    """One output made wrong."""

    way: str
    path: str
    what: str
    script: str


def spoilings(task: Task, state: Mapping[str, str], *, noise: frozenset[str]) -> tuple[Spoiling, ...]:
    """Every way to spoil what the solution left, of those files that the instruction asks for."""
    return tuple(
        Spoiling(way, path, f"{path} {what}", f"set -- {shlex.quote(path)}\n{script}\n")
        for path in asked_for(task, state, noise=noise)[:MOST_OUTPUTS]
        for way, script, what in _WAYS
    )


def is_spoiling(name: str) -> bool:
    """Whether a trial's name tells that an output was made worthless: removed, or garbled."""
    return name.startswith(("removed /", "garbled /"))


def asked_for(task: Task, state: Mapping[str, str], *, noise: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The files of a state that the instruction names: whole, or relative to the working folder."""
    text = "\n".join((task.instruction, *(step.instruction for step in task.steps)))
    words = set(re.findall(r"[\w./+-]+", text))
    names = {word.rstrip(".") for word in words} | words
    return tuple(path for path in sorted(_files(state)) if path not in noise and names & set(_names(path, task)))


def _files(state: Mapping[str, str]) -> Iterator[str]:
    return (path for path, held in state.items() if held.startswith("file "))


def _names(path: str, task: Task) -> Iterator[str]:
    yield path
    folder = (task.environment.workdir or "/app").rstrip("/") + "/"
    if path.startswith(folder):
        yield path.removeprefix(folder)
        yield "./" + path.removeprefix(folder)


class Spoiled:
    """See `Agent`: the solution, then a script that makes one thing wrong."""

    def __init__(self, task: Task, script: str) -> None:
        """`script` runs as root where commands start."""
        self._oracle = Oracle(task)
        self._script = script
        self.name = "spoiled"
        self.version = self._oracle.version

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Solve, then spoil. Raises what the oracle raises."""
        report = await self._oracle.solve(brief, workspace)
        done = await workspace.exec(["/bin/sh", "-c", self._script], user="root")
        return AgentReport(message=f"{report.message}; spoiling it ended with status {done.exit_status}")
