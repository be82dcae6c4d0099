"""A seat at the broker: one trial's token, its model, its account, and what became of its requests."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.broker.contract import DialectName, Exchanged
    from termarena.core.errors import TermArenaError
    from termarena.models.contract import Completion
    from termarena.models.run_models import Line, MeteredModel

__all__ = ["Seat", "Seats", "native_dialects"]

AT_ONCE: Final = 64
"""Requests of one trial; no agent needs more, and one that asks for more is told to wait."""
MOST_KEPT: Final = 1000
"""Reasons and tools that are remembered; the record has every request."""


@dataclass(slots=True)
class Seat:
    """What one trial may do. `close` ends it: its token is worth nothing then."""

    token: str = field(repr=False)
    model: MeteredModel
    """Of the trial: its budget and its sums are here."""
    line: Line | None
    """To the endpoint; None for a model that has none."""
    record: Callable[[Exchanged], None]
    natives: frozenset[DialectName] = frozenset()
    """What the endpoint speaks itself: these requests are handed on as they are."""
    spent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first request was refused for want of budget."""
    failure: TermArenaError | None = None
    """Why the last request had no answer, where that was not the agent's fault."""
    at_once: int = AT_ONCE
    """Requests side by side."""
    longest_reply: int | None = None
    """Tokens that a request may ask for; None: as many as it likes."""
    under_way: int = 0
    is_closed: bool = False
    stripped: list[str] = field(default_factory=list)
    """Provider-side tools that were taken out of requests."""
    refused: list[str] = field(default_factory=list)
    """Why requests were refused, each reason once."""

    def answered(self, completion: Completion | None) -> None:
        """A request has come to an answer."""
        if completion is not None:
            self.failure = None

    def keep(self, exchange: Exchanged) -> None:
        """Record what became of a request, unless the trial is over."""
        self.stripped.extend(exchange.stripped[: max(MOST_KEPT - len(self.stripped), 0)])
        if exchange.problem and len(self.refused) < MOST_KEPT and exchange.problem not in self.refused:
            self.refused.append(exchange.problem)
        if not self.is_closed:
            self.record(exchange)

    def close(self) -> None:
        """Take the token back: what was not handed on yet is refused, what is under way is not recorded any more."""
        self.is_closed = True


class Seats:
    """All seats of a broker, by their tokens, which are kept as digests only."""

    def __init__(self) -> None:
        """None yet."""
        self._by_digest: dict[bytes, Seat] = {}

    def add(self, seat: Seat) -> None:
        """From now on its token is known."""
        self._by_digest[_digest(seat.token)] = seat

    def remove(self, seat: Seat) -> None:
        """Close it and forget its token."""
        seat.close()
        self._by_digest.pop(_digest(seat.token), None)

    def find(self, token: str) -> Seat | None:
        """Whose token it is."""
        return self._by_digest.get(_digest(token))

    @staticmethod
    def new_token() -> str:
        """In the shape of a provider's key, so that agents take it for one, and the scrubber knows it."""
        return f"sk-ant-termarena-{secrets.token_hex(20)}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def native_dialects(line: Line | None) -> frozenset[DialectName]:
    """What an endpoint speaks itself. Of one that merely speaks like OpenAI, only the chat is known."""
    if line is None:
        return frozenset()
    provider = line.name.provider.name
    known: dict[str, frozenset[DialectName]] = {
        "anthropic": frozenset({"messages"}),
        "google": frozenset({"gemini"}),
    }
    if provider == "openai" and not line.name.has_own_url:
        return frozenset({"chat", "responses"})
    return known.get(provider, frozenset({"chat"}))
