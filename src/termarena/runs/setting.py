"""What all trials of one run share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.agents.contract import Agent
    from termarena.runs.judging import Judge
    from termarena.runs.plan import RunOptions
    from termarena.sandbox import Driver
    from termarena.sandbox.staging import Stage
    from termarena.tasks.model import Task

__all__ = ["Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The run's options and machinery."""

    options: RunOptions
    driver: Driver
    stage: Stage
    judge: Judge
    make_agent: Callable[[Task], Agent]
    """Raises what `resolve_agent` raises."""
