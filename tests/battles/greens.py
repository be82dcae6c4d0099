"""A green agent on loopback, and asking it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest

from support.tasks import Made, make_task
from termarena.battles.addresses import AddressPolicy, open_http
from termarena.battles.cards import GREEN_CARD
from termarena.battles.config import GreenConfig
from termarena.battles.conversation import fetch_card
from termarena.battles.green import GreenExecutor
from termarena.battles.referee import Referee
from termarena.battles.replies import Gathering
from termarena.battles.serving import Place, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from termarena.battles.replies import Reply
    from termarena.tasks import Task


@dataclass(frozen=True)
class Green:
    """A running one."""

    url: str
    battles: Path
    referee: Referee

    async def say(self, text: str | Mapping[str, Any], *, context_id: str | None = None) -> Reply:
        """Everything it answers to one message, over A2A 1.0."""
        words = text if isinstance(text, str) else json.dumps(text)
        gathering = Gathering()
        async with open_http(AddressPolicy()) as http:
            client = ClientFactory(ClientConfig(httpx_client=http)).create(await fetch_card(http, self.url))
            message = new_text_message(words, role=Role.ROLE_USER, context_id=context_id)
            async for event in client.send_message(SendMessageRequest(message=message)):
                gathering.add(event)
        return gathering.reply()

    async def battle(self, white: str, **config: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """The result of an assessment."""
        reply = await self.say({"participants": {"agent": white}, "config": config})
        assert reply.state == "completed", reply
        (result,) = reply.tables
        return dict(result)


@contextlib.asynccontextmanager
async def green_at(
    tmp_path: Path,
    home: Path,
    *,
    tasks: tuple[Task, ...] = (),
    config: GreenConfig | None = None,
    more: Sequence[BaseRoute] = (),
) -> AsyncIterator[Green]:
    """A green agent with one small task, or with these."""
    made = tasks or (make_task(tmp_path / "tasks" / "one", Made()),)
    battles = tmp_path / "battles"
    referee = Referee(
        config or GreenConfig(driver="namespace"),
        made,
        dataset="test",
        out=battles,
        home=home,
        policy=AddressPolicy(),
    )
    executor = GreenExecutor(referee)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(executor.aclose)

        def routes(url: str) -> Sequence[BaseRoute]:
            return [*more, *referee.doors.routes(url)]

        served = await stack.enter_async_context(
            serve(executor, GREEN_CARD, Place(), extra=routes, life=referee.doors.life)
        )
        yield Green(served.url, battles, referee)
