"""The yield: how many recordings came to each gate, and how many it let through."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.ledger import Outcome

__all__ = ["GATES", "Gate", "Yields", "yields_of"]

GATES: Final = ("read", "duplicates", "screen", "synthesize", "reproduce", "test", "instruct", "prove")
"""In the order in which a recording meets them."""


class Gate(BaseModel):
    """One gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    came: int
    refused: int
    example: str = ""
    """The reason that was given most often."""

    @property
    def share(self) -> float:
        """Of those that came, how many it let through."""
        return 1 - self.refused / self.came if self.came else 0.0


class Yields(BaseModel):
    """All gates, and what is left at the end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recordings: int
    admitted: int
    failed: int
    """Not the recordings' fault: they are tried again at the next run."""
    gates: tuple[Gate, ...]
    spent_s: float
    tasks_per_hour: float | None = None
    """Of one slot; None without any task."""
    cost_usd: float | None = 0.0
    """What models took for all of it; None where a part is unknown."""
    last_taken: int = 0
    """Recordings that the last run looked at."""
    last_known: int = 0
    """Those of them that the ledger had an outcome for."""


def yields_of(
    outcomes: Sequence[Outcome], last_run: tuple[int, int, float] | None = None, cost_usd: float | None = 0.0
) -> Yields:
    """The yield of these outcomes, one per recording; `last_run` and `cost_usd` as the ledger noted them."""
    judged = [one for one in outcomes if one.state != "failed"]
    admitted = sum(one.state == "admitted" for one in judged)
    came, gates = len(judged), []
    for name in GATES:
        reasons = [one.reason for one in judged if one.state == "refused" and one.gate == name]
        often = Counter(reasons).most_common(1)
        gates.append(Gate(name=name, came=came, refused=len(reasons), example=often[0][0] if often else ""))
        came -= len(reasons)
    spent_s = sum(one.took_s for one in outcomes)
    return Yields(
        recordings=len(outcomes),
        admitted=admitted,
        failed=len(outcomes) - len(judged),
        gates=tuple(gates),
        spent_s=round(spent_s, 1),
        cost_usd=cost_usd,
        last_taken=last_run[0] if last_run else 0,
        last_known=last_run[1] if last_run else 0,
        tasks_per_hour=round(3600 * admitted / spent_s, 1) if admitted and spent_s else None,
    )
