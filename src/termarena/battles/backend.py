"""The backend of AgentBeats, spoken to as a referee does: events, the result, registration."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import httpx

from termarena.battles.addresses import AddressPolicy, open_http
from termarena.core.errors import AddressRefused, FetchError

if TYPE_CHECKING:
    from termarena.core.records import Json

__all__ = ["Backend", "BattleOver"]

POST_S: Final = 10.0
TRIES: Final = 3
_KEYED: Final = re.compile(r"(/by/)[^/]+")
REPORTED_BY: Final = "green_agent"
_LIST: Final = "list"
"""Where an answer is a list, it stands here."""


class BattleOver(Exception):
    """The backend has ended the battle, or does not know it: nothing that follows counts."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend. Every call raises `FetchError` where it does not answer, `AddressRefused` where it may not be."""

    url: str = field(repr=False)
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    token: str | None = field(default=None, repr=False)
    """Of the user in whose name agents are registered."""

    @property
    def shown(self) -> str:
        """The address as it is told to people: without the key that an arena's holds."""
        return _KEYED.sub(r"\1…", self.url.rstrip("/"))

    async def config_of(self, battle_id: str) -> Mapping[str, object]:
        """What the battle was made with: it is not in the message that starts it."""
        found = await self._call("GET", f"/battles/{_part(battle_id)}")
        config = found.get("config")
        return config if isinstance(config, Mapping) else {}

    async def tell(self, battle_id: str, message: str, **more: Json) -> None:
        """An event. Raises `BattleOver`."""
        event = {"is_result": False, "message": message, "reported_by": REPORTED_BY, **more}
        await self._call("POST", f"/battles/{_part(battle_id)}", event)

    async def report(
        self, battle_id: str, message: str, *, winner: str, detail: Mapping[str, Json], table: str
    ) -> None:
        """The result. Raises `BattleOver`."""
        result = {
            "is_result": True,
            "message": message,
            "winner": winner,
            "reported_by": REPORTED_BY,
            "detail": dict(detail),
            "markdown_content": table,
        }
        await self._call("POST", f"/battles/{_part(battle_id)}", result)

    async def register(self, agent: Mapping[str, Json]) -> str:
        """Register an agent; its id there."""
        made = await self._call("POST", "/agents", agent)
        return str(made.get("agent_id", ""))

    async def agents(self) -> list[object]:
        """Every agent that is registered."""
        found = await self._call("GET", "/agents")
        listed = found.get(_LIST, [])
        return list(listed) if isinstance(listed, list) else []

    async def set_ready(self, agent_id: str) -> None:
        """Say that an agent can begin."""
        await self._call("PUT", f"/agents/{_part(agent_id)}", {"ready": True})

    async def start(self, battle: Mapping[str, Json]) -> str:
        """Start a battle between registered agents; its id."""
        made = await self._call("POST", "/battles", battle)
        return str(made.get("battle_id", ""))

    async def battle(self, battle_id: str) -> Mapping[str, object]:
        """A battle as it stands."""
        return await self._call("GET", f"/battles/{_part(battle_id)}")

    async def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Mapping[str, object]:
        address = self.url.rstrip("/") + path
        problem = ""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with open_http(self.policy, headers=headers) as http:
            for attempt in range(TRIES):
                try:
                    async with asyncio.timeout(POST_S):  # httpx counts anew with every byte
                        answer = await http.request(method, address, json=body)
                except AddressRefused:
                    raise
                except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                    problem = str(error) or type(error).__name__
                else:
                    if answer.is_success:
                        return _table(answer)
                    problem = f"it answers {answer.status_code}: {answer.text[:200]}"
                    if answer.status_code in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND) and "/battles/" in path:
                        raise BattleOver(problem)
                    if answer.is_client_error:
                        break
                await asyncio.sleep(0.2 * 2**attempt)
        raise FetchError(self.shown + path, problem, hint="is the backend running?")


def _part(name: str) -> str:
    """A name as one part of a path, whatever it holds: it may come from anyone, and the user's token goes with it."""
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe="")


def _table(answer: httpx.Response) -> Mapping[str, object]:
    try:
        value = answer.json() if answer.content else {}
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {_LIST: value}
