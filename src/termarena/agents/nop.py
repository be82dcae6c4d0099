"""The agent that does nothing: what a task scores by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena import __version__
from termarena.agents.contract import AgentReport

if TYPE_CHECKING:
    from termarena.agents.contract import Brief, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest

__all__ = ["Nop", "make"]


class Nop:
    """See `Agent`."""

    name = "nop"
    version = __version__

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:  # noqa: ARG002 - that is the point
        """Return at once."""
        return AgentReport(message="nothing was done")


def make(request: AgentRequest) -> AgentFactory:  # noqa: ARG001 - it needs nothing
    """One for every attempt."""
    return Nop
