"""The oracle: the reference solution of a task, carried out the way the task's format does it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena import __version__
from termarena.agents.contract import AgentReport
from termarena.agents.scripts import laid_down, words_for
from termarena.agents.workspace import ANY_SHELL
from termarena.core.errors import NoSolution
from termarena.sandbox.bare import filled_in
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from termarena.agents.contract import AgentTerminal, Brief, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.tasks.model import Solution, Task

__all__ = ["Oracle", "make"]

COLS: Final = 160
ROWS: Final = 40
SETTLE_S: Final = 3.0
"""What `tb` lets pass between a container's start and the first key. Solutions rely on it where the task's compose file
starts a program: nothing tells when such a program is ready."""


class _Place(NamedTuple):
    """Where a format's harness lays a solution."""

    folder: str
    name: str | None
    """What the script is called there, if not by its own name."""


_HARBOR: Final = _Place("/solution", None)
_TERMINAL_BENCH_1: Final = _Place("/oracle", "solution.sh")


def make(request: AgentRequest) -> AgentFactory:
    """Raises `NoSolution` before anything starts, for the task or for any of its steps."""
    task = request.task
    for step in [None, *task.steps]:
        if (step is not None or not task.steps) and not _can_run(_solution_of(task, step.name if step else None)):
            raise NoSolution(task.id, step=step.name if step else None)
    return lambda: Oracle(task, variables=request.options.variables)


def _can_run(solution: Solution | None) -> bool:
    if solution is None:
        return False
    return bool(solution.keystrokes) or (solution.entry is not None and solution.entry.endswith(".sh"))


def _solution_of(task: Task, step: str | None) -> Solution | None:
    """A step's own, else the task's."""
    found = next((one.solution for one in task.steps if one.name == step), None)
    return found or task.solution


class Oracle:
    """See `Agent`. A script runs as one command, keystrokes and Terminal-Bench 1 scripts in a terminal."""

    name = "oracle"
    version = __version__

    def __init__(self, task: Task, *, variables: Mapping[str, str] | None = None) -> None:
        """`variables` fill in `${NAME}` in the solution's environment."""
        self._task = task
        self._variables = variables or {}

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Carry the solution out. How it ended is told, not judged: the tests do that. Raises `NoSolution`."""
        solution = _solution_of(self._task, brief.step)
        if solution is None or not _can_run(solution):
            raise NoSolution(self._task.id, step=brief.step)
        place = _TERMINAL_BENCH_1 if self._task.provenance.format == "terminal-bench-1" else _HARBOR
        if place is _TERMINAL_BENCH_1 and self._task.environment.compose is not None:
            await asyncio.sleep(SETTLE_S)
        env = {"DEBIAN_FRONTEND": "noninteractive", **filled_in(solution.env, self._variables)}
        if solution.entry is None or not solution.entry.endswith(".sh"):
            from termarena.agents.keystrokes import type_solution  # noqa: PLC0415 - most solutions are scripts

            async with _terminal(workspace, env) as terminal:
                await type_solution(terminal, solution.keystrokes, workspace)
            return AgentReport(message=f"{len(solution.keystrokes)} keystrokes were typed")
        status = await self._run(workspace, solution, place, env)
        return AgentReport(message=f"the solution ended with status {status}")

    async def _run(self, workspace: Workspace, solution: Solution, place: _Place, env: Mapping[str, str]) -> int:
        entry = solution.entry or ""
        path = f"{place.folder}/{place.name or entry}"
        with staged("solution") as files:
            await asyncio.to_thread(_stage, solution, files, place)
            async with laid_down(workspace, files, place.folder):
                if place is _TERMINAL_BENCH_1:
                    async with _terminal(workspace, env) as terminal:
                        return (await terminal.run(f"bash {path}", timeout_s=workspace.seconds_left)).exit_status
                script = solution.files.get(entry)
                words = words_for(path, script.read(2) if script is not None else b"")
                return (await workspace.exec(words, env=env)).exit_status


def _stage(solution: Solution, folder: Path, place: _Place) -> None:
    solution.files.write_to(folder)
    script = folder / (solution.entry or "")
    script.chmod(0o755)
    if place.name is not None:
        script.rename(script.with_name(place.name))


@contextlib.asynccontextmanager
async def _terminal(workspace: Workspace, env: Mapping[str, str]) -> AsyncIterator[AgentTerminal]:
    from termarena.sandbox.terminal import TerminalOptions  # noqa: PLC0415 - as above

    async with workspace.terminal(TerminalOptions(cols=COLS, rows=ROWS, shell_argv=ANY_SHELL, env=env)) as terminal:
        yield terminal
