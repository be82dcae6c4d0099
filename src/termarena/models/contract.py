"""The model contract: what a language model is asked, what it answers, and what that used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.core.records import Json

__all__ = [
    "Completion",
    "Exchange",
    "Finish",
    "Message",
    "Model",
    "Request",
    "Sampling",
    "TokenUsage",
    "ToolCall",
    "ToolSpec",
]

Finish = Literal["stop", "length", "tool_calls", "refused", "unknown"]
"""Why a model ended: by itself, at its limit, to have tools used, because it or its provider declined."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a model wants used. `arguments` is the text that it wrote: it may be no JSON at all."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Of the assistant."""
    tool_call_id: str | None = None
    """Which call a tool's message answers."""
    reasoning: str | None = None
    """What the assistant thought, as far as its provider tells; it is not sent back."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool on offer."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """A JSON schema of an object."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next words are chosen; None is the provider's own default."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A conversation up to the turn that the model is to take."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What one answer used, as the provider counted it; None is unknown, never zero."""

    input_tokens: int | None = None
    """All of the prompt, cached or not."""
    output_tokens: int | None = None
    """All that was written, thoughts included."""
    cached_tokens: int | None = None
    """Of the input: read from the provider's cache."""
    cache_write_tokens: int | None = None
    """Of the input: written to it."""
    reasoning_tokens: int | None = None
    """Of the output."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer."""

    message: Message
    finish: Finish
    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None
    """None is unknown."""
    cost_source: Literal["provider", "table"] | None = None
    model: str | None = None
    """As the provider calls it."""
    request_id: str | None = None
    attempts: int = 1
    duration_s: float = 0.0
    """Of the whole call: waiting for a place and for retries included."""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer as they went over the wire, without the headers, where the key is."""

    url: str
    request: Json
    status: int | None
    """HTTP's; None where no answer came."""
    response: Json
    """Parsed where it is JSON, else its text."""
    duration_s: float


class Model(Protocol):
    """A model that can be asked. Safe to be asked by several at once."""

    @property
    def name(self) -> str:
        """As in `--model`."""

    @property
    def context_tokens(self) -> int | None:
        """How much fits into one request and its answer together; None is unknown."""

    async def complete(
        self, request: Request, *, timeout_s: float, observe: Callable[[Exchange], None] | None = None
    ) -> Completion:
        """The next turn; `observe` is shown every exchange, failed ones included.

        Raises `ModelUnavailable` when no answer was to be had in `timeout_s` or after the retries, `ModelRejected` and
        `KeyRefused` when asking again is in vain, `ContextOverflow` for a conversation that is too long,
        `UnusableReply` for an answer that is none, `BudgetSpent` when there is no money or token left.
        """
