"""What a log parser gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from termarena.agents.contract import Usage

if TYPE_CHECKING:
    from termarena.core.trajectory import Step

__all__ = ["ToldLog"]


@dataclass(frozen=True, slots=True)
class ToldLog:
    """An agent's own account. Nothing in it is trusted: what was used is what the broker metered."""

    steps: tuple[Step, ...] = ()
    """In order; a line that the parser does not know is a step of its own, word for word."""
    last_words: str = ""
    usage: Usage = field(default_factory=Usage)
    """What the agent says that it used."""
    unknown_lines: int = 0
