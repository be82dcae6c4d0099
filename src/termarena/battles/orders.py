"""What a battle is asked for with: every shape that AgentBeats has had, told apart by what the message holds.

{"participants": {role: url}, "config": {…}}                 an assessment request; the answer is an artifact
{"type": "battle_info", …}  then  {"type": "battle_start"}   the first backend; the result is posted to it
{agent_name, agent_id, battle_id, backend_url}  then text with `Task ID:` and `White Agent URL:`
<white_agent_url>…</white_agent_url>                         text of a controller, with <env_config>{…}</env_config>
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from termarena.core.errors import BattleRefused

__all__ = ["Introduction", "Order", "Wanted", "read_order", "with_config"]

LONGEST_TEXT: Final = 1 << 20
MOST_NAMES: Final = 10_000
ROLES: Final = ("agent", "white_agent", "white", "purple_agent", "purple")
_KNOWN: Final = frozenset(
    {
        *("task", "tasks", "task_id", "task_ids", "exclude", "n_tasks", "attempts", "max_parallel"),
        *("num_shards", "shard_index", "num_instances", "timeout_multiplier", "assessment_config"),
    }
)
_TASK_ID: Final = re.compile(r"task[ _]id\W*?[:=]\s*[\"'`]?([\w./@*?-]+)", re.IGNORECASE)
_WHITE_URL: Final = re.compile(r"white[ _]agent[ _]url\W*?[:=]\s*[\"'`<]?(https?://[^\s\"'`>]+)", re.IGNORECASE)
_BATTLE_ID: Final = re.compile(r"battle[ _]id\W*?[:=]\s*[\"'`]?([\w.-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which trials: tasks, shards, attempts."""

    ids: tuple[str, ...] = ()
    """Ids or globs; none: all that there are."""
    exclude: tuple[str, ...] = ()
    first: int | None = None
    attempts: int = 1
    shard_index: int = 0
    num_shards: int = 1
    max_parallel: int | None = None
    """Trials at once with this white agent; None is the referee's own number."""
    timeout_multiplier: float = 1.0
    unknown: tuple[str, ...] = ()
    """Keys that mean nothing here; told in the result."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A battle is about to begin: who the referee is in it, and where the backend is."""

    battle_id: str
    backend_url: str | None
    agent_name: str


@dataclass(frozen=True, slots=True)
class Order:
    """A battle to be fought."""

    white_url: str
    wanted: Wanted = Wanted()
    battle_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    role: str = "agent"
    white_name: str = "white_agent"
    """What the backend calls it."""
    backend_url: str | None = None
    white_key: str | None = field(default=None, repr=False)
    """What the white agent asks for; in no message that we get, only from whoever has us as a part."""
    others: tuple[str, ...] = ()
    """Further white agents that were named, as the backend calls them: nobody referees them here."""
    is_background: bool = False
    """Whether the answer must come at once, and the result goes elsewhere."""


def read_order(text: str) -> Order | Introduction | None:
    """What a message asks for; None for one that asks for no battle. Raises `BattleRefused` for half of an order."""
    text = text[:LONGEST_TEXT]
    table = _object(text)
    if table is not None:
        if "participants" in table:
            return _assessment(table)
        if table.get("type") == "battle_start":
            return _battle_start(table)
        if table.get("type") == "battle_info" or {"battle_id", "backend_url", "agent_name"} <= set(table):
            return _introduction(table)
    return _in_words(text)


