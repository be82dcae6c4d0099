"""A person as an agent: their own terminal, attached to the sandbox, recorded like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from termarena import __version__
from termarena.agents.contract import AgentReport
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from termarena.agents.contract import Brief, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.sandbox.contract import PtyProcess
    from termarena.sandbox.terminal import CastWriter

__all__ = ["Human", "Seat", "make"]


class Seat(Protocol):
    """Where the person sits; the command line has one."""

    def size(self) -> tuple[int, int]:
        """Columns and rows of their terminal."""

    async def attach(self, brief: Brief, pty: PtyProcess, cast: CastWriter) -> int:
        """Show the task, pass keys in and output out until the shell ends; its exit status.

        Cancelled at the deadline: the person's terminal is put back then too.
        """


def make(request: AgentRequest) -> AgentFactory:
    """Raises `UsageError` where no person can be asked."""
    seat = request.options.seat
    if seat is None:
        raise UsageError("a person needs a terminal", hint="termarena play TASK")
    return lambda: Human(seat)


class Human:
    """See `Agent`."""

    name = "human"
    version = __version__

    def __init__(self, seat: Seat) -> None:
        """One attempt at one seat."""
        self._seat = seat

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Until the person leaves the shell."""
        if not isinstance(workspace, TrialWorkspace):
            raise UsageError("a person can only sit down at a trial's own workspace")
        cols, rows = self._seat.size()
        status = await workspace.attend(lambda pty, cast: self._seat.attach(brief, pty, cast), cols=cols, rows=rows)
        return AgentReport(message=f"the shell ended with status {status}")
