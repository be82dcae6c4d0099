"""Asking a green agent for a battle: the request, its progress, the result; or the end of it, if the asker goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, Role, SendMessageRequest, SubscribeToTaskRequest
from google.protobuf.json_format import MessageToDict

from termarena.battles.addresses import AddressPolicy, open_http
from termarena.battles.conversation import BROKEN, fetch_card, unreachable
from termarena.battles.launching import OPPONENT, find_agent
from termarena.battles.replies import Gathering
from termarena.core.errors import AgentUnreachable, BattleRefused, NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from a2a.client.client import Client
    from a2a.types import StreamResponse

    from termarena.battles.backend import Backend
    from termarena.core.records import Json

__all__ = ["Asked", "ask_backend", "ask_for_battle"]

RESUBSCRIBES: Final = 5
CANCEL_S: Final = 20.0
BACKEND_POLL_S: Final = 0.5
NO_GREEN: Final = "look at the referee itself; to start one here: termarena green"


@dataclass(frozen=True, slots=True)
class Asked:
    """A battle that is asked for."""

    green_url: str
    white_url: str
    config: Mapping[str, Json] = field(default_factory=dict)
    key: str | None = field(default=None, repr=False)
    """The green agent's, where it asks for one."""

    def text(self) -> str:
        """The request, as AgentBeats has it today."""
        return json.dumps({"participants": {"agent": self.white_url}, "config": dict(self.config)})


async def ask_for_battle(
    asked: Asked, say: Callable[[str], None], *, policy: AddressPolicy | None = None
) -> Mapping[str, object]:
    """The result. `say` is told what happens meanwhile; a broken connection is taken up again.

    Raises `BattleRefused` where the green agent refuses, `AgentUnreachable` where it fails. Cancelled, the battle is
    cancelled too.
    """
    headers = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    gathering = Gathering()
    async with open_http(policy or AddressPolicy(), headers=headers) as http:
        try:
            client = ClientFactory(ClientConfig(httpx_client=http)).create(await fetch_card(http, asked.green_url))
        except BROKEN as error:
            raise unreachable(asked.green_url, f"its card cannot be had: {error}", error, hint=NO_GREEN) from error
        try:
            await _follow(client, asked, gathering, say)
        except asyncio.CancelledError:
            await asyncio.shield(_cancel(client, gathering))
            raise
    reply = gathering.reply()
    words = " ".join(reply.texts)
    if reply.state == "rejected":
        raise BattleRefused(f"the green agent refuses: {words}")
    result = next((table for table in reply.tables if "score" in table), None)
    if result is None:
        problem = f"the battle ended without a result ({reply.state}): {words[:500]}"
        raise AgentUnreachable(asked.green_url, problem, hint=NO_GREEN)
    return result


async def _follow(client: Client, asked: Asked, gathering: Gathering, say: Callable[[str], None]) -> None:
    message = new_text_message(asked.text(), role=Role.ROLE_USER)
    events = client.send_message(SendMessageRequest(message=message))
    for left in reversed(range(RESUBSCRIBES)):
        try:
            await _listen(events, gathering, say)
        except BROKEN as error:
            if gathering.task_id is None or not left:
                raise AgentUnreachable(asked.green_url, f"the battle broke off: {error}", hint=NO_GREEN) from error
        if gathering.has_ended:
            return
        if gathering.task_id is None:
            raise AgentUnreachable(asked.green_url, "it began no task", hint=NO_GREEN)
        await asyncio.sleep(0.2)
        events = client.subscribe(SubscribeToTaskRequest(id=gathering.task_id))


async def _listen(events: AsyncIterator[StreamResponse], gathering: Gathering, say: Callable[[str], None]) -> None:
    async for event in events:
        gathering.add(event)
        if event.HasField("status_update") and not gathering.has_ended:
            for part in MessageToDict(event.status_update.status).get("message", {}).get("parts", []):
                for line in str(part.get("text", "")).splitlines():
                    say(line)


async def _cancel(client: Client, gathering: Gathering) -> None:
    if gathering.task_id is None or gathering.has_ended:
        return
    with contextlib.suppress(*BROKEN, TimeoutError):
        async with asyncio.timeout(CANCEL_S):
            await client.cancel_task(CancelTaskRequest(id=gathering.task_id))


async def ask_backend(backend: Backend, asked: Asked, say: Callable[[str], None]) -> Mapping[str, object]:
    """The same through a backend that knows both agents by their addresses.

    Raises `NotFound` for one that it does not know, `FetchError`, `BattleRefused` for a battle without a result.
    """
    agents = await backend.agents()
    ids = []
    for url in (asked.green_url, asked.white_url):
        agent = find_agent(agents, url)
        if agent is None:
            raise NotFound(f"the backend knows no agent at {url}", hint=f"serve it with --backend {backend.shown}")
        ids.append(str(agent["agent_id"]))
    opponent: dict[str, Json] = {"name": OPPONENT, "agent_id": ids[1]}
    order: dict[str, Json] = {"green_agent_id": ids[0], "opponents": [opponent], "config": dict(asked.config)}
    battle_id = await backend.start(order)
    told = 0
    while True:
        battle = await backend.battle(battle_id)
        history = battle.get("interact_history")
        events = list(history) if isinstance(history, list) else []
        for event in events[told:]:
            say(str(event.get("message", "")) if isinstance(event, dict) else str(event))
        told = len(events)
        if battle.get("state") in ("finished", "error"):
            return _detail(battle)
        await asyncio.sleep(BACKEND_POLL_S)


def _detail(battle: Mapping[str, object]) -> Mapping[str, object]:
    result = battle.get("result")
    detail = result.get("detail") if isinstance(result, dict) else None
    if isinstance(detail, dict) and "score" in detail:
        return detail
    raise BattleRefused(f"the battle ended without a score: {str(result or battle.get('error'))[:300]}")
