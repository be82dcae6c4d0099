"""Two runs that meet: the tasks that they have in common, how they did at them, and what may be said of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.stats import (
    ALPHA,
    Difference,
    PairWord,
    Variances,
    compare_paired,
    filled,
    minimal_effect,
    pair_word,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.analysis.contestants import Contestant, Metric, TaskScores

__all__ = ["ComparisonOptions", "Extremes", "LeftOut", "Meeting", "Pair", "difference_of", "pair_of"]

WORST: Final = 0.0
BEST: Final = 1.0


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How runs are compared."""

    metric: Metric = "solved"
    alpha: float = ALPHA
    permutations: int | None = None
    """None: all of them, counted exactly, where that is feasible."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Tasks that a comparison does not count, by reason; each is in one of them."""

    only_first: int
    only_second: int
    changed: int
    """In both by name, and not the same: their digests differ, or one run changed it on the way."""
    without_score: int
    """In both, and one of the runs has no score for it. Counted in the extremes."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """The comparison with every missing score against the first run, and with every one for it."""

    missing_first: int
    missing_second: int
    low: float
    """The effect, every missing score against the first."""
    low_word: PairWord
    high: float
    high_word: PairWord


@dataclass(frozen=True, slots=True)
class Pair:
    """What came of it. `first` and `second` are places among the runs that are compared."""

    first: int
    second: int
    shared: int
    """Tasks that are compared."""
    left_out: LeftOut
    word: PairWord
    """Of the first: better or worse than the second, or that it cannot be told."""
    why: str
    """Why it cannot be told; empty where it can."""
    difference: Difference | None
    """None where no task is shared."""
    p_adjusted: float | None
    """Holm's, over all pairs."""
    detectable: float | None
    """The difference that tasks like these would show four times out of five; None where that is unknown."""
    extremes: Extremes | None
    """None where no score is missing."""
    unverified: int
    """Shared tasks of which only the names say that they are the same."""
    cautions: tuple[str, ...]
    """In what else the two runs differ."""


class Meeting:
    """Two runs, and which of their tasks can be compared."""

    def __init__(self, ours: Contestant, theirs: Contestant) -> None:
        """`ours` is the first."""
        self.ours, self.theirs = ours, theirs
        both = sorted(ours.tasks.keys() & theirs.tasks.keys())
        self.changed = [name for name in both if _differ(ours.tasks[name], theirs.tasks[name])]
        changed = set(self.changed)
        self.common = [name for name in both if name not in changed]
        """The same task in both, with or without scores."""
        self.shared = [name for name in self.common if ours.tasks[name].scores and theirs.tasks[name].scores]

    @property
    def left_out(self) -> LeftOut:
        """Every task that is not shared."""
        return LeftOut(
            only_first=len(self.ours.tasks.keys() - self.theirs.tasks.keys()),
            only_second=len(self.theirs.tasks.keys() - self.ours.tasks.keys()),
            changed=len(self.changed),
            without_score=len(self.common) - len(self.shared),
        )

    @property
    def unverified(self) -> int:
        """Shared tasks whose digests say nothing of each other."""
        return sum(not _can_verify(self.ours.tasks[name], self.theirs.tasks[name]) for name in self.shared)

    def scores(self, run: Contestant) -> list[list[float]]:
        """Of the shared tasks."""
        return [run.tasks[name].scores for name in self.shared]

    def missing(self, run: Contestant) -> int:
        """Trials at common tasks that have no score."""
        return sum(run.tasks[name].missing for name in self.common)

    def filled(self, run: Contestant, score: float) -> list[list[float]]:
        """Of the common tasks, every missing score put in."""
        tasks = [run.tasks[name] for name in self.common]
        return filled([task.scores for task in tasks], [task.missing for task in tasks], with_=score)

    def span(self) -> tuple[float, float]:
        """The worst and the best that a missing score could be: 0 and 1, or what was seen beyond them."""
        seen = [score for run in (self.ours, self.theirs) for row in self.scores(run) for score in row]
        return min(WORST, *seen), max(BEST, *seen)


def difference_of(meeting: Meeting, options: ComparisonOptions) -> Difference | None:
    """The paired comparison on the shared tasks; None where there are none. Raises as `compare_paired`."""
    if not meeting.shared:
        return None
    return _compared(meeting.scores(meeting.ours), meeting.scores(meeting.theirs), options)


