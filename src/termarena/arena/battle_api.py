"""The part of the API that is about battles: who may fight, what is asked for, and what happens meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response, WebSocket, WebSocketDisconnect
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from termarena.arena import battling, contenders
from termarena.arena.allowing import Submitter, may_read
from termarena.arena.battle_views import BattleRow, ContenderRow, EventRow
from termarena.arena.config import BattleConfig
from termarena.arena.filters import Window
from termarena.arena.held import Held, HeldNow
from termarena.core.errors import AgentUnreachable, Refused, TermArenaError
from termarena.core.scrub import SHORTEST_SECRET

__all__ = ["Asked", "Registered", "ask", "battles_of", "reader", "register", "sockets", "writer"]

reader = APIRouter(prefix="/api", dependencies=[Depends(may_read)])
writer = APIRouter(prefix="/api")
sockets = APIRouter(prefix="/api")

LONGEST_URL = 500
LONGEST_NAME = 200
LONGEST_CONFIG = 64 << 10
LONGEST_AGENT_KEY = 500
REFUSED = 4403
"""Why a WebSocket is closed: codes from 4000 on are an application's own."""
Slug = Annotated[str, Path(max_length=LONGEST_NAME, description="As addresses name it.")]


# A shorter one could not be taken out of recordings.
_A_KEY_OR_NONE = rf"^([!-~]{{{SHORTEST_SECRET},}})?$"
AgentKey = Annotated[str, Field(max_length=LONGEST_AGENT_KEY, pattern=_A_KEY_OR_NONE)]


class Registered(BaseModel):
    """An agent that wants to be known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, Field(max_length=LONGEST_URL, pattern=r"^https?://[^\s]+$")]
    """Where its card is found."""
    role: Literal["white", "green"] = "white"
    name: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """Empty: as its card says."""
    agent_key: Annotated[AgentKey | None, Field(repr=False)] = None
    """What the agent asks for, as `Authorization: Bearer`; sealed, never shown, and sent to its own address only. None:
    as before, empty: nothing any more."""


class Asked(BaseModel):
    """A battle that is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    white: Annotated[str, Field(max_length=LONGEST_NAME)]
    """The id of a registered agent."""
    green: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    """The id of a registered referee; none is the server's own."""
    config: dict[str, Any] = Field(default_factory=dict)
    """What the referee is told: tasks, attempts, max_parallel … as docs/battles.md has it."""


def battles_of(held: Held) -> BattleConfig:
    """Raises Refused where no battle is fought here."""
    if held.config.battles is None:
        raise Refused("no battle is fought here", status=409, hint="install the extra battles, and serve again")
    return held.config.battles


async def register(held: Held, wanted: contenders.Registration, holder: Submitter) -> ContenderRow:
    """Make an agent known. Raises Refused with the reason where its card cannot be had."""
    try:
        registry = contenders.Registry(held.database, battles_of(held).policy, held.hall.seal)
        return await contenders.register(registry, wanted, holder)
    except AgentUnreachable as error:
        raise Refused(error.message, status=422, hint="see that the agent runs, and serves its card") from error


def ask(held: Held, wish: battling.Wish) -> BattleRow:
    """Put a battle into the queue. Raises Refused for a configuration that no referee understands."""
    from termarena.battles.orders import Order, with_config  # noqa: PLC0415 - an extra

    battles_of(held)
    if len(str(wish.config)) > LONGEST_CONFIG:
        raise Refused(f"a configuration has at most {LONGEST_CONFIG} characters", status=413)
    if wish.green is None:
        with_config(Order("http://nowhere"), wish.config)
    made = battling.create(held.database, wish)
    held.hall.look()
    return made


@reader.get("/contenders")
def list_contenders(held: HeldNow) -> list[ContenderRow]:
    """Every registered agent, and whether it is alive."""
    with held.database.reading() as session:
        return contenders.contender_rows(session)


