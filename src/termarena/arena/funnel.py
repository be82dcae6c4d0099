"""The forge's ledger as a funnel: how many recordings came to each gate, and what became of them."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Final

from pydantic import BaseModel, ConfigDict

from termarena.core.errors import NotFound
from termarena.forge.ledger import FILE, Ledger, State
from termarena.forge.yields import Yields, yields_of

__all__ = ["Forged", "Funnel", "read_funnel"]

MOST_RECORDINGS: Final = 500


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Forged(_Frozen):
    """What came of one recording."""

    recording: str
    """The file's name; where it lies is the operator's."""
    title: str
    state: State
    gate: str
    reason: str
    task: str | None
    fidelity: float | None
    mutation_score: float | None
    took_s: float
    at: str


class Funnel(_Frozen):
    """The yield, and the recordings: those that became tasks first."""

    yields: Yields
    recordings: tuple[Forged, ...]


def read_funnel(folder: Path | None) -> Funnel:
    """Raises NotFound where there is no ledger."""
    if folder is None or not (folder / FILE).is_file():
        raise NotFound("no ledger of a forge is served here", hint="serve it with: termarena serve --forge FOLDER")
    with Ledger(folder) as ledger:
        outcomes = ledger.latest()
    order = {"admitted": 0, "refused": 1, "failed": 2}
    shown = sorted(outcomes, key=lambda one: (order[one.state], one.source))[:MOST_RECORDINGS]
    rows = tuple(
        Forged(
            recording=PurePath(one.source).name,
            title=one.title,
            state=one.state,
            gate=one.gate,
            reason=one.reason,
            task=one.task_id,
            fidelity=one.fidelity,
            mutation_score=one.mutation_score,
            took_s=one.took_s,
            at=one.at,
        )
        for one in shown
    )
    return Funnel(yields=yields_of(outcomes), recordings=rows)
