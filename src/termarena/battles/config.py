"""`config.toml` of a green agent: which tasks, how long, how many at once, which networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from termarena.core.given_files import read_given_toml

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GreenConfig", "LimitSettings", "NetworkSettings", "SessionSettings", "TaskChoice", "read_config"]

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskChoice(_Frozen):
    """`[tasks]`: what battles can be about; a battle chooses among these."""

    include: tuple[str, ...] = ()
    """Ids or globs; none: all of the dataset."""
    exclude: tuple[str, ...] = ()
    timeout_multiplier: Share = 1.0
    """Of every task's own time limits; other than 1 is not ranked."""
    cpus: Share | None = None
    memory_mb: Annotated[int, Field(ge=16)] | None = None
    """Of every sandbox, in the place of what its task asks for; such battles are not ranked."""


class LimitSettings(_Frozen):
    """`[limits]`"""

    battles_at_once: Count = 64
    battles_waiting: Annotated[int, Field(ge=0)] = 64
    """Further ones wait for their turn; beyond that a battle is refused."""
    trials_at_once: Count = 16
    """Sandboxes at once, of all battles together."""
    trials_per_white: Count = 1
    """At once with one white agent: many keep one state for all."""
    most_trials: Count = 10_000
    """Of one battle."""
    retries: Annotated[int, Field(ge=0)] = 1
    """Of a trial that could not be scored, for no fault of the agent."""


class SessionSettings(_Frozen):
    """`[session]`"""

    default_timeout_s: Seconds = 30.0
    max_timeout_s: Seconds = 3600.0
    max_output_bytes: Annotated[int, Field(ge=1024)] = 64 << 10
    max_file_bytes: Annotated[int, Field(ge=1024)] = 1 << 20
    max_turns: Count = 1000
    first_contact_s: Seconds = 30.0
    """How long a white agent may take to be there."""


class NetworkSettings(_Frozen):
    """`[network]`"""

    allow: tuple[str, ...] = ()
    """Private networks in which whites and backends may be: 10.1.0.0/16."""


class GreenConfig(_Frozen):
    """Everything."""

    driver: Literal["auto", "namespace", "docker"] = "auto"
    tasks: TaskChoice = TaskChoice()
    limits: LimitSettings = LimitSettings()
    session: SessionSettings = SessionSettings()
    network: NetworkSettings = NetworkSettings()


def read_config(path: Path) -> GreenConfig:
    """Raises `UsageError`, which names the field."""
    return read_given_toml(GreenConfig, path, hint="docs/battles.md has every field")
