"""The pages about battles, and the forms on them. A form carries its key in a field of its own: no browser adds that by
itself, so no page of another site can write in someone's name."""

from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from termarena.arena import battling, contenders
from termarena.arena.allowing import holder_of_token
from termarena.arena.battle_api import Registered, ask, register
from termarena.arena.held import Held, HeldNow
from termarena.arena.keys import Holder
from termarena.arena.links import ServerLinks
from termarena.arena.rendering import render

__all__ = ["router", "writer"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
writer = APIRouter(include_in_schema=False)

LONGEST_NAME = 200
LONGEST_KEY = 200
LONGEST_LIST = 10_000
BATTLES_ON_A_PAGE = 50
TOLD_ON_A_PAGE = 500
Slug = Annotated[str, Path(max_length=LONGEST_NAME)]
Key = Annotated[str, Field(max_length=LONGEST_KEY)]
LINKS = ServerLinks()


class _Fields(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Key


class WishFields(_Fields):
    """The form that asks for a battle."""

    white: Annotated[str, Field(max_length=LONGEST_NAME)]
    green: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """Empty: the server's own referee."""
    tasks: Annotated[str, Field(max_length=LONGEST_LIST)] = ""
    attempts: Annotated[int, Field(ge=1, le=100)] = 1


class RegisterFields(Registered, _Fields):
    """The form that registers an agent; an empty key of its own is none, or the one it has."""


@router.get("/battles")
def battles(held: HeldNow, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1) -> str:
    """Battles, the newest first, the agents that may fight, and the forms."""
    with held.database.reading() as session:
        rows = battling.battle_rows(session, limit=BATTLES_ON_A_PAGE + 1, offset=(page - 1) * BATTLES_ON_A_PAGE)
        known = contenders.contender_rows(session)
    return render(
        "battles.html",
        LINKS,
        rows=rows[:BATTLES_ON_A_PAGE],
        has_more=len(rows) > BATTLES_ON_A_PAGE,
        page=page,
        contenders=known,
        is_open=held.config.battles is not None,
        problem=held.hall.problem,
    )


@router.get("/battles/{battle}")
def battle(held: HeldNow, battle: Slug) -> str:
    """A battle, live while it is fought."""
    with held.database.reading() as session:
        shown = battling.find_battle(session, battle)
        told = battling.events_since(session, battle, 0, limit=TOLD_ON_A_PAGE)
    return render("battle.html", LINKS, battle=shown, told=told)


@writer.post("/battles")
def create(request: Request, held: HeldNow, fields: Annotated[WishFields, Form()]) -> RedirectResponse:
    """Ask for a battle, and go to its page."""
    holder = _holder(request, held, fields.key)
    config: dict[str, object] = {"tasks": fields.tasks or "all", "attempts": fields.attempts}
    made = ask(held, battling.Wish(fields.white, fields.green or None, config, holder.name))
    return RedirectResponse(f"/battles/{made.id}", status_code=303)


@writer.post("/battles/{battle}/retry")
def retry(request: Request, held: HeldNow, battle: Slug, fields: Annotated[_Fields, Form()]) -> RedirectResponse:
    """Fight it again, and go to its page."""
    made = battling.retry(held.database, battle, _holder(request, held, fields.key).name)
    held.hall.look()
    return RedirectResponse(f"/battles/{made.id}", status_code=303)


@writer.post("/battles/{battle}/cancel")
def cancel(request: Request, held: HeldNow, battle: Slug, fields: Annotated[_Fields, Form()]) -> RedirectResponse:
    """End it, and go to its page."""
    made = battling.cancel(held.database, battle, _holder(request, held, fields.key))
    return RedirectResponse(f"/battles/{made.id}", status_code=303)


@writer.post("/contenders")
async def add(request: Request, held: HeldNow, fields: Annotated[RegisterFields, Form()]) -> RedirectResponse:
    """Register an agent, and go back to the list."""
    holder = await run_in_threadpool(_holder, request, held, fields.key)
    wanted = contenders.Registration(fields.url, fields.role, fields.name, key=fields.agent_key or None)
    await register(held, wanted, holder)
    return RedirectResponse("/battles#agents", status_code=303)


def _holder(request: Request, held: Held, key: str) -> Holder:
    return holder_of_token(request, held, key.strip(), "submit")
