"""A battle as AgentBeats' backend has it: agents are reset by their launchers and told of the battle, the green one
referees it and reports what it came to."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import select

from termarena.arena import battling, contenders
from termarena.arena.battle_views import others_of
from termarena.arena.schema import Battle, Contender
from termarena.core.errors import AgentUnreachable, BattleRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy.orm import Session

    from termarena.arena.battling import Claim
    from termarena.arena.config import BattleConfig
    from termarena.arena.database import Database

__all__ = ["BATTLE_PREFIX", "CONTRACT", "Opened", "fight_by_report", "names_of", "opened", "party_ids"]

CONTRACT: Final = "agentbeats"
BATTLE_PREFIX: Final = "tb_"
READY_S: Final = 120.0
ANSWER_S: Final = 60.0
USUAL_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.3


class _Party:
    """An agent of the battle. `who` is `green`, `white`, or the id of a further white one."""

    def __init__(self, row: Contender, name: str, who: str) -> None:
        self.slug, self.url, self.alias, self.name, self.who = row.slug, row.url, row.name, name, who
        self.backend = ""
        """How it reports: an address of its own."""
        self.about: Mapping[str, Any] = json.loads(row.about)
        self.headers: dict[str, str] = {}
        """What it asks for with every request."""


async def fight_by_report(
    claimed: Claim, database: Database, config: BattleConfig, url: str, say: Callable[[str], None]
) -> Mapping[str, Any]:
    """Carry it out; the result that the green agent reported. `url` is how agents reach this server.

    Raises `AgentUnreachable`, `BattleRefused` where no report comes in time.
    """
    parties = await asyncio.to_thread(_parties, database, claimed)
    green, *whites = parties
    for one in parties:
        one.headers = {"Authorization": f"Bearer {claimed.keys[one.who]}"} if one.who in claimed.keys else {}
    words = await asyncio.to_thread(_new_words, database, claimed.slug, [one.who for one in parties])
    for one in parties:
        one.backend = f"{url}/agentbeats/by/{words[one.who]}"
    await _reset(parties, database, config)
    for one in parties:
        info = {"type": "battle_info", "battle_id": claimed.slug, "agent_name": one.name}
        await _say(one, {**info, "agent_id": one.slug, "backend_url": one.backend}, config)
        say(f"{one.alias} knows of the battle")
    start = {
        "type": "battle_start",
        "battle_id": claimed.slug,
        "green_battle_context": {**_context(claimed, green), "task_config": green.about.get("task_config", "")},
        "red_battle_contexts": {white.url: _context(claimed, white) for white in whites},
        "opponent_infos": [{"name": white.alias, "agent_url": white.url} for white in whites],
    }
    say(f"{green.alias} begins")
    return await _reported(claimed, database, config, (green, start))


def _context(claimed: Claim, party: _Party) -> dict[str, Any]:
    return {"battle_id": claimed.slug, "backend_url": party.backend, "agent_name": party.alias}


def _parties(database: Database, claimed: Claim) -> list[_Party]:
    """The green agent first."""
    with database.reading() as session:
        row = session.scalars(select(Battle).where(Battle.slug == claimed.slug)).one()
        named = names_of(row)
        return [
            _Party(session.get_one(Contender, id_), named[who], who) for who, id_ in party_ids(session, row).items()
        ]


def names_of(row: Battle) -> dict[str, str]:
    """What the agents of a battle are called in it, by who they are: `green`, `white`, the id of a further one."""
    first = str(json.loads(row.about).get("opponent") or "white_agent")
    return {"green": "green_agent", "white": first, **{one["agent_id"]: one["name"] for one in others_of(row)}}


def party_ids(session: Session, row: Battle) -> dict[str, int]:
    """The agents of a battle in the database, by who they are in it. Raises NotFound."""
    others = {one["agent_id"]: contenders.find(session, one["agent_id"]).id for one in others_of(row)}
    green = {} if row.green_id is None else {"green": row.green_id}
    return {**green, "white": row.white_id, **others}


async def _reset(parties: Sequence[_Party], database: Database, config: BattleConfig) -> None:
    """Have every launcher start its agent afresh, and wait until that is ready. Agents without one are as they are."""
    import httpx  # noqa: PLC0415 - an extra

    from termarena.battles.addresses import open_http  # noqa: PLC0415 - an extra

    launched = [one for one in parties if one.about.get("launcher_url")]
    await asyncio.to_thread(_forget_ready, database, launched)
    for one in launched:
        body = {"signal": "reset", "agent_id": one.slug, "backend_url": one.backend, "extra_args": {}}
        address = f"{str(one.about['launcher_url']).rstrip('/')}/reset"
        try:
            async with asyncio.timeout(ANSWER_S), open_http(config.policy) as http:
                answer = await http.post(address, json=body)
                answer.raise_for_status()
        except (httpx.HTTPError, TimeoutError) as error:
            raise AgentUnreachable(address, f"the launcher of {one.alias} does not reset it: {error}") from error
    deadline = asyncio.get_running_loop().time() + READY_S
    while late := await asyncio.to_thread(_not_ready, database, launched):
        if asyncio.get_running_loop().time() > deadline:
            raise AgentUnreachable(late[0], f"it was not ready within {READY_S:g} s")
        await asyncio.sleep(POLL_S)


def _forget_ready(database: Database, launched: Sequence[_Party]) -> None:
    with database.writing() as session:
        for row in session.scalars(select(Contender).where(Contender.slug.in_([one.slug for one in launched]))):
            row.about = json.dumps(json.loads(row.about) | {"ready": False})


def _not_ready(database: Database, launched: Sequence[_Party]) -> list[str]:
    with database.reading() as session:
        rows = session.scalars(select(Contender).where(Contender.slug.in_([one.slug for one in launched])))
        return [row.url for row in rows if not json.loads(row.about).get("ready")]


async def _say(party: _Party, message: Mapping[str, Any], config: BattleConfig) -> None:
    from termarena.battles.conversation import Conversation  # noqa: PLC0415 - an extra

    try:
        async with (
            asyncio.timeout(ANSWER_S),
            Conversation(party.url, config.policy, headers=party.headers) as talk,
        ):
            await talk.say(json.dumps(message))
    except TimeoutError as error:
        raise AgentUnreachable(party.url, f"it did not answer within {ANSWER_S:g} s") from error


async def _reported(
    claimed: Claim, database: Database, config: BattleConfig, start: tuple[_Party, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Have the green agent begin, and wait for its report. Some answer at once, others only when they are done."""
    green, message = start
    from termarena.battles.conversation import Conversation  # noqa: PLC0415 - an extra

    async def begin() -> None:
        async with Conversation(green.url, config.policy, headers=green.headers) as talk:
            await talk.say(json.dumps(message))

    asked = asyncio.create_task(begin())
    timeout_s = float(green.about.get("battle_timeout") or USUAL_TIMEOUT_S)
    try:
        async with asyncio.timeout(timeout_s):
            while (result := await asyncio.to_thread(_result, database, claimed)) is None:
                if asked.done() and (error := asked.exception()) is not None:
                    raise error
                await asyncio.sleep(POLL_S)
            return result
    except TimeoutError as error:
        raise BattleRefused(f"{green.alias} reported no result within {timeout_s:g} s") from error
    finally:
        asked.cancel()
        await asyncio.wait({asked})


