"""What passes through the broker: an agent's request in the words of its interface, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.broker.sse import Event
    from termarena.core.records import Json
    from termarena.models.contract import Completion, Request

__all__ = ["Asked", "Dialect", "DialectName", "Exchanged", "Gatherer", "Refusal", "Screened"]

DialectName = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's chat completions and responses, Anthropic's messages, Google's generateContent."""


class Refusal(Exception):
    """A request that is not served. `kind` is what providers call such a thing, `status` is HTTP's."""

    def __init__(self, status: int, message: str, *, kind: str = "invalid_request_error") -> None:
        """`message` is one sentence for the agent and for the record."""
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may go on: read, and without what an agent may not ask for."""

    dialect: Dialect
    path: str
    body: dict[str, Any]
    wants_stream: bool
    is_event_stream: bool = True
    """Gemini: whether the stream is to be of events, or one JSON array."""
    stripped: tuple[str, ...] = ()
    """What was taken out, for the record: tools that a provider would use itself."""
    size_bytes: int = 0
    """Of the request as it came."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The agent's own, as far as they are handed on."""


class Screened(NamedTuple):
    """A body that may go to a provider, and what it lacks now."""

    body: dict[str, Any]
    stripped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One request of an agent, and what came of it. No header and no key is in it."""

    path: str
    request: Json
    status: int
    response: Json
    """The whole answer: of a stream, what its events amount to."""
    duration_s: float
    completion: Completion | None = None
    """None where there was no answer, or where it could not be read."""
    stripped: tuple[str, ...] = ()
    problem: str | None = None
    """Why there was no answer, or no whole one."""


class Gatherer(Protocol):
    """Puts the events of a stream together to the answer that would have come in one piece."""

    def add(self, event: Event) -> bool:
        """Take one event; whether the agent is to see it."""

    @property
    def is_whole(self) -> bool:
        """Whether the last event has come."""

    @property
    def document(self) -> dict[str, Any]:
        """The answer so far."""


class Dialect(Protocol):
    """The server's side of one interface. It holds nothing and reaches nothing."""

    @property
    def name(self) -> DialectName:
        """Which."""

    def read(self, body: Mapping[str, Any]) -> Request:
        """The request as a conversation. Raises `Refusal` for one that is none."""

    def screen(self, body: Mapping[str, Any]) -> Screened:
        """The body without provider-side tools. Raises `Refusal` for remote servers, files and images."""

    def shortened(self, body: dict[str, Any], most_tokens: int) -> dict[str, Any]:
        """The body asking for a reply of no more than so many tokens."""

    def addressed(self, body: dict[str, Any], model: str) -> dict[str, Any]:
        """The body for a provider: with the run's model, whatever the agent wrote, and so that usage is told."""

    def completion(self, document: dict[str, Any]) -> Completion:
        """A provider's answer. Raises `UnusableReply`."""

    def document(self, answer: Completion, asked: Asked) -> dict[str, Any]:
        """An answer in one piece."""

    def events(self, answer: Completion, asked: Asked) -> Iterator[bytes]:
        """The same as a stream."""

    def gatherer(self, asked: Asked) -> Gatherer:
        """For the stream of a provider."""

    def problem(self, refusal: Refusal) -> dict[str, Any]:
        """What is wrong, as this interface tells it."""

    def broken_off(self, refusal: Refusal) -> bytes:
        """The same within a stream that has begun."""