def _object(text: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _assessment(table: Mapping[str, object]) -> Order:
    people, config = table["participants"], table.get("config", {})
    if not isinstance(people, Mapping) or not people or not all(isinstance(url, str) for url in people.values()):
        raise BattleRefused("participants is an object with a role and an address", hint='{"agent": "http://…"}')
    if not isinstance(config, Mapping):
        raise BattleRefused("config is no object")
    role = next((role for role in ROLES if role in people), None) or (next(iter(people)) if len(people) == 1 else None)
    if role is None:
        raise BattleRefused(f"one white agent fights here, not {len(people)}", hint=f"call its role {ROLES[0]}")
    order = Order(_address(people[role]), _wanted(config), role=str(role))
    named = table.get("battle_id")
    return replace(order, battle_id=_name(named)) if isinstance(named, str) and named else order


def _battle_start(table: Mapping[str, object]) -> Order:
    context, opponents = table.get("green_battle_context"), table.get("opponent_infos")
    if not isinstance(opponents, Sequence) or not opponents or not isinstance(opponents[0], Mapping):
        raise BattleRefused("battle_start names no opponent_infos with an agent_url")
    context = context if isinstance(context, Mapping) else {}
    first, *others = opponents
    return Order(
        _address(first.get("agent_url")),
        battle_id=_name(table.get("battle_id") or context.get("battle_id")),
        white_name=str(first.get("name") or "white_agent"),
        backend_url=_optional(context.get("backend_url")),
        others=tuple(str(one.get("name") if isinstance(one, Mapping) else one)[:200] for one in others),
        is_background=True,
    )


def _introduction(table: Mapping[str, object]) -> Introduction:
    return Introduction(
        _name(table.get("battle_id")), _optional(table.get("backend_url")), str(table.get("agent_name", ""))
    )


def _in_words(text: str) -> Order | None:
    tagged = _between(text, "white_agent_url")
    if tagged is not None:
        config = _object(_between(text, "env_config") or "{}")
        if config is None:
            raise BattleRefused("env_config holds no JSON object")
        return Order(_address(tagged), _wanted(config))
    white, task, battle = _WHITE_URL.search(text), _TASK_ID.search(text), _BATTLE_ID.search(text)
    if white is None:
        if task is not None:
            raise BattleRefused("the message names a task and no white agent", hint="add White Agent URL: http://…")
        return None
    order = Order(_address(white[1]), Wanted(ids=(task[1],)) if task is not None else Wanted())
    return replace(order, battle_id=_name(battle[1])) if battle is not None else order


def _between(text: str, tag: str) -> str | None:
    """What stands in the first such tag; found without a pattern, which hostile text could hold up."""
    _, opened, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closed else None


def with_config(order: Order, config: Mapping[str, object]) -> Order:
    """The order with what a backend keeps apart from it. Raises `BattleRefused`."""
    return replace(order, wanted=_wanted(config))


def _address(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        raise BattleRefused(f"{str(value)[:200]!r} is no address of a white agent", hint="http://host:port")
    return value.rstrip("/.,;")


def _name(value: object) -> str:
    return str(value)[:200] if value else uuid.uuid4().hex[:12]


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _wanted(config: Mapping[str, object]) -> Wanted:
    nested = config.get("assessment_config")
    if isinstance(nested, Mapping):
        config = {**config, **nested}
    shards = _count(config, "num_shards", 1)
    index = _count(config, "shard_index", 0, least=0)
    if index >= shards:
        raise BattleRefused(f"shard_index {index} is not below num_shards {shards}")
    multiplier = config.get("timeout_multiplier", 1.0)
    if not isinstance(multiplier, int | float) or not 0 < multiplier <= 100:  # noqa: PLR2004 - beyond any sense
        raise BattleRefused("timeout_multiplier is a number above 0")
    return Wanted(
        ids=_names(config, "task", "tasks", "task_id", "task_ids"),
        exclude=_names(config, "exclude"),
        first=_count(config, "n_tasks", 0, least=0) or None,
        attempts=_count(config, "attempts", 1),
        shard_index=index,
        num_shards=shards,
        max_parallel=_count(config, "max_parallel", 0, least=0) or None,
        timeout_multiplier=float(multiplier),
        unknown=tuple(sorted(str(key) for key in config if key not in _KNOWN)),
    )


def _names(config: Mapping[str, object], *keys: str) -> tuple[str, ...]:
    """Names as a list, one by itself, or with commas between; `all` is no restriction."""
    found: list[str] = []
    for key in keys:
        value = config.get(key)
        words = value.split(",") if isinstance(value, str) else value if value is not None else []
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise BattleRefused(f"{key} is a list of names")
        found += [word.strip() for word in words if word.strip() not in ("", "all")]
    return tuple(found[:MOST_NAMES])


def _count(config: Mapping[str, object], key: str, default: int, *, least: int = 1) -> int:
    value = config.get(key, default)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BattleRefused(f"{key} is {value!r}; expected a whole number from {least} on")
    return value
