"""What the arena shows of contenders and battles: one set of types for the API and for the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from termarena.arena.schema import Battle, BattleEvent, Contender

__all__ = ["BattleRow", "BattleState", "ContenderRow", "EventRow", "Role", "battle_of", "contender_of", "event_of"]

BattleState = Literal["queued", "running", "finished", "failed", "infra_error"]
"""failed: refused, or a referee elsewhere gave it up. infra_error: our machinery did, and it can be retried."""
Role = Literal["white", "green"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContenderRow(_Frozen):
    """An agent that is registered: a white one fights, a green one is a referee."""

    id: str
    name: str
    url: str
    role: Role
    description: str
    version: str
    skills: tuple[str, ...]
    owner: str
    registered_at: str
    checked_at: str
    is_alive: bool
    """Whether its card could be fetched when that was tried last."""
    problem: str


class BattleRow(_Frozen):
    """A battle as it stands."""

    id: str
    state: BattleState
    white: ContenderRow
    green: ContenderRow | None
    """None: the server's own referee."""
    config: Mapping[str, Any]
    created_by: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    tries: int
    run: str | None
    """The run that it is, as addresses name it; None with another referee than the server's own."""
    result: Mapping[str, Any] | None
    message: str

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes, unless it is tried again."""
        return self.state in ("finished", "failed", "infra_error")

    @property
    def can_be_retried(self) -> bool:
        """Whether it came to no result."""
        return self.state in ("failed", "infra_error")


class EventRow(_Frozen):
    """Something that was told of a battle."""

    seq: int
    at: str
    kind: Literal["state", "told"]
    content: Mapping[str, Any]

    @property
    def words(self) -> str:
        """In one line."""
        told = (self.content.get(name) for name in ("text", "message", "state"))
        return str(next((one for one in told if one), "")).replace("infra_error", "infra error")


def contender_of(row: Contender) -> ContenderRow:
    """As it is shown."""
    card = json.loads(row.card)
    return ContenderRow(
        id=row.slug,
        role=cast("Role", row.role),
        description=card["description"],
        version=card["version"],
        skills=tuple(card["skills"]),
        **{
            name: getattr(row, name)
            for name in ("name", "url", "owner", "registered_at", "checked_at", "is_alive", "problem")
        },
    )


def battle_of(row: Battle, white: Contender, green: Contender | None) -> BattleRow:
    """As it is shown."""
    return BattleRow(
        id=row.slug,
        state=cast("BattleState", row.state),
        white=contender_of(white),
        green=None if green is None else contender_of(green),
        config=json.loads(row.config),
        result=None if row.result is None else json.loads(row.result),
        **{
            name: getattr(row, name)
            for name in ("created_by", "created_at", "started_at", "ended_at", "tries", "run", "message")
        },
    )


def event_of(row: BattleEvent) -> EventRow:
    """As it is shown."""
    kind = cast('Literal["state", "told"]', row.kind)
    return EventRow(seq=row.id, at=row.at, kind=kind, content=json.loads(row.content))
