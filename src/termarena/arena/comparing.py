"""Two runs beside each other: the verdict of `termarena compare`, and every task at which they differ."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from termarena.analysis import ComparisonOptions, Meeting, compare_contestants, contestant_of
from termarena.arena import queries
from termarena.core.errors import Refused, TermArenaError
from termarena.core.run_folder import RunFolder, folder_name
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from termarena.analysis import Comparison, Contestant, Pair
    from termarena.arena.views import RunRow

__all__ = ["TaskPair", "TwoRuns", "compare_two"]

SHOWN_TASKS = 300


@dataclass(frozen=True, slots=True)
class TaskPair:
    """One task in both runs."""

    task: str
    slug: str
    first: tuple[float, ...]
    """The scores of its attempts."""
    second: tuple[float, ...]
    difference: float


@dataclass(frozen=True, slots=True)
class TwoRuns:
    """What came of it."""

    first: RunRow
    second: RunRow
    pair: Pair
    differing: tuple[TaskPair, ...]
    """Those with the greatest differences first, the first run's losses before its gains."""
    same: int

    def as_json(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "first": self.first.slug,
            "second": self.second.slug,
            "pair": asdict(self.pair),
            "differing": [asdict(one) for one in self.differing],
            "same": self.same,
        }


def compare_two(session: Session, first: str, second: str) -> TwoRuns:
    """Compare two runs as their journals stand. Raises NotFound, and Refused where they cannot be compared."""
    if first == second:
        raise Refused("a run differs from itself in nothing", status=409, hint="choose two runs")
    rows = [queries.run_detail(session, slug).run for slug in (first, second)]
    folders = [RunFolder(Path(queries.find_run(session, slug).folder)) for slug in (first, second)]
    try:
        sides = [replace(contestant_of(read_run(folder), "solved"), name=folder.id) for folder in folders]
        found: Comparison = compare_contestants(sides, ComparisonOptions())
    except (TermArenaError, OSError) as error:
        raise Refused(f"they cannot be compared: {error}", status=409) from error
    pairs = _task_pairs(*sides)
    differing = sorted((one for one in pairs if one.difference), key=_by_difference)
    return TwoRuns(
        first=rows[0],
        second=rows[1],
        pair=found.pairs[0],
        differing=tuple(differing[:SHOWN_TASKS]),
        same=len(pairs) - len(differing),
    )


def _by_difference(one: TaskPair) -> tuple[float, float, str]:
    return -abs(one.difference), one.difference, one.task


def _task_pairs(ours: Contestant, theirs: Contestant) -> list[TaskPair]:
    found = []
    for name in Meeting(ours, theirs).shared:
        first, second = ours.tasks[name].scores, theirs.tasks[name].scores
        difference = sum(first) / len(first) - sum(second) / len(second)
        found.append(TaskPair(name, folder_name(name), tuple(first), tuple(second), difference))
    return found
