"""One request of an agent: to the endpoint as it is where that speaks the same interface, else through our models.

Whichever way it goes, it is paid for from the trial's account, and told to its record once, whole.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from termarena.broker.contract import Exchanged, Refusal
from termarena.broker.dialects.parts import new_id
from termarena.broker.replies import EVENTS, JSON, Streamed, Whole
from termarena.broker.screening import refuse_fields
from termarena.core.errors import AgentError, TermArenaError
from termarena.models.accounts import UNSAID_OUTPUT_TOKENS
from termarena.models.errors import BudgetSpent, ContextOverflow, KeyRefused, ModelRejected, ModelUnavailable
from termarena.models.http import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from termarena.broker.contract import Asked
    from termarena.broker.seats import Seat
    from termarena.core.records import Json
    from termarena.models.budget import Amount
    from termarena.models.contract import Completion

__all__ = ["Paying", "asked_of_model", "refusal_of"]

LONGEST_ANSWER_S: Final = 3600.0
"""A model behind our own client has its own patience, which is shorter."""


@dataclass(slots=True)
class Paying:
    """A request under way: what it will take is set aside, and at its end it is settled and recorded, once."""

    seat: Seat
    asked: Asked
    began: float
    expected: Amount
    is_told: bool = False

    def settle(self, document: Json, completion: Completion | None, *, problem: str | None = None) -> None:
        """The end of a request that reached the model; None for an answer that could not be read."""
        account = self.seat.model.account
        if completion is None:
            account.lose(self.expected)
        else:
            completion = account.settle(completion, self.expected)
            self.seat.answered(completion)
        self._tell(200, document, completion, problem)

    def refuse(self, refusal: Refusal, document: Json = None) -> None:
        """The end of a request without an answer; it costs nothing."""
        shown = self.asked.dialect.problem(refusal) if document is None else document
        self._tell(refusal.status, shown, None, refusal.message)

    def _tell(self, status: int, document: Json, completion: Completion | None, problem: str | None) -> None:
        self.is_told = True
        took = time.monotonic() - self.began
        asked = self.asked
        self.seat.keep(
            Exchanged(asked.path, asked.body, status, document, took, completion, asked.stripped, problem=problem)
        )


@asynccontextmanager
async def paying(seat: Seat, asked: Asked) -> AsyncIterator[Paying]:
    """The trial's budget for the length of one request. Entering raises `Refusal` where there is none left.

    What ends before it was settled (the agent hung up, the trial is over) has cost what was expected.
    """
    account = seat.model.account
    wanted = asked.body.get("max_tokens") or asked.body.get("max_output_tokens")
    # Less than nothing would be given back to the budget.
    answered = wanted if isinstance(wanted, int) and 0 < wanted < UNSAID_OUTPUT_TOKENS else UNSAID_OUTPUT_TOKENS
    expected = account.expect(asked_tokens=asked.size_bytes // CHARACTERS_PER_TOKEN, answered_tokens=answered)
    under_way = Paying(seat, asked, time.monotonic(), expected)
    try:
        with account.reserve(expected):
            yield under_way
    except BudgetSpent as error:
        seat.spent.set()
        refusal = refusal_of(error)
        under_way.refuse(refusal)
        raise refusal from error
    finally:
        if not under_way.is_told:
            under_way.settle(None, None, problem="the request was given up before its answer was there")


async def asked_of_model(seat: Seat, asked: Asked) -> Whole | Streamed:
    """The answer of the trial's model, in the words of the agent's interface. Raises `Refusal`."""
    dialect = asked.dialect
    refuse_fields(asked.body, previous_response_id="a stored response")  # nothing is stored on this side
    request = dialect.read(asked.body)
    async with paying(seat, asked) as under_way:
        try:
            completion = await seat.model.inner.complete(request, timeout_s=LONGEST_ANSWER_S)
        except TermArenaError as error:
            if isinstance(error, ModelUnavailable):
                seat.failure = error
            refusal = refusal_of(error)
            under_way.refuse(refusal)
            raise refusal from error
        completion = replace(completion, request_id=completion.request_id or new_id("ta-"))
        document: dict[str, Any] = dialect.document(completion, asked)
        under_way.settle(document, completion)
    if not asked.wants_stream:
        return Whole(document)
    return Streamed(_each(b"".join(dialect.events(completion, asked))), EVENTS if asked.is_event_stream else JSON)


async def _each(block: bytes) -> AsyncGenerator[bytes, None]:
    yield block


def refusal_of(error: TermArenaError) -> Refusal:
    """What an agent is told; whoever is to try again gets a status that says so."""
    if isinstance(error, BudgetSpent):
        return Refusal(403, f"{error.message}: the trial is over", kind="insufficient_quota")
    if isinstance(error, ContextOverflow):
        return Refusal(400, f"prompt is too long: {error.message}", kind="context_length_exceeded")
    if isinstance(error, KeyRefused | ModelRejected):
        return Refusal(400, "the run's model does not take this request or its key")
    if isinstance(error, ModelUnavailable):
        return Refusal(503, "the run's model does not answer", kind="server_error")
    if isinstance(error, AgentError):
        return Refusal(400, error.message)
    return Refusal(500, "the broker could not answer", kind="server_error")
