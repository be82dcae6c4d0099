"""The part of AgentBeats' backend that its agents speak to: registering, battles, events, results.

Its clients (agentbeats 1.2.6) send no key. So a key, or the word that opens one battle, is part of the address that
they are given: `…/agentbeats/by/KEY`. Whoever can send a header sends it as `Authorization: Bearer` instead.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from termarena.arena import battling, contenders
from termarena.arena.agentbeats_battle import CONTRACT, Opened, names_of, opened, party_ids
from termarena.arena.allowing import holder_of_token
from termarena.arena.battle_api import LONGEST_CONFIG, battles_of, register
from termarena.arena.battle_views import BattleRow, ContenderRow, EventRow, Role, contender_of, others_of
from termarena.arena.database import Database
from termarena.arena.held import HeldNow
from termarena.arena.keys import Holder
from termarena.arena.schema import Battle, Contender
from termarena.core.errors import NotFound, Refused

__all__ = ["router"]

router = APIRouter()

LONGEST = 500
LONGEST_MESSAGE = 10_000
LONGEST_TEXT = 32 << 10
STATES = {"queued": "queued", "running": "running", "finished": "finished"}
Slug = Annotated[str, Path(max_length=200)]


class _Loose(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Requirement(_Loose):
    """Whom a green agent wants as an opponent."""

    role: Annotated[str, Field(max_length=LONGEST)] = ""
    name: Annotated[str, Field(max_length=LONGEST)]
    required: bool = True


class AgentBody(_Loose):
    """`POST /agents`."""

    alias: Annotated[str, Field(min_length=1, max_length=200)]
    agent_url: Annotated[str, Field(max_length=LONGEST, pattern=r"^https?://[^\s]+$")]
    launcher_url: Annotated[str, Field(max_length=LONGEST, pattern=r"^(https?://[^\s]+)?$")] = ""
    is_green: bool = False
    participant_requirements: Annotated[tuple[Requirement, ...], Field(max_length=20)] = ()
    battle_timeout: Annotated[float, Field(gt=0, le=7 * 24 * 3600)] | None = None
    task_config: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


class ReadyBody(_Loose):
    """`PUT /agents/ID`."""

    ready: bool


class Opponent(_Loose):
    """An agent in a battle."""

    name: Annotated[str, Field(max_length=LONGEST)]
    agent_id: Annotated[str, Field(max_length=LONGEST)]


class BattleBody(_Loose):
    """`POST /battles`."""

    green_agent_id: Annotated[str, Field(max_length=LONGEST)]
    opponents: Annotated[tuple[Opponent, ...], Field(min_length=1, max_length=20)]
    config: dict[str, Any] = Field(default_factory=dict)


class EventBody(_Loose):
    """`POST /battles/ID`: an event, or the result."""

    is_result: bool = False
    message: Annotated[str, Field(max_length=1 << 20)] = ""
    reported_by: Annotated[str, Field(max_length=LONGEST)] = ""
    winner: Annotated[str, Field(max_length=LONGEST)] | None = None
    detail: dict[str, Any] | None = None
    markdown_content: str | None = None
    terminal_input: str | None = None
    terminal_output: str | None = None
    asciinema_url: str | None = None

    def content(self, by: str) -> dict[str, Any]:
        """As it is kept, told by whom: long texts cut, a large detail left out with a word."""
        kept: dict[str, Any] = {"text": self.message[:LONGEST_MESSAGE], "by": by}
        for name in ("markdown_content", "terminal_input", "terminal_output", "asciinema_url"):
            value = getattr(self, name)
            kept |= {name: value[:LONGEST_TEXT]} if value else {}
        if self.detail:
            is_small = len(json.dumps(self.detail)) <= LONGEST_TEXT
            kept["detail"] = self.detail if is_small else {"left_out": "it was too large to be kept"}
        return kept | ({"winner": self.winner} if self.is_result else {})


def _given(request: Request) -> str:
    """The key or the battle's word that came with a request."""
    scheme, token = get_authorization_scheme_param(request.headers.get("authorization"))
    return str(request.path_params.get("given", "")) or (token if scheme.lower() == "bearer" else "")


