"""The budget of a run whose trials go on in several processes: one of the cluster's own keeps it, the others ask."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from termarena.core.errors import BudgetLost
from termarena.models.budget import Amount, Budget
from termarena.models.errors import BudgetSpent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.models import ModelLimits

__all__ = ["NodeBudget", "Purse", "Refusal"]


class Refusal(NamedTuple):
    """Why a purse stays shut; an error with fields does not survive the way between processes."""

    unit: Literal["usd", "tokens"]
    limit: float


class Purse:
    """Keeps the budget; it is asked one question at a time."""

    def __init__(self, limits: ModelLimits, spent: Amount) -> None:
        """`spent` is what the run has used before."""
        self._budget = Budget(
            "run", usd=limits.run_usd, tokens=limits.run_tokens, spent_usd=spent.usd, spent_tokens=spent.tokens
        )
        self._held: defaultdict[str, list[Amount]] = defaultdict(list)

    def check(self, more: Amount) -> Refusal | None:
        """Whether there is more left than that."""
        try:
            self._budget.check(more)
        except BudgetSpent as error:
            return Refusal(error.unit, error.limit)
        return None

    def reserve(self, trial: str, amount: Amount) -> Refusal | None:
        """Set an amount aside for a trial."""
        refusal = self.check(amount)
        if refusal is None:
            self._held[trial].append(amount)
            self._budget.reserved.append(amount)
        return refusal

    def release(self, trial: str, amount: Amount) -> None:
        """It is not set aside any more."""
        if amount in self._held[trial]:
            self._held[trial].remove(amount)
            self._budget.reserved.remove(amount)

    def release_all(self, trial: str) -> None:
        """The trial is over, or lost with its node."""
        for amount in self._held.pop(trial, []):
            self._budget.reserved.remove(amount)

    def spend(self, amount: Amount) -> None:
        """Count what was used."""
        self._budget.spend(amount)


@dataclass(slots=True)
class NodeBudget(Budget):
    """The run's budget as a node sees it: each question goes to the purse. Raises `BudgetLost` where that is gone."""

    purse: Any = None
    """Ray's handle of it."""
    ray: Any = None
    trial: str = ""
    """For which something is set aside: a process carries out one at a time."""

    def check(self, more: Amount | None = None) -> None:
        """See `Budget`."""
        self._refuse(self._ask("check", more or Amount()))

    @contextmanager
    def reserve(self, estimate: Amount) -> Iterator[None]:
        """See `Budget`."""
        self._refuse(self._ask("reserve", self.trial, estimate))
        try:
            yield
        finally:
            self._ask("release", self.trial, estimate)

    def spend(self, amount: Amount) -> None:
        """See `Budget`."""
        self._ask("spend", amount)

    def _ask(self, what: str, *given: object) -> Refusal | None:
        try:
            answer: Refusal | None = self.ray.get(getattr(self.purse, what).remote(*given))
        except self.ray.exceptions.RayError as error:
            raise BudgetLost from error
        return answer

    def _refuse(self, refusal: Refusal | None) -> None:
        if refusal is not None:
            raise BudgetSpent("run", unit=refusal.unit, limit=refusal.limit)
