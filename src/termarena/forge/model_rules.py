"""What a language model may be asked for, and what that may cost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ModelRules"]


class ModelRules(BaseModel):
    """`[model]` in `forge.toml`; without it no model is asked anything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in `--model`: `openai:…`, `anthropic:…`, `scripted:FILE` …"""
    scores: bool = True
    """Whether it gives a second opinion on quality. It is written down, and decides nothing."""
    words: bool = True
    """Whether it may propose another wording of an instruction."""
    repairs: int = Field(default=1, ge=0, le=5)
    """How often it may propose other commands for a session that a gate refused."""
    # What may be spent changes no outcome that was come to.
    usd: float | None = Field(default=None, gt=0, exclude=True)
    """For all recordings together."""
    tokens: int | None = Field(default=None, gt=0, exclude=True)
    recording_usd: float | None = Field(default=None, gt=0, exclude=True)
    """For each."""
    recording_tokens: int | None = Field(default=None, gt=0, exclude=True)
