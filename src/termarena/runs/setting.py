"""What all trials of one run share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.agents.contract import Agent
    from termarena.grading.contract import Verdict
    from termarena.runs.judging import Case
    from termarena.runs.plan import RunOptions
    from termarena.sandbox import Driver
    from termarena.sandbox.staging import StartStates
    from termarena.tasks.model import Task

__all__ = ["Referee", "Setting"]


class Referee(Protocol):
    """Who says what a sealed state is worth."""

    async def judge(self, case: Case) -> Verdict:
        """The verdict that counts. Raises what starting a sandbox raises."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The run's options and machinery."""

    options: RunOptions
    driver: Driver
    stage: StartStates
    judge: Referee
    make_agent: Callable[[Task], Agent]
    """Raises what `resolve_agent` raises."""
