"""A seat: one of our agents at work for a referee, between two messages of whom it waits."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

from termarena.agents.contract import AgentReport, Brief
from termarena.battles.remote import RemoteWorkspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.agents.contract import Agent
    from termarena.battles.remote import Errand
    from termarena.core.records import Json

__all__ = ["Seat"]


class Seat:
    """One conversation: `answer` takes what the referee says and gives what our agent says next."""

    def __init__(self, agent: Agent, errand: Errand) -> None:
        """The agent starts with the first answer that is asked for."""
        self._agent = agent
        self._errand = errand
        self._asked: asyncio.Queue[dict[str, Json]] = asyncio.Queue(1)
        self._told: asyncio.Future[Mapping[str, Json]] | None = None
        self._work: asyncio.Task[AgentReport] | None = None
        self._last_turn: object = None
        self._last: dict[str, Json] | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def is_done(self) -> bool:
        """Whether the agent has said its last."""
        return self._work is not None and self._work.done()

    async def answer(self, said: Mapping[str, Json]) -> dict[str, Json]:
        """What our agent says to this. A message that comes again, by its turn, gets the same answer again.

        Raises what the agent raises.
        """
        async with self._one_at_a_time:
            turn = ("task" if said.get("kind") == "task" else said.get("turn"),)
            if self._last is not None and turn[0] is not None and turn == self._last_turn:
                return self._last
            if self._work is None:
                self._work = asyncio.create_task(self._solve())
            elif self._told is not None and not self._told.done():
                self._told.set_result(said)
            self._last = await self._next()
            self._last_turn = turn
            return self._last

    async def _next(self) -> dict[str, Json]:
        assert self._work is not None  # noqa: S101 - started before
        asked = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait({asked, self._work}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else _final(self._work.result())
        finally:
            asked.cancel()

    async def _solve(self) -> AgentReport:
        errand = self._errand
        brief = Brief(
            task_id=errand.task_id or "",
            instruction=errand.instruction,
            timeout_s=errand.timeout_s,
            step=errand.step,
            workdir=errand.workdir,
            user=errand.user,
            network=errand.network,
        )
        async with asyncio.timeout(errand.timeout_s):
            return await self._agent.solve(brief, RemoteWorkspace(self._ask, errand))

    async def _ask(self, request: dict[str, Json]) -> Mapping[str, Json]:
        self._told = asyncio.get_running_loop().create_future()
        await self._asked.put(request)
        return await self._told

    async def leave(self) -> None:
        """End the agent's work, wherever it is."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})


def _final(report: AgentReport) -> dict[str, Json]:
    used = {name: value for name, value in asdict(report.usage).items() if value is not None}
    return {
        "kind": "final",
        "output": report.message,
        "end": report.end,
        **({"usage": used} if used else {}),
    }