def _result(database: Database, claimed: Claim) -> Mapping[str, Any] | None:
    with database.reading() as session:
        return battling.find_battle(session, claimed.slug).result


def _new_words(database: Database, slug: str, parties: Sequence[str]) -> dict[str, str]:
    """The words that open this try of a battle to its agents, one for each; earlier ones open nothing any more."""
    words = {who: BATTLE_PREFIX + secrets.token_urlsafe(24) for who in parties}
    with database.writing() as session:
        row = session.scalars(select(Battle).where(Battle.slug == slug).with_for_update()).one()
        hashes = {_hash(word): who for who, word in words.items()}
        row.about = json.dumps(json.loads(row.about) | {"words": hashes})
    return words


class Opened(NamedTuple):
    """What a word opens, and whose it is."""

    battle: Battle
    who: str
    """`green`, `white`, or the id of a further white agent."""


def opened(session: Session, word: str) -> Opened | None:
    """The battle that a word opens, while it is fought."""
    if not word.startswith(BATTLE_PREFIX):
        return None
    wanted = _hash(word)
    for row in session.scalars(select(Battle).where(Battle.state == "running")):
        who = json.loads(row.about).get("words", {}).get(wanted)
        if who is not None:
            return Opened(row, who)
    return None


def _hash(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "replace")).hexdigest()
