"""Battles as rows: asked for, claimed by one server, ended once.

A server that claims a battle has it for a lease that it renews while it fights. One whose lease has run out was left:
it becomes `infra_error`, whoever sees that first. One that is to be cancelled is ended by the server that fights it,
and is `cancelled` when nothing of it runs any more. Times of leases are the database's, so that clocks of servers need
not agree.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import aliased

from termarena.arena import contenders
from termarena.arena.battle_views import BattleRow, BattleState, EventRow, battle_of, event_of, others_of
from termarena.arena.ingest import plain
from termarena.arena.schema import Battle, BattleEvent, Contender
from termarena.core.errors import NotFound, Refused
from termarena.runs.journal import now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.orm import Session

    from termarena.arena.database import Database
    from termarena.arena.keys import Holder

__all__ = [
    "Claim",
    "Wish",
    "battle_rows",
    "cancel",
    "claim",
    "create",
    "end",
    "events_since",
    "find_battle",
    "give_up_abandoned",
    "kept",
    "renew",
    "retry",
    "tell",
    "to_be_cancelled",
]

MOST_WAITING: Final = 1_000
MOST_EVENTS: Final = 20_000
"""Of one battle; what is told beyond that is not kept."""
LARGEST_CONTENT: Final = 64 << 10
LARGEST_RESULT: Final = 4 << 20
"""Of one battle; ten thousand trials of our own referee's have as much."""
MOST_NUMBERS: Final = 50
LONGEST_NAME: Final = 200
SQLITE_CLOCK: Final = "SELECT (julianday('now') - 2440587.5) * 86400.0"
POSTGRES_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())"
ABANDONED: Final = "the server that fought it is gone"


