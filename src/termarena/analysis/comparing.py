"""Comparison of runs: paired per task, with verdicts, and a statement of what a verdict does not cover.

Two runs are compared on the tasks that both have a score for and that are, as far as digests tell, the same. Nothing is
left out in silence: a `Pair` counts every task that was, and why. Trials without a score could have gone either way: so
it is compared again with all of them against the first run, and with all of them for it, and a verdict stands only
if it is the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

from termarena.analysis.contestants import Contestant, contestant_of
from termarena.analysis.meeting import ComparisonOptions, Meeting, Pair, difference_of, pair_of
from termarena.core.errors import MissingExtra, UsageError
from termarena.stats import Accuracy, Bounds, RankSet, accuracy_of, bounds_of, holm, rank_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.runs.reading import RunView

__all__ = ["Comparison", "Side", "compare_contestants", "compare_runs"]


@dataclass(frozen=True, slots=True)
class Side:
    """One run on its own, over all of its tasks."""

    name: str
    agent: str
    model: str | None
    dataset: str
    tasks: int
    unscored: int
    pending: int
    accuracy: Accuracy | None
    """Of the metric that is compared; None where nothing is scored."""
    bounds: Bounds | None
    """What the mean could become if every trial without a score failed, or was solved."""
    ranks: RankSet


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of it: every run, and every two of them."""

    options: ComparisonOptions
    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    has_one_task_set: bool
    """Whether every pair was compared on the same tasks."""


def compare_runs(views: Sequence[RunView], options: ComparisonOptions | None = None) -> Comparison:
    """Compare runs as their journals tell them: two in the order given, more of them the best mean first.

    Raises UsageError for fewer than two, for one given twice, or where no two share a task; MissingExtra where
    permutations have to be drawn and there is no numpy.
    """
    options = options or ComparisonOptions()
    paths = [view.folder.path.resolve() for view in views]
    twice = [path for path in paths if paths.count(path) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is given twice", hint="a run differs from itself in nothing")
    contestants = [contestant_of(view, options.metric) for view in views]
    names = [one.name for one in contestants]
    if len(set(names)) < len(names):  # the same id in two places
        pairs = zip(contestants, views, strict=True)
        contestants = [replace(one, name=str(view.folder.path)) for one, view in pairs]
    if len(contestants) > 2:  # noqa: PLR2004 - for two, the order is what was asked
        contestants.sort(key=_mean, reverse=True)
    return compare_contestants(contestants, options)


def compare_contestants(contestants: Sequence[Contestant], options: ComparisonOptions) -> Comparison:
    """Compare every two of them. Raises as `compare_runs`."""
    if len(contestants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UsageError("a comparison needs two runs or more", hint="termarena compare RUN_A RUN_B")
    places = list(combinations(range(len(contestants)), 2))
    meetings = [Meeting(contestants[first], contestants[second]) for first, second in places]
    if not any(meeting.common for meeting in meetings):
        _refuse(contestants, meetings)
    try:
        pairs = _pairs(meetings, places, options)
    except ModuleNotFoundError as error:
        raise MissingExtra("numpy", extra="stats", purpose="drawing permutations") from error
    ranks = rank_sets(len(contestants), _found_better(pairs))
    return Comparison(
        options=options,
        sides=tuple(_side(one, rank) for one, rank in zip(contestants, ranks, strict=True)),
        pairs=tuple(pairs),
        has_one_task_set=len({frozenset(meeting.shared) for meeting in meetings}) == 1,
    )


def _mean(one: Contestant) -> float:
    found = accuracy_of([task.scores for task in one.tasks.values()])
    return -inf if found is None else found.mean


def _refuse(contestants: Sequence[Contestant], meetings: Sequence[Meeting]) -> None:
    told = "; ".join(f"{one.name} has {len(one.tasks)} of {one.dataset}" for one in contestants)
    changed = sum(len(meeting.changed) for meeting in meetings)
    if changed:
        raise UsageError(
            f"the runs have no task in common: of {changed} that share a name, all have changed ({told})",
            hint="compare runs of the same version of a dataset",
        )
    raise UsageError(f"the runs have no task in common ({told})", hint="compare runs of the same dataset")


def _pairs(meetings: Sequence[Meeting], places: Sequence[tuple[int, int]], options: ComparisonOptions) -> list[Pair]:
    differences = [difference_of(meeting, options) for meeting in meetings]
    adjusted = iter(holm([one.test.p for one in differences if one is not None]))
    return [
        pair_of(
            meeting,
            place,
            difference=difference,
            p_adjusted=None if difference is None else next(adjusted),
            options=options,
        )
        for meeting, place, difference in zip(meetings, places, differences, strict=True)
    ]


def _found_better(pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    better = [(pair.first, pair.second) for pair in pairs if pair.word == "better"]
    return better + [(pair.second, pair.first) for pair in pairs if pair.word == "worse"]


def _side(one: Contestant, ranks: RankSet) -> Side:
    tasks = list(one.tasks.values())
    scores = [task.scores for task in tasks]
    return Side(
        name=one.name,
        agent=one.agent,
        model=one.model,
        dataset=one.dataset,
        tasks=len(tasks),
        unscored=one.unscored,
        pending=one.pending,
        accuracy=accuracy_of(scores),
        bounds=bounds_of(scores, [task.missing for task in tasks]),
        ranks=ranks,
    )