def _may_see(request: Request, held: HeldNow) -> None:
    """On a private server a battle's word shows that battle and those who fight in it, and nothing else."""
    if held.config.is_private and not _is_shown(request, held.database):
        holder_of_token(request, held, _given(request), "read")


def _is_shown(request: Request, database: Database) -> bool:
    with database.reading() as session:
        found = opened(session, _given(request))
        if found is None:
            return False
        if "battle" in request.path_params:
            return bool(request.path_params["battle"] == found.battle.slug)
        parties = select(Contender.slug).where(Contender.id.in_(party_ids(session, found.battle).values()))
        return request.path_params.get("agent") in session.scalars(parties).all()


def _submitter(request: Request, held: HeldNow) -> Holder:
    return holder_of_token(request, held, _given(request), "submit")


Submitter = Annotated[Holder, Depends(_submitter)]
Seen = Depends(_may_see)


@router.get("/health")
def health() -> dict[str, str]:
    """That it is there."""
    return {"status": "ok"}


@router.post("/agents", status_code=201)
async def add_agent(held: HeldNow, holder: Submitter, body: AgentBody) -> dict[str, Any]:
    """Register an agent; its card is fetched and checked first."""
    about = body.model_dump(mode="json") | {"ready": False}
    role: Role = "green" if body.is_green else "white"
    made = await register(held, contenders.Registration(body.agent_url, role, body.alias, about), holder)
    return _agent(made, about)


@router.get("/agents", dependencies=[Seen])
def list_agents(held: HeldNow) -> list[dict[str, Any]]:
    """Every registered agent; `live` is whether its card could be fetched last."""
    with held.database.reading() as session:
        rows = session.scalars(select(Contender).order_by(Contender.id))
        return [_agent(contender_of(row), json.loads(row.about)) for row in rows]


@router.get("/agents/{agent}", dependencies=[Seen])
def show_agent(held: HeldNow, agent: Slug) -> dict[str, Any]:
    """One agent."""
    with held.database.reading() as session:
        row = contenders.find(session, agent)
        return _agent(contender_of(row), json.loads(row.about))


@router.put("/agents/{agent}")
def set_ready(request: Request, held: HeldNow, agent: Slug, body: ReadyBody) -> dict[str, Any]:
    """A launcher says that its agent can begin; the word of a battle that it fights in is enough."""
    with held.database.writing() as session:
        row = contenders.find(session, agent)
        if row.id not in _spoken_for(session, _given(request)):
            holder = holder_of_token(request, held, _given(request), "submit")
            if row.owner != holder.name and not holder.may("admin"):
                raise Refused("another key registered this agent", status=403)
        about = json.loads(row.about) | {"ready": body.ready}
        row.about = json.dumps(about)
        return _agent(contender_of(row), about)


def _spoken_for(session: Session, word: str) -> set[int]:
    """Whose a word is: the green agent speaks for all, another for itself."""
    found = opened(session, word)
    if found is None:
        return set()
    known = party_ids(session, found.battle)
    return set(known.values()) if found.who == "green" else {known[found.who]}


@router.post("/battles", status_code=201)
def add_battle(held: HeldNow, holder: Submitter, body: BattleBody) -> dict[str, Any]:
    """Start a battle between registered agents: a green one, and those that it is to measure."""
    battles_of(held)
    if len({one.agent_id for one in body.opponents}) < len(body.opponents):
        raise Refused("the same agent is named twice", status=400)
    if len(json.dumps(body.config)) > LONGEST_CONFIG:
        raise Refused(f"a configuration has at most {LONGEST_CONFIG} characters", status=413)
    first, *others = body.opponents
    about = {"contract": CONTRACT, "opponent": first.name, "others": [one.model_dump() for one in others]}
    wish = battling.Wish(first.agent_id, body.green_agent_id, body.config, holder.name, about)
    made = battling.create(held.database, wish)
    held.hall.look()
    return show_battle(held, made.id)


@router.get("/battles", dependencies=[Seen])
def list_battles(held: HeldNow) -> list[dict[str, Any]]:
    """Battles, the newest first, without what was told of them."""
    with held.database.reading() as session:
        rows = battling.battle_rows(session)
        chosen = select(Battle).where(Battle.slug.in_([row.id for row in rows]))
        kept = {row.slug: row for row in session.scalars(chosen)}
        return [_battle(row, [], _opponents(row, kept[row.id])) for row in rows]


