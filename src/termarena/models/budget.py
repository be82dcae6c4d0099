"""Money and tokens that may be spent, per trial and per run, and the sums of what was."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from termarena.models.errors import BudgetSpent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.models.contract import Completion

__all__ = ["Amount", "Budget", "Meter"]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of both."""

    usd: float = 0.0
    tokens: int = 0


@dataclass(slots=True)
class Budget:
    """What may be spent within a scope; a trial's has the run's above it. None is no limit.

    What an answer will cost is reserved before it is asked for, so that requests that go on side by side do not spend
    the same money twice.
    """

    scope: Literal["trial", "run"]
    usd: float | None = None
    tokens: int | None = None
    parent: Budget | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    reserved: list[Amount] = field(default_factory=list)
    """What answers under way are expected to take."""

    def check(self, more: Amount | None = None) -> None:
        """Raises `BudgetSpent` where there is not more than `more` left, in this scope or above it."""
        if self.parent is not None:
            self.parent.check(more)
        self._check_own(more or Amount())

    def _check_own(self, wanted: Amount) -> None:
        usd = self.spent_usd + sum(amount.usd for amount in self.reserved) + wanted.usd
        tokens = self.spent_tokens + sum(amount.tokens for amount in self.reserved) + wanted.tokens
        if self.usd is not None and usd >= self.usd:
            raise BudgetSpent(self.scope, unit="usd", limit=self.usd)
        if self.tokens is not None and tokens >= self.tokens:
            raise BudgetSpent(self.scope, unit="tokens", limit=self.tokens)

    @contextmanager
    def reserve(self, estimate: Amount) -> Iterator[None]:
        """Set an amount aside for the length of a `with`. Raises `BudgetSpent`."""
        with self.parent.reserve(estimate) if self.parent is not None else nullcontext():
            self._check_own(estimate)
            self.reserved.append(estimate)
            try:
                yield
            finally:
                self.reserved.remove(estimate)

    def spend(self, amount: Amount) -> None:
        """Count what was used, here and above."""
        self.spent_usd += amount.usd
        self.spent_tokens += amount.tokens
        if self.parent is not None:
            self.parent.spend(amount)


@dataclass(slots=True)
class Meter:
    """The sums over the answers of one attempt. A sum of which a part is unknown is unknown."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int | None = 0
    cost_usd: float | None = 0.0
    answers: int = 0

    def add(self, completion: Completion) -> None:
        """Count an answer."""
        usage = completion.usage
        self.answers += 1
        self.input_tokens = _sum(self.input_tokens, usage.input_tokens)
        self.output_tokens = _sum(self.output_tokens, usage.output_tokens)
        self.cached_tokens = _sum(self.cached_tokens, usage.cached_tokens)
        self.cost_usd = _sum(self.cost_usd, completion.cost_usd)

    def lose(self) -> None:
        """Count an answer that came and told nothing."""
        self.answers += 1
        self.input_tokens = self.output_tokens = self.cached_tokens = self.cost_usd = None


def _sum(known: Number | None, more: Number | None) -> Number | None:
    return None if known is None or more is None else known + more