def pair_of(
    meeting: Meeting,
    places: tuple[int, int],
    *,
    difference: Difference | None,
    p_adjusted: float | None,
    options: ComparisonOptions,
) -> Pair:
    """What may be said of the two, p being corrected for whatever else is compared beside them."""
    extremes, verdict = None, _Verdict("cannot tell", _why_none(meeting))
    if difference is not None and p_adjusted is not None:
        extremes = _extremes(meeting, p_adjusted / difference.test.p, options)
        verdict = _verdict(difference, p_adjusted, extremes, options)
    return Pair(
        first=places[0],
        second=places[1],
        shared=len(meeting.shared),
        left_out=meeting.left_out,
        word=verdict.word,
        why=verdict.why,
        difference=difference,
        p_adjusted=p_adjusted,
        detectable=_detectable(difference, options),
        extremes=extremes,
        unverified=meeting.unverified,
        cautions=tuple(_cautions(meeting.ours, meeting.theirs)),
    )


class _Verdict(NamedTuple):
    word: PairWord
    why: str = ""


def _verdict(
    difference: Difference, p_adjusted: float, extremes: Extremes | None, options: ComparisonOptions
) -> _Verdict:
    word = pair_word(difference.effect, p_adjusted, alpha=options.alpha)
    if word == "cannot tell":
        return _Verdict(word, _why_not(difference, options))
    if extremes is not None and {extremes.low_word, extremes.high_word} != {word}:
        missing = extremes.missing_first + extremes.missing_second
        return _Verdict("cannot tell", f"the {missing} trials without a score could turn it")
    return _Verdict(word)


def _why_not(difference: Difference, options: ComparisonOptions) -> str:
    differing, needed = difference.test.differing, 1 + ceil(-log2(options.alpha))
    if differing < needed:
        return f"they differ at {differing} of {difference.tasks} tasks, and fewer than {needed} can never tell"
    return "chance alone gives such a difference too often"


def _why_none(meeting: Meeting) -> str:
    if not meeting.common:
        return "they have no task in common"
    sides = (meeting.ours, meeting.theirs)
    empty = [run.name for run in sides if not any(run.tasks[name].scores for name in meeting.common)]
    return f"there is no score of {' and none of '.join(empty)}" if empty else "no task has a score in both"


def _extremes(meeting: Meeting, factor: float, options: ComparisonOptions) -> Extremes | None:
    """`factor` is what the correction made of p: the extremes are judged as strictly as the comparison itself."""
    missing = meeting.missing(meeting.ours), meeting.missing(meeting.theirs)
    if not any(missing):
        return None
    worst, best = meeting.span()
    low = _compared(meeting.filled(meeting.ours, worst), meeting.filled(meeting.theirs, best), options)
    high = _compared(meeting.filled(meeting.ours, best), meeting.filled(meeting.theirs, worst), options)
    return Extremes(
        missing_first=missing[0],
        missing_second=missing[1],
        low=low.effect,
        low_word=pair_word(low.effect, min(1.0, low.test.p * factor), alpha=options.alpha),
        high=high.effect,
        high_word=pair_word(high.effect, min(1.0, high.test.p * factor), alpha=options.alpha),
    )


def _compared(ours: list[list[float]], theirs: list[list[float]], options: ComparisonOptions) -> Difference:
    return compare_paired(ours, theirs, confidence=1 - options.alpha, samples=options.permutations, seed=options.seed)


def _detectable(difference: Difference | None, options: ComparisonOptions) -> float | None:
    if difference is None or not difference.standard_error:
        return None
    spread = difference.standard_error**2 * difference.tasks
    return minimal_effect(difference.tasks, 1, Variances(between=spread, within=0.0), alpha=options.alpha)


def _cautions(ours: Contestant, theirs: Contestant) -> Iterator[str]:
    if ours.dataset != theirs.dataset:
        yield f"dataset: {ours.dataset} and {theirs.dataset}"
    for name in sorted(ours.conditions.keys() | theirs.conditions.keys()):
        values = [side.conditions.get(name) for side in (ours, theirs)]
        if values[0] != values[1]:
            yield f"{name}: {' and '.join(value or 'not set' for value in values)}"


def _differ(ours: TaskScores, theirs: TaskScores) -> bool:
    """Whether the same name stands for two tasks, as far as that can be known."""
    if ours.is_mixed or theirs.is_mixed:
        return True
    return _can_verify(ours, theirs) and ours.digest != theirs.digest


def _can_verify(ours: TaskScores, theirs: TaskScores) -> bool:
    return _scheme(ours) == _scheme(theirs) != ""


def _scheme(task: TaskScores) -> str:
    """By what method the digest was made: those of two methods say nothing of each other."""
    return task.digest.partition(":")[0] if ":" in task.digest else ""
