"""Proofs and ledgers with given outcomes, and no trial behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.forge.ledger import Ledger, Outcome
from termarena.proof.report import Proof

if TYPE_CHECKING:
    from pathlib import Path

BARE = Proof(
    task_id="bare",
    task_digest="task1:bare",
    solution_digest="0" * 64,
    driver="namespace",
    battery=1,
    made_at="2026-11-15T00:00:00+00:00",
    seconds=1.0,
    trials=7,
    trials_run=7,
    letter="A",
    faults=(),
)


def proof_named(task: str, **more: object) -> Proof:
    """Of a task; a bare one, with what is given."""
    return BARE.model_copy(update={"task_id": task, "task_digest": f"task1:{task}", **more})


def fill_forge(folder: Path) -> None:
    """A ledger of three recordings, one of which became a task."""
    states = [("admitted", "prove", ""), ("refused", "screen", "it is empty"), ("refused", "screen", "it is empty")]
    with Ledger(folder) as ledger:
        for number, (state, gate, reason) in enumerate(states):
            task = f"forged-{number}" if state == "admitted" else None
            told = (f"/secret/place/{number}.cast", "A <b>title</b>", state, gate, reason, task, None)
            ledger.write(Outcome(f"sha256:{number}", "k", *told, 0.97, 0.9, 12.0, "", "2026-11-15T00:00:00Z"))  # type: ignore[arg-type]  # plain words
