"""What the run's machine and a node say to each other about one trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from termarena.runs.cluster.luggage import NOTHING, Luggage

if TYPE_CHECKING:
    from termarena.runs.cluster.parcels import Parcel
    from termarena.runs.faults import Blame
    from termarena.runs.plan import RunOptions, TrialPlan
    from termarena.runs.result import TrialResult

__all__ = ["Began", "Ended", "Failed", "Files", "Message", "NodeFacts", "Order"]


@dataclass(frozen=True, slots=True)
class Order:
    """One trial that a node is to carry out."""

    version: str
    """Of the TermArena that asks: the node's must be the same."""
    run_id: str
    options: RunOptions
    plan: TrialPlan
    retry: int
    task_folder: str
    """The name of the task's folder, which may be the task's."""
    luggage: Luggage = NOTHING
    """The files that the options name."""
    purse: Any = None
    """Ray's handle of the run's budget; None where it has none."""

    @property
    def trial(self) -> str:
        """This try of this trial, in one word."""
        return f"{self.plan.key.task_id}#{self.plan.key.attempt}.{self.retry}"


class Began(NamedTuple):
    """A node has taken the order."""

    node: str


class Files(NamedTuple):
    """A part of what the trial has written, `result.json` aside; not the last."""

    parcel: Parcel


class Ended(NamedTuple):
    """The last of what it has written, and its result; nothing follows."""

    parcel: Parcel
    result: TrialResult


class Failed(NamedTuple):
    """The node could not carry the trial out, or not keep what it wrote; nothing follows."""

    blame: Blame


Message = Began | Files | Ended | Failed


class NodeFacts(NamedTuple):
    """What a node says of itself before a run starts."""

    node: str
    version: str
    problem: str | None
    """Why the run's driver or model cannot be used from there."""
    hint: str | None
