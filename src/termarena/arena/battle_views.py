"""What the arena shows of contenders and battles: one set of types for the API and for the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    from termarena.arena.schema import Battle, BattleEvent, Contender

__all__ = [
    "BattleRow",
    "BattleState",
    "ContenderRow",
    "EventRow",
    "FoughtTrial",
    "Role",
    "battle_of",
    "contender_of",
    "event_of",
    "others_of",
]

BattleState = Literal["queued", "running", "finished", "failed", "infra_error", "cancelled"]
"""failed: refused, or a referee elsewhere gave it up. infra_error: our machinery did. cancelled: someone with a key
did, and nothing of it runs any more. These three can be retried, and `finished` with trials that have no score."""
Role = Literal["white", "green"]
MOST_ROWS = 300
LARGEST_NUMBER = 1_000_000_000
_Count = Annotated[int, Field(ge=0, lt=LARGEST_NUMBER)]


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


class FoughtTrial(BaseModel):
    """A row of a result, as far as a page shows it. It may be any referee's: what does not fit is not shown."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    task_id: Annotated[str, Field(max_length=500)]
    attempt: _Count
    outcome: Annotated[str, Field(max_length=100)]
    n_commands: _Count | None = None
    duration_sec: Annotated[float, Field(ge=0)] | None = None


class BattleRow(_Frozen):
    """A battle as it stands."""

    id: str
    state: BattleState
    white: ContenderRow
    others: tuple[str, ...]
    """Further agents that are measured, as AgentBeats' backend calls them."""
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
    cancelled_by: str | None
    """Who asked for its end; while it is `running`, it is being ended."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes, unless it is tried again."""
        return self.state not in ("queued", "running")

    @property
    def can_be_retried(self) -> bool:
        """Whether it came to no result, or to one that lacks trials: those are nobody's failure."""
        return self.state in ("failed", "infra_error", "cancelled") or (
            self.state == "finished" and bool(self.unscored)
        )

    @property
    def solved(self) -> str | None:
        """`3 of 5`; None where the result, which may be any referee's, does not say so in numbers."""
        score, most = self._number("score"), self._number("max_score")
        return None if score is None or most is None else f"{score:g} of {most:g}"

    @property
    def unscored(self) -> str | None:
        """How many trials could not be scored; None where that is none, or not told."""
        number = self._number("unscored")
        return f"{number:g}" if number else None

    @property
    def trials(self) -> tuple[FoughtTrial, ...]:
        """The first rows of the result that can be shown."""
        rows = (self.result or {}).get("rows")
        found = []
        for row in rows[:MOST_ROWS] if isinstance(rows, list) else ():
            with suppress(ValidationError):
                found.append(FoughtTrial.model_validate(row))
        return tuple(found)

    def _number(self, name: str) -> float | None:
        value = (self.result or {}).get(name)
        return float(value) if isinstance(value, int | float) and abs(value) < LARGEST_NUMBER else None


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
        others=tuple(one["name"] for one in others_of(row)),
        green=None if green is None else contender_of(green),
        config=json.loads(row.config),
        result=None if row.result is None else json.loads(row.result),
        **{
            name: getattr(row, name)
            for name in (
                *("created_by", "created_at", "started_at", "ended_at"),
                *("tries", "run", "message", "cancelled_by"),
            )
        },
    )


def others_of(row: Battle) -> list[dict[str, str]]:
    """Further white agents: each its `name` in the battle and its `agent_id`."""
    found: list[dict[str, str]] = json.loads(row.about).get("others", [])
    return found


def event_of(row: BattleEvent) -> EventRow:
    """As it is shown."""
    kind = cast('Literal["state", "told"]', row.kind)
    return EventRow(seq=row.id, at=row.at, kind=kind, content=json.loads(row.content))
