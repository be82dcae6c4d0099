"""Agents that behave as no agent should, and one that types."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from termarena.agents.contract import AgentReport

if TYPE_CHECKING:
    from termarena.agents.contract import Brief, Workspace


class _Named:
    version = "1"

    @property
    def name(self) -> str:
        return type(self).__name__


class TypesIntoATerminal(_Named):
    """Solves the task of `support.tasks` in a terminal."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        async with workspace.terminal() as terminal:
            await terminal.run("echo 1 >/app/one.txt")
        return AgentReport()


class Blocks(_Named):
    """Never gives the event loop back."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief, workspace
        time.sleep(20)  # noqa: ASYNC251 - what it is for
        return AgentReport()


class SolvesAndCrashes(_Named):
    """Does its work and then fails."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        await workspace.write("/app/one.txt", b"1\n")
        return AgentReport(message=str(1 / 0))