@router.get("/battles/{battle}", dependencies=[Seen])
def show_battle(held: HeldNow, battle: Slug) -> dict[str, Any]:
    """A battle with everything that was told of it."""
    with held.database.reading() as session:
        row = battling.find_battle(session, battle)
        told = battling.events_since(session, battle, 0, limit=battling.MOST_EVENTS)
        opponents = _opponents(row, session.scalars(select(Battle).where(Battle.slug == battle)).one())
    return _battle(row, told, opponents)


def _opponents(row: BattleRow, kept: Battle) -> list[dict[str, str]]:
    """As AgentBeats lists them."""
    return [{"name": str(json.loads(kept.about).get("opponent", "")), "agent_id": row.white.id}, *others_of(kept)]


@router.post("/battles/{battle}", status_code=204)
async def tell(request: Request, held: HeldNow, battle: Slug, body: EventBody) -> Response:
    """An event of a battle, or its result; the battle's own word is needed."""
    await run_in_threadpool(_tell, held.database, battle, _given(request), body)
    return Response(status_code=204)


def _tell(database: Database, slug: str, word: str, body: EventBody) -> None:
    with database.reading() as session:
        found = _check(session, slug, word, is_result=body.is_result)
        # The referee speaks for others too; an agent speaks for itself, whoever it says it is.
        by = (body.reported_by if found.who == "green" else "") or names_of(found.battle)[found.who]
    battling.tell(database, slug, [body.content(by)])
    if not body.is_result:
        return
    with database.writing() as session:
        row = _check(session, slug, word, is_result=True).battle
        row.result = battling.kept({**(body.detail or {}), "winner": body.winner, "message": body.message})


def _check(session: Session, slug: str, word: str, *, is_result: bool) -> Opened:
    """The battle and whose word it is, if it still takes reports; the result is the green agent's to tell.

    Raises NotFound, Refused.
    """
    row = session.scalars(select(Battle).where(Battle.slug == slug).with_for_update()).first()
    if row is None:
        raise NotFound("no such battle is known here", hint="/api/battles lists those there are")
    if row.state != "running" or row.result is not None:
        raise Refused("the battle is over", status=400)
    found = opened(session, word)
    if found is None or found.battle.id != row.id:
        raise Refused("this needs the address that the battle's agents were given", status=401)
    if is_result and found.who != "green":
        raise Refused("the green agent alone reports the result", status=403)
    return found


def _agent(row: ContenderRow, about: dict[str, Any]) -> dict[str, Any]:
    """As AgentBeats has it. Ratings are not kept here: leaderboards have intervals instead."""
    usual = {"alias": row.name, "agent_url": row.url, "launcher_url": "", "is_green": row.role == "green"}
    return {
        "agent_id": row.id,
        "register_info": usual | {name: value for name, value in about.items() if name != "ready"},
        "agent_card": {"name": row.name, "description": row.description, "version": row.version, "url": row.url},
        "status": "unlocked",
        "ready": bool(about.get("ready", False)),
        "live": row.is_alive,
        "elo": {"rating": None, "battle_history": [], "stats": {}},
        "created_at": row.registered_at,
    }


def _battle(row: BattleRow, told: list[EventRow], opponents: list[dict[str, str]]) -> dict[str, Any]:
    result = None
    if row.result is not None:
        detail = {name: value for name, value in row.result.items() if name not in ("winner", "message")}
        result = {"is_result": True, "winner": row.result.get("winner"), "message": row.message, "detail": detail}
    return {
        "battle_id": row.id,
        "green_agent_id": row.green.id if row.green else None,
        "opponents": opponents,
        "config": row.config,
        "created_by": row.created_by,
        "created_at": row.created_at,
        "state": STATES.get(row.state, "error"),
        "interact_history": [_history(one) for one in told],
        "result": result,
        **({} if row.state in STATES else {"error": row.message}),
    }


def _history(one: EventRow) -> dict[str, Any]:
    content = {name: value for name, value in one.content.items() if name not in ("text", "by", "state")}
    told = {"message": one.words, "reported_by": one.content.get("by") or "system", "timestamp": one.at}
    return {"is_result": "winner" in one.content, **told, **content}
