"""The registry: agents behind network addresses. A card is fetched and checked before an agent is known, and again and
again afterwards."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import func, select, update

from termarena.arena.battle_views import ContenderRow, Role, contender_of
from termarena.arena.ingest import add_missing, plain
from termarena.arena.schema import Battle, Contender
from termarena.core.errors import AddressRefused, AgentUnreachable, MissingExtra, NotFound, Refused, UsageError
from termarena.runs.journal import now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.orm import Session

    from termarena.arena.database import Database
    from termarena.arena.keys import Holder
    from termarena.arena.sealing import Seal
    from termarena.battles.addresses import AddressPolicy

__all__ = ["Card", "Registration", "Registry", "contender_rows", "fetch", "find", "forget", "look_again", "register"]

MOST_CONTENDERS: Final = 1_000
LONGEST_TEXT: Final = 2_000
MOST_SKILLS: Final = 50
CARD_S: Final = 10.0
AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Card:
    """What an agent says of itself, as far as it is kept."""

    name: str
    description: str
    version: str
    skills: tuple[str, ...]

    def as_json(self) -> str:
        """As the database holds it."""
        return json.dumps({"description": self.description, "version": self.version, "skills": self.skills})


@dataclass(frozen=True, slots=True)
class Registration:
    """An agent that wants to be known."""

    url: str
    role: Role = "white"
    name: str = ""
    """Empty: as its card says."""
    about: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = field(default=None, repr=False)
    """What it asks for with every request; None: as before, empty: nothing any more."""


async def fetch(url: str, policy: AddressPolicy, key: str | None = None) -> Card:
    """An agent's card, asked for with its key where it has one.

    Raises `AgentUnreachable`, `AddressRefused`, and `MissingExtra` without the extra `battles`.
    """
    try:
        from termarena.battles.addresses import open_http  # noqa: PLC0415 - an extra
        from termarena.battles.conversation import BROKEN, fetch_card, unreachable  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), extra="battles", purpose="agents behind an address") from error
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with asyncio.timeout(CARD_S), open_http(policy, headers=headers) as http:
            card = await fetch_card(http, url)
    except AddressRefused:
        raise
    except TimeoutError as error:
        raise AgentUnreachable(url, f"it gave no card within {CARD_S:g} s") from error
    except BROKEN as error:
        told = " ".join(str(error).split())[:300] or type(error).__name__
        raise unreachable(url, f"its card cannot be had: {told}", error) from error
    if not card.name or not card.skills:
        raise AgentUnreachable(url, f"its card lacks {'skills' if card.name else 'a name'}")
    skills = tuple(_text(skill.name, 100) for skill in list(card.skills)[:MOST_SKILLS])
    return Card(_text(card.name, 200), _text(card.description), _text(card.version, 100), skills)


def _text(value: str, longest: int = LONGEST_TEXT) -> str:
    return plain(" ".join(value.split()))[:longest]


@dataclass(frozen=True, slots=True)
class Registry:
    """Where agents are written down, whom we speak to, and what closes and opens their keys."""

    database: Database
    policy: AddressPolicy
    seal: Seal


async def register(registry: Registry, wanted: Registration, holder: Holder) -> ContenderRow:
    """Make an agent known, or know it anew where the same key registered the same address for the same role before;
    what it was registered with beyond its card stays then, unless there is something new.

    Raises what `fetch` raises, and `Refused` where the registry is full.
    """
    url = wanted.url.rstrip("/")
    whose = (url, wanted.role, holder.name)
    key = wanted.key if wanted.key is not None else await asyncio.to_thread(_key_of, registry, whose)
    card = await fetch(url, registry.policy, key)
    row: dict[str, Any] = {
        "name": plain(wanted.name or card.name),
        "card": card.as_json(),
        "checked_at": now(),
        "is_alive": True,
        "problem": "",
    }
    if wanted.about:
        row["about"] = json.dumps(dict(wanted.about))
    if wanted.key is not None:
        row["sealed_key"] = await asyncio.to_thread(registry.seal.close, wanted.key) if wanted.key else None
    return await asyncio.to_thread(_write, registry.database, whose, row)


def _key_of(registry: Registry, whose: tuple[str, Role, str]) -> str | None:
    """What it was registered with before; None where that is nothing."""
    url, role, owner = whose
    with registry.database.reading() as session:
        mine = (Contender.url == url, Contender.role == role, Contender.owner == owner)
        sealed = session.scalars(select(Contender.sealed_key).where(*mine)).first()
    return None if sealed is None else registry.seal.open(sealed)


def _write(database: Database, whose: tuple[str, Role, str], row: dict[str, Any]) -> ContenderRow:
    url, role, owner = whose
    with database.writing() as session:
        chosen = select(Contender).where(Contender.url == url, Contender.role == role, Contender.owner == owner)
        if session.scalars(chosen).first() is None:
            if (session.scalar(select(func.count()).select_from(Contender)) or 0) >= MOST_CONTENDERS:
                raise Refused(f"{MOST_CONTENDERS} agents are registered already", status=409)
            first = {"slug": secrets.token_hex(6), "url": url, "role": role, "owner": owner}
            # Two servers may do so at once: the second waits for the first, and finds it there.
            add_missing(session, Contender, [{**first, "registered_at": now(), "about": "{}", **row}])
        found = session.scalars(chosen.with_for_update()).one()
        for name, value in row.items():
            setattr(found, name, value)
        session.flush()
        return contender_of(found)


def contender_rows(session: Session) -> list[ContenderRow]:
    """All, those that are alive first, then by name."""
    chosen = select(Contender).order_by(Contender.is_alive.desc(), Contender.name, Contender.id)
    return [contender_of(row) for row in session.scalars(chosen)]


def find(session: Session, slug: str) -> Contender:
    """Raises NotFound."""
    found = session.scalars(select(Contender).where(Contender.slug == slug)).first()
    if found is None:
        raise NotFound("no such agent is registered here", hint="/api/contenders lists those that are")
    return found


def forget(database: Database, slug: str, holder: Holder) -> None:
    """Take an agent out. Raises NotFound, and Refused where it is another's or has had a battle."""
    with database.writing() as session:
        row = find(session, slug)
        if row.owner != holder.name and not holder.may("admin"):
            raise Refused("another key registered this agent", status=403)
        is_party = (Battle.white_id == row.id) | (Battle.green_id == row.id) | Battle.about.contains(f'"{row.slug}"')
        if session.scalar(select(func.count()).select_from(Battle).where(is_party)):
            raise Refused("it is part of a battle", status=409, hint="battles are kept, and so are those who fought")
        session.delete(row)