@dataclass(frozen=True, slots=True)
class Wish:
    """A battle that is asked for."""

    white: str
    green: str | None
    """None: the server's own referee."""
    config: Mapping[str, Any]
    by: str
    """The name of a key."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """How it is fought, where that is not as usual; `others` are further white agents, by `name` and `agent_id`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A battle that this server has to fight."""

    slug: str
    tries: int
    white_url: str
    green_url: str | None
    config: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    sealed_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What its agents ask for, as `Seal` wrote it: of `white`, of `green`, of a further one by its id."""
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The same, opened by whoever fights it."""

    @property
    def name(self) -> str:
        """Of this try; the folder of its run is called `battle_NAME`."""
        return self.slug if self.tries == 1 else f"{self.slug}-{self.tries}"


def create(database: Database, wish: Wish) -> BattleRow:
    """Put a battle in the queue. Raises NotFound for agents that are not registered, Refused for a role or a queue that
    does not fit."""
    with database.writing() as session:
        white = _in_role(session, wish.white, "white")
        green = None if wish.green is None else _in_role(session, wish.green, "green")
        for one in wish.about.get("others", ()):
            _in_role(session, one["agent_id"], "white")
        waiting = select(func.count()).select_from(Battle).where(Battle.state == "queued")
        if (session.scalar(waiting) or 0) >= MOST_WAITING:
            raise Refused(f"{MOST_WAITING} battles wait already", status=429, hint="ask again later")
        row = Battle(
            slug=secrets.token_hex(6),
            state="queued",
            white_id=white.id,
            green_id=None if green is None else green.id,
            config=plain(json.dumps(dict(wish.config))),
            about=plain(json.dumps(dict(wish.about))),
            created_by=wish.by,
            created_at=now(),
            tries=0,
            message="",
        )
        session.add(row)
        session.flush()
        _event(session, row.id, "state", {"state": "queued"})
        return battle_of(row, white, green)


def _in_role(session: Session, slug: str, role: str) -> Contender:
    found = contenders.find(session, slug)
    if found.role != role:
        raise Refused(f"{found.name} is registered as {found.role}, not as {role}", status=409)
    return found


def battle_rows(session: Session, *, limit: int = 100, offset: int = 0) -> list[BattleRow]:
    """The newest first."""
    chosen = _query().order_by(Battle.id.desc()).limit(limit).offset(offset)
    return [battle_of(*row) for row in session.execute(chosen)]


def find_battle(session: Session, slug: str) -> BattleRow:
    """Raises NotFound."""
    row = session.execute(_query().where(Battle.slug == slug)).first()
    if row is None:
        raise NotFound("no such battle is known here", hint="/api/battles lists those there are")
    return battle_of(*row)


def _query() -> Any:  # noqa: ANN401 - SQLAlchemy's own, of three tables
    white, green = aliased(Contender), aliased(Contender)
    chosen = select(Battle, white, green).join(white, Battle.white_id == white.id)
    return chosen.outerjoin(green, Battle.green_id == green.id)


def claim(database: Database, server: str, *, lease_s: float, has_referee: bool) -> Claim | None:
    """The battle that waited longest, for this server alone; None where there is none that it can fight."""
    with database.writing() as session:
        waiting = select(Battle).where(Battle.state == "queued").order_by(Battle.id).limit(1)
        if not has_referee:
            waiting = waiting.where(Battle.green_id.is_not(None))
        row = session.scalars(waiting.with_for_update(skip_locked=True)).first()
        if row is None:
            return None
        white = session.get_one(Contender, row.white_id)
        green = None if row.green_id is None else session.get_one(Contender, row.green_id)
        keys = {"white": white.sealed_key, "green": green.sealed_key if green else None}
        row.state, row.claimed_by, row.tries, row.started_at = "running", server, row.tries + 1, now()
        row.leased_until_s, row.ended_at, row.result, row.message = _clock(session) + lease_s, None, None, ""
        loaded = json.loads(row.config), json.loads(row.about)
        others = Contender.slug.in_([one["agent_id"] for one in others_of(row)])
        keys |= {one.slug: one.sealed_key for one in session.scalars(select(Contender).where(others))}
        sealed = {role: key for role, key in keys.items() if key is not None}
        claimed = Claim(row.slug, row.tries, white.url, green.url if green else None, *loaded, sealed_keys=sealed)
        row.run = f"battle_{claimed.name}" if green is None else None
        _event(session, row.id, "state", {"state": "running", "run": row.run})
        return claimed


def renew(database: Database, claimed: Claim, server: str, *, lease_s: float) -> bool:
    """Whether it is still ours; if so, for another while."""
    with database.writing() as session:
        until = _clock(session) + lease_s
        ours = update(Battle).where(Battle.slug == claimed.slug, *_ours(claimed, server)).values(leased_until_s=until)
        return bool(session.scalars(ours.returning(Battle.id)).all())


def end(
    database: Database,
    claimed: Claim,
    server: str,
    state: BattleState,
    *,
    message: str,
    result: Mapping[str, Any] | None = None,
) -> bool:
    """Write down what it came to; False where it is not ours any more, and then nothing is written."""
    with database.writing() as session:
        chosen = select(Battle).where(Battle.slug == claimed.slug, *_ours(claimed, server)).with_for_update()
        row = session.scalars(chosen).first()
        if row is None:
            return False
        _close(session, row, state, message)
        row.result = None if result is None else kept(result)
        return True


def kept(result: Mapping[str, Any]) -> str:
    """A result as the database holds it. It may be any referee's: of one that is too large only numbers and short texts
    stay."""
    text = plain(json.dumps(dict(result)))
    if len(text) <= LARGEST_RESULT:
        return text
    small = {
        name[:LONGEST_NAME]: value[:LARGEST_CONTENT] if isinstance(value, str) else value
        for name, value in list(result.items())[:MOST_NUMBERS]
        if value is None or isinstance(value, str | float | bool) or (isinstance(value, int) and abs(value) < 1 << 62)
    }
    return plain(json.dumps({**small, "left_out": "it was too large to be kept whole"}))


def _ours(claimed: Claim, server: str) -> tuple[Any, ...]:
    return Battle.state == "running", Battle.claimed_by == server, Battle.tries == claimed.tries


def give_up_abandoned(database: Database) -> int:
    """Battles whose server is gone become `infra_error`, or `cancelled` where that was asked for; how many."""
    with database.writing() as session:
        gone = (Battle.state == "running") & (Battle.leased_until_s < _clock(session))
        rows = session.scalars(select(Battle).where(gone).with_for_update(skip_locked=True)).all()
        for row in rows:
            _close(session, row, "cancelled" if row.cancelled_by else "infra_error", ABANDONED)
        return len(rows)


def _close(session: Session, row: Battle, state: BattleState, message: str) -> None:
    row.state, row.message, row.ended_at = state, plain(message)[:LARGEST_CONTENT], now()
    row.claimed_by = row.leased_until_s = None
    _event(session, row.id, "state", {"state": state, "message": row.message})


def retry(database: Database, slug: str, by: str) -> BattleRow:
    """Put a battle without a whole result into the queue again. Raises NotFound, and Refused for any other."""
    with database.writing() as session:
        # Held first: another server may have put it into the queue, and begun, since it was looked at.
        row = session.scalars(select(Battle).where(Battle.slug == slug).with_for_update()).first()
        shown = find_battle(session, slug)
        if row is None or not shown.can_be_retried:
            raise Refused(
                f"this battle is {shown.state}", status=409, hint="only what came to no whole result is retried"
            )
        row.state, row.message, row.cancelled_by, row.result = "queued", "", None, None
        _event(session, row.id, "state", {"state": "queued", "by": by})
        session.flush()
        return find_battle(session, slug)


def cancel(database: Database, slug: str, holder: Holder) -> BattleRow:
    """End a battle: one that waits at once, one that is fought as soon as its server has cleaned up after it.

    Raises NotFound, and Refused where it is over or another's.
    """
    with database.writing() as session:
        row = session.scalars(select(Battle).where(Battle.slug == slug).with_for_update()).first()
        shown = find_battle(session, slug)
        if row is None or shown.is_over:
            raise Refused(f"this battle is {shown.state}", status=409, hint="only what is not over can be cancelled")
        if row.created_by != holder.name and not holder.may("admin"):
            raise Refused("another key asked for this battle", status=403)
        if row.state == "queued":
            row.cancelled_by = holder.name
            _close(session, row, "cancelled", f"cancelled by {holder.name}")
        elif row.cancelled_by is None:
            row.cancelled_by = holder.name
            _event(session, row.id, "told", {"text": f"{holder.name} cancels it"})
        session.flush()
        return find_battle(session, slug)


def to_be_cancelled(database: Database, server: str) -> dict[str, str]:
    """Battles that this server fights and is to end, each with the name of the key that asked for it."""
    with database.reading() as session:
        chosen = select(Battle.slug, Battle.cancelled_by).where(Battle.state == "running", Battle.claimed_by == server)
        return {slug: by for slug, by in session.execute(chosen.where(Battle.cancelled_by.is_not(None))) if by}


def tell(database: Database, slug: str, told: Sequence[Mapping[str, Any]]) -> None:
    """Keep what was told of a battle. Raises NotFound."""
    with database.writing() as session:
        # Whoever tells of a battle takes turns: a reader that goes by number misses nothing.
        row_id = session.scalars(select(Battle.id).where(Battle.slug == slug).with_for_update()).first()
        if row_id is None:
            raise NotFound("no such battle is known here", hint="/api/battles lists those there are")
        kept = session.scalar(select(func.count()).where(BattleEvent.battle_id == row_id)) or 0
        for content in told[: max(0, MOST_EVENTS - kept)]:
            _event(session, row_id, "told", content)


def events_since(session: Session, slug: str, seq: int, *, limit: int = 1_000) -> list[EventRow]:
    """What was told after event `seq`, in order; empty for a battle that is not known."""
    chosen = select(BattleEvent).join(Battle, BattleEvent.battle_id == Battle.id)
    chosen = chosen.where(Battle.slug == slug, BattleEvent.id > seq).order_by(BattleEvent.id)
    return [event_of(row) for row in session.scalars(chosen.limit(limit))]


def _event(session: Session, battle_id: int, kind: str, content: Mapping[str, Any]) -> None:
    session.add(BattleEvent(battle_id=battle_id, at=now(), kind=kind, content=plain(json.dumps(dict(content)))))


def _clock(session: Session) -> float:
    """Seconds by the database's clock."""
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    return float(session.scalar(text(SQLITE_CLOCK if is_sqlite else POSTGRES_CLOCK)) or 0.0)
