"""An agent of ours at a backend of AgentBeats: registered there, and its own launcher, on the same port.

The backend asks an agent's launcher for a fresh start before each battle. Ours keeps nothing between battles: it says
that it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse
from starlette.routing import Route

from termarena.core.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from termarena.battles.backend import Backend
    from termarena.core.records import Json

__all__ = ["OPPONENT", "Launcher", "find_agent"]

LAUNCHER_PATH: Final = "/launcher"
OPPONENT: Final = "white_agent"
"""What backends call the agent that is measured."""
LONGEST_BATTLE_S: Final = 24 * 3600
# The backend compares these words.
RUNNING: Final = "server up, with agent running"


class Launcher:
    """The launcher's routes, and the registration."""

    def __init__(self, backend: Backend, *, alias: str, is_green: bool) -> None:
        """`alias` is the agent's name there."""
        self._backend = backend
        self._alias = alias
        self._is_green = is_green
        self._telling: set[asyncio.Task[None]] = set()

    def routes(self) -> Sequence[BaseRoute]:
        """What the backend calls."""
        return [
            Route(f"{LAUNCHER_PATH}/reset", self._reset, methods=["POST"]),
            Route(f"{LAUNCHER_PATH}/status", self._status, methods=["GET"]),
        ]

    async def register(self, url: str) -> str:
        """Make the agent known; its id there. Raises `FetchError`."""
        about: dict[str, Json] = {
            "alias": self._alias,
            "agent_url": url,
            "launcher_url": f"{url}{LAUNCHER_PATH}",
            "is_green": self._is_green,
        }
        if self._is_green:
            about["participant_requirements"] = [{"role": OPPONENT, "name": OPPONENT, "required": True}]
            about["battle_timeout"] = LONGEST_BATTLE_S
        return await self._backend.register(about)

    async def aclose(self) -> None:
        """Whoever is still to be told is not."""
        for task in self._telling:
            task.cancel()
        if self._telling:
            await asyncio.wait(self._telling)

    async def _reset(self, request: Request) -> JSONResponse:
        try:
            asked = await request.json()
            agent_id = str(asked["agent_id"])
        except (ValueError, KeyError, TypeError):
            return JSONResponse({"error": "agent_id is missing"}, 400)
        # The backend waits for this answer before it looks whether the agent is ready.
        telling = asyncio.create_task(self._say_ready(agent_id))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        return JSONResponse({"status": "reset"})

    async def _say_ready(self, agent_id: str) -> None:
        """Only ever to the backend that we were told of, whatever a request names."""
        with contextlib.suppress(FetchError):
            await self._backend.set_ready(agent_id)

    async def _status(self, request: Request) -> JSONResponse:  # noqa: ARG002 - Starlette's signature
        return JSONResponse({"status": RUNNING})


def find_agent(agents: Sequence[object], url: str) -> Mapping[str, object] | None:
    """The agent that was registered last with this address."""
    found = None
    for agent in agents:
        if isinstance(agent, dict) and isinstance(agent.get("register_info"), dict):
            about = agent["register_info"]
            if str(about.get("agent_url", "")).rstrip("/") == url.rstrip("/"):
                found = agent
    return found
