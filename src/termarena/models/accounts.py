"""The account of one attempt: what its answers may cost, and the sums of what they did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from termarena.models.budget import Amount, Budget, Meter
from termarena.models.prices import price_table

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from termarena.models.contract import Completion
    from termarena.models.prices import Price

__all__ = ["UNSAID_OUTPUT_TOKENS", "Account"]

UNSAID_OUTPUT_TOKENS: Final = 1000
"""How much of an answer is reserved where nobody set its length: what a step of an agent usually takes."""
_MILLION: Final = 1_000_000


@dataclass(slots=True)
class Account:
    """A price, a budget and a meter that belong together."""

    price: Price | None
    """None is unknown."""
    budget: Budget
    """The trial's."""
    meter: Meter = field(default_factory=Meter)

    def expect(self, *, asked_tokens: int, answered_tokens: int) -> Amount:
        """What an answer of such a size takes."""
        price = self.price
        usd = (asked_tokens * price.input + answered_tokens * price.output) / _MILLION if price else 0.0
        return Amount(usd, asked_tokens + answered_tokens)

    def reserve(self, expected: Amount) -> AbstractContextManager[None]:
        """Set aside what an answer will take, while it is waited for. Entering raises `BudgetSpent`."""
        return self.budget.reserve(expected)

    def settle(self, answer: Completion, expected: Amount) -> Completion:
        """Count an answer; it comes back with its cost, as far as that is known."""
        if answer.cost_usd is None and self.price is not None:
            answer = _priced(answer, self.price)
        self.meter.add(answer)
        self.budget.spend(_amount(answer, expected))
        return answer

    def lose(self, expected: Amount) -> None:
        """Count an answer that came and told nothing: it has cost what was expected."""
        self.meter.lose()
        self.budget.spend(expected)


def _priced(answer: Completion, price: Price) -> Completion:
    """With what it costs by the table, and which table that is."""
    cost = price.cost_of(answer.usage)
    if cost is None:
        return answer
    table = price_table()
    return replace(
        answer,
        cost_usd=cost,
        cost_source="table",
        extra={**answer.extra, "prices": f"{table.as_of} {table.digest}"},
    )


def _amount(answer: Completion, expected: Amount) -> Amount:
    """What counts against the budget: what was told, else what was expected."""
    usage = answer.usage
    told = usage.input_tokens is not None and usage.output_tokens is not None
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) if told else expected.tokens
    return Amount(expected.usd if answer.cost_usd is None else answer.cost_usd, tokens)