@writer.post("/contenders", status_code=201)
async def add_contender(held: HeldNow, holder: Submitter, wanted: Registered) -> ContenderRow:
    """Register an agent by its address; its card is fetched and checked first."""
    registration = contenders.Registration(wanted.url, wanted.role, wanted.name, key=wanted.agent_key)
    return await register(held, registration, holder)


@writer.delete("/contenders/{contender}", status_code=204)
def remove_contender(held: HeldNow, holder: Submitter, contender: Slug) -> Response:
    """Take an agent out that had no battle; whoever registered it may, and an administrator."""
    contenders.forget(held.database, contender, holder)
    return Response(status_code=204)


@reader.get("/battles")
def list_battles(held: HeldNow, chosen: Annotated[Window, Query()]) -> list[BattleRow]:
    """Battles, the newest first."""
    with held.database.reading() as session:
        return battling.battle_rows(session, limit=chosen.limit, offset=chosen.offset)


@writer.post("/battles", status_code=201)
def create_battle(held: HeldNow, holder: Submitter, asked: Asked) -> BattleRow:
    """Ask for a battle between registered agents; it waits for its turn."""
    return ask(held, battling.Wish(asked.white, asked.green, asked.config, holder.name))


@reader.get("/battles/{battle}")
def show_battle(held: HeldNow, battle: Slug) -> BattleRow:
    """A battle as it stands."""
    with held.database.reading() as session:
        return battling.find_battle(session, battle)


@writer.post("/battles/{battle}/retry")
def retry_battle(held: HeldNow, holder: Submitter, battle: Slug) -> BattleRow:
    """Fight a battle again that came to no result."""
    made = battling.retry(held.database, battle, holder.name)
    held.hall.look()
    return made


@writer.post("/battles/{battle}/cancel")
def cancel_battle(held: HeldNow, holder: Submitter, battle: Slug) -> BattleRow:
    """End a battle; whoever asked for it may, and an administrator. One that is fought stays `running`, and
    `cancelled_by` says who ended it, until its sandboxes are gone and its referee has ended it."""
    return battling.cancel(held.database, battle, holder)


@reader.get("/battles/{battle}/events")
def list_events(held: HeldNow, battle: Slug, after: Annotated[int, Query(ge=0, lt=1 << 62)] = 0) -> list[EventRow]:
    """What was told of a battle after an event; terminals and steps are live only."""
    with held.database.reading() as session:
        battling.find_battle(session, battle)
        return battling.events_since(session, battle, after)


@reader.get("/battles/{battle}/live", response_class=StreamingResponse)
async def watch(held: HeldNow, battle: Slug) -> StreamingResponse:
    """What happens in a battle, as server-sent events: `state`, `told`, `trial`, `step`, `terminal`, and `end`."""
    await run_in_threadpool(held.broadcasts.check, battle)

    async def sent() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        async with held.broadcasts.viewer(battle) as events:
            async for one in events:
                yield one.sse()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(sent(), media_type="text/event-stream", headers=headers)


@sockets.websocket("/battles/{battle}/ws")
async def watch_socket(socket: WebSocket, held: HeldNow, battle: str) -> None:
    """The same over a WebSocket: `{"event": …, "data": …}`."""
    try:
        may_read(socket, held)
        await run_in_threadpool(held.broadcasts.check, battle[:LONGEST_NAME])
    except TermArenaError as error:
        await socket.close(code=REFUSED, reason=error.message[:100])
        return
    await socket.accept()
    telling = asyncio.create_task(_tell_all(socket, held, battle))
    leaving = asyncio.create_task(_has_left(socket))
    try:
        await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (telling, leaving):
            task.cancel()
        await asyncio.wait({telling, leaving})


async def _tell_all(socket: WebSocket, held: Held, battle: str) -> None:
    async with held.broadcasts.viewer(battle) as events:
        with suppress(WebSocketDisconnect, RuntimeError):  # Starlette has both for a viewer who hung up
            async for one in events:
                await socket.send_text(one.message())
            await socket.close()


async def _has_left(socket: WebSocket) -> None:
    """Returns when the viewer hangs up, which nothing else tells while nothing happens; what it says is dropped."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
