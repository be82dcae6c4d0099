"""The proof of a task: what the battery found, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import Field

from termarena.core.records import read_record_as, write_record
from termarena.proof.cost import Cost
from termarena.proof.discriminating import Discriminating
from termarena.proof.equivalent import Equivalent
from termarena.proof.evidence import Evidence, Frozen
from termarena.proof.faults import Fault, Letter
from termarena.proof.hackable import Hackable
from termarena.proof.leaks import Leaks
from termarena.proof.solvable import Solvable
from termarena.proof.trivial import Trivial

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KIND", "Proof", "read_proof", "write_proof"]

KIND: Final = "task-proof"


class Proof(Frozen):
    """Everything that was tried on one task, what came of it, and what follows."""

    task_id: str
    task_digest: str
    solution_digest: str
    """Of the reference solution's files: another solution is another proof."""
    driver: str
    battery: int
    """The version of the battery: of what it tries and how it judges."""
    made_at: str
    """UTC, ISO 8601: when the last trial of it ended."""
    seconds: float
    """How long this run of the battery took; what was known before costs nothing."""
    trials: int
    trials_run: int
    """Those that were really run for this proof; the others were known."""
    letter: Letter
    faults: tuple[Fault, ...]
    solvable: Solvable | None = None
    trivial: Trivial | None = None
    discriminating: Discriminating | None = None
    equivalent: Equivalent | None = None
    hackable: Hackable | None = None
    leaks: Leaks | None = None
    cost: Cost | None = None
    fetched: Mapping[str, str] = Field(default_factory=dict)
    """What the solution and its tests fetched from outside: each request, with what was answered."""
    evidence: tuple[Evidence, ...] = ()


def write_proof(path: Path, proof: Proof) -> None:
    """Write `proof.json`. Raises `OSError`."""
    write_record(path, KIND, proof.model_dump(mode="json"))


def read_proof(path: Path) -> Proof:
    """Read it back; raises `TaskFormatError` for a file that is none."""
    return read_record_as(Proof, path, KIND)
