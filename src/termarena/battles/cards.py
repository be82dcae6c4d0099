"""Agent cards: from our own TOML, for A2A 1.0 and 0.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from pydantic import BaseModel, ConfigDict, Field

from termarena import __version__
from termarena.core.given_files import read_given_toml

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GREEN_CARD", "WHITE_CARD", "CardText", "Skill", "make_card", "read_card"]

MODES = ("text", "text/plain", "application/json")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Skill(_Frozen):
    """`[[skills]]`"""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class Capabilities(_Frozen):
    """`[capabilities]`"""

    streaming: bool = True


class CardText(_Frozen):
    """What an operator says of an agent."""

    name: Annotated[str, Field(min_length=1)]
    description: str
    version: str = __version__
    capabilities: Capabilities = Capabilities()
    skills: Annotated[tuple[Skill, ...], Field(min_length=1)]


GREEN_CARD = CardText(
    name="TermArena green agent",
    description="Referees terminal tasks: gives a white agent a sandboxed terminal, then runs hidden tests.",
    skills=(
        Skill(
            id="terminal-tasks",
            name="Terminal task assessment",
            description="Assesses an agent on terminal tasks over terminal-bench-shell-v1 or MCP.",
            tags=("benchmark", "terminal", "terminal-bench-shell-v1"),
            examples=('{"participants": {"agent": "http://127.0.0.1:9019"}, "config": {"tasks": ["hello-world"]}}',),
        ),
    ),
)
WHITE_CARD = CardText(
    name="TermArena white agent",
    description="Works on terminal tasks over terminal-bench-shell-v1.",
    skills=(
        Skill(
            id="terminal",
            name="Terminal work",
            description="Answers a task message with commands until the work is done.",
            tags=("terminal", "terminal-bench-shell-v1"),
        ),
    ),
)


def read_card(path: Path) -> CardText:
    """Raises `UsageError`, which names the field."""
    return read_given_toml(CardText, path, hint="docs/battles.md has a card")


def make_card(text: CardText, url: str, *, needs_key: bool = False) -> AgentCard:
    """The card as it is served: both protocol versions at one address."""
    versions = ("1.0", "0.3")
    card = AgentCard(
        name=text.name,
        description=text.description,
        version=text.version,
        supported_interfaces=[
            AgentInterface(protocol_binding="JSONRPC", protocol_version=version, url=url) for version in versions
        ],
        default_input_modes=MODES,
        default_output_modes=MODES,
        capabilities=AgentCapabilities(streaming=text.capabilities.streaming),
        skills=[
            AgentSkill(
                id=skill.id,
                name=skill.name,
                description=skill.description,
                tags=skill.tags,
                examples=skill.examples,
            )
            for skill in text.skills
        ],
    )
    if needs_key:
        card.security_schemes["bearer"].http_auth_security_scheme.scheme = "Bearer"
        card.security_requirements.add().schemes["bearer"].SetInParent()
    return card
