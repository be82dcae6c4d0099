"""The thresholds of screening, in one place."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ScreenRules"]


class ScreenRules(BaseModel):
    """What is kept. The defaults suit tasks that must be replayed without a network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least_commands: int = Field(default=3, ge=1)
    """Commands of the shell; comments do not count."""
    most_commands: int = Field(default=80, ge=1)
    least_state_changes: int = Field(default=1, ge=0)
    """Commands that change a file, a repository, a service: without one there is nothing to test."""
    least_confidence: float = Field(default=0.5, ge=0, le=1)
    """Mean confidence of the commands as they were read."""
    least_quality: int = Field(default=4, ge=0, le=12)
    most_unparsed_share: float = Field(default=0.3, ge=0, le=1)
    """Of the shell's commands, those that the grammar does not cover and that cannot be judged."""
    most_foreign_share: float = Field(default=0.5, ge=0, le=1)
    """Of all lines, those typed into something else than a shell."""
    near_duplicate: float = Field(default=0.85, gt=0, le=1)
    """Similarity of command sequences from which on two recordings count as one."""
    contamination_share: float = Field(default=0.5, gt=0, le=1)
    """Share of a recording's command n-grams that stand in a known benchmark."""
    most_processor_s: float = Field(default=120, gt=0)
    """For reading and judging one recording; the longest that is read takes about thirty."""
    allow_full_screen: bool = False
    """Keep recordings in which a program took the whole screen for more than looking at something."""
    allow_pipe_to_shell: bool = False
    check_addresses: bool = False
    """Ask public addresses that a session fetches from whether they are still there, which uses a network."""
    allow_remote: bool = False
    """Keep recordings that reach for other hosts or cloud accounts."""