async def look_again(registry: Registry) -> None:
    """Fetch every card anew, and write down who is alive. Raises SQLAlchemy's DBAPIError."""
    known = await asyncio.to_thread(_addresses, registry.database)
    room = asyncio.Semaphore(AT_ONCE)

    async def look(one: _Address) -> Card | str:
        async with room:
            try:
                key = None if one.sealed_key is None else await asyncio.to_thread(registry.seal.open, one.sealed_key)
                return await fetch(one.url, registry.policy, key)
            except (AgentUnreachable, AddressRefused, MissingExtra, UsageError) as error:
                return plain(error.message)[:LONGEST_TEXT]

    seen = await asyncio.gather(*map(look, known))
    noted = [(one.id, found) for one, found in zip(known, seen, strict=True)]
    await asyncio.to_thread(_note, registry.database, noted)


class _Address(NamedTuple):
    """Where to look."""

    id: int
    url: str
    sealed_key: str | None


def _addresses(database: Database) -> list[_Address]:
    with database.reading() as session:
        chosen = select(Contender.id, Contender.url, Contender.sealed_key)
        return [_Address(*row) for row in session.execute(chosen)]


def _note(database: Database, seen: Sequence[tuple[int, Card | str]]) -> None:
    if not seen:
        return
    with database.writing() as session:
        for row_id, found in seen:
            values: dict[str, Any] = {"checked_at": now(), "is_alive": isinstance(found, Card)}
            if isinstance(found, Card):
                values |= {"card": found.as_json(), "problem": ""}
            else:
                values |= {"problem": found}
            session.execute(update(Contender).where(Contender.id == row_id).values(values))
