"""`termarena compare`: is one run better than another?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termarena.cli.help import command_app
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.analysis import Comparison, Pair, Side
    from termarena.stats import Difference, Interval

__all__ = ["app"]

app = command_app()

SHOWN_IN_FULL = 0.0001
MOST_REMARKS = 20
_WORD_STYLES = {"better": "green", "worse": "red", "cannot tell": "yellow"}


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Two runs or more: folders, or ids in ./runs.")],
    *,
    metric: Annotated[
        Literal["solved", "reward"], typer.Option(help="Compare how often tasks were solved, or mean rewards.")
    ] = "solved",
    permutations: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Draw so many permutations; else all are counted, where that is feasible."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="For permutations that are drawn.")] = 0,
    alpha: Annotated[
        float,
        typer.Option(metavar="SHARE", help="How often equal agents may be called different, over all pairs together."),
    ] = 0.05,
    json: JsonOption = False,
) -> None:
    """Compare runs task by task: better, worse, or cannot tell.

    \b
    termarena compare runs/2026-11-15T10-00-00Z-mine runs/2026-11-15T11-00-00Z-yours
    termarena compare mine yours theirs --metric reward --json

    Runs are compared on the tasks that both have scores for; what is left out, and what else differs, is told. The
    verdict is that of a sign-flip permutation test over tasks, with Holm's correction where there are more than two
    runs. docs/statistics.md says what the numbers mean.
    """
    from termarena.analysis import ComparisonOptions, compare_runs
    from termarena.cli.finding import find_run
    from termarena.core.errors import UsageError
    from termarena.runs.reading import read_run

    if not 0 < alpha < 1:
        raise UsageError(f"alpha is {alpha:g}", hint="it is a probability: above 0, below 1; 0.05 is usual")
    options = ComparisonOptions(metric=metric, alpha=alpha, permutations=permutations, seed=seed)
    found = compare_runs([read_run(find_run(name)) for name in runs], options)
    if json:
        _print_json(found)
        return
    _print_sides(found)
    print_line()
    if len(found.pairs) == 1:
        for line in _told(found, found.pairs[0]):
            print_line(line)
    else:
        _print_pairs(found)


def _print_json(found: Comparison) -> None:
    from dataclasses import asdict

    names = [side.name for side in found.sides]
    pairs = [{**asdict(pair), "first": names[pair.first], "second": names[pair.second]} for pair in found.pairs]
    print_json(
        {
            "schema_version": 1,
            "kind": "comparison",
            "options": asdict(found.options),
            "has_one_task_set": found.has_one_task_set,
            "runs": [asdict(side) for side in found.sides],
            "pairs": pairs,
        }
    )


def _print_sides(found: Comparison) -> None:
    right = [Column(title, "right") for title in ("tasks", "unscored", "not run", "mean", _confidence(found), "rank")]
    print_table(["run", "agent", *right], [_side_row(found, side) for side in found.sides])


def _side_row(found: Comparison, side: Side) -> list[object]:
    who = f"{side.agent} with {side.model}" if side.model else side.agent
    scale = _scale(found)
    mean, interval = "unknown", None
    if side.accuracy is not None:
        mean, interval = scale.share(side.accuracy.mean), scale.span(side.accuracy.interval)
    if side.bounds is not None and side.bounds.low != side.bounds.high:
        mean += f" (could be {scale.share(side.bounds.low)} to {scale.share(side.bounds.high)})"
    ranks = side.ranks
    rank = str(ranks.best) if ranks.best == ranks.worst else f"{ranks.best}-{ranks.worst}"
    return [side.name, who, side.tasks, side.unscored or None, side.pending or None, mean, interval, rank]


def _print_pairs(found: Comparison) -> None:
    right = [Column(title, "right") for title in ("tasks", "difference", _confidence(found), "p", "p corrected")]
    columns: list[str | Column] = ["first", Column("is", styles=_WORD_STYLES), "than second", *right, "because"]
    print_table(columns, [_pair_row(found, pair) for pair in found.pairs])
    for line in _all_remarks(found):
        say(line)
    if not found.has_one_task_set:
        say("note: not all pairs were compared on the same tasks, so that ranks mix what is not quite alike")


def _all_remarks(found: Comparison) -> Iterator[str]:
    """What holds of pairs, each thing once, with the number of pairs."""
    numbers = Counter(remark for pair in found.pairs for remark in _conditions(pair))
    for remark, number in numbers.most_common(MOST_REMARKS):
        yield f"{number} of {len(found.pairs)} pairs: {remark}"
    if len(numbers) > MOST_REMARKS:
        yield f"{len(numbers) - MOST_REMARKS} more remarks: see --json"


def _pair_row(found: Comparison, pair: Pair) -> list[object]:
    names = [found.sides[pair.first].name, pair.word, found.sides[pair.second].name]
    difference = pair.difference
    if difference is None:
        return [*names, 0, None, None, None, None, pair.why]
    effect, interval = _scale(found).step(difference.effect), _scale(found).span(difference.interval, sign="+")
    return [*names, pair.shared, effect, interval, _p(difference.test.p), _p(pair.p_adjusted), pair.why]


def _told(found: Comparison, pair: Pair) -> Iterator[str]:
    """The verdict on two runs, sentence by sentence."""
    first, second = found.sides[pair.first].name, found.sides[pair.second].name
    if pair.word == "cannot tell":
        yield f"cannot tell whether {first} is better than {second}: {pair.why}"
    else:
        yield f"{first} is {pair.word} than {second}"
    if pair.difference is not None:
        yield from _numbers(found, pair, pair.difference)
    yield from _remarks(found, pair)


def _numbers(found: Comparison, pair: Pair, difference: Difference) -> Iterator[str]:
    scale, test = _scale(found), difference.test
    how = "all permutations" if test.samples is None else f"{test.samples:,} permutations, seed {test.seed}"
    interval = scale.span(difference.interval, sign="+")
    told = f" ({_confidence(found)}: {interval})" if interval else ""
    yield f"difference: {scale.step(difference.effect)}{told}, p = {_p(test.p)} ({how})"
    same = difference.tasks - difference.ahead - difference.behind
    shares = f"ahead at {difference.ahead}, behind at {difference.behind}, the same at {same}"
    yield f"tasks: {difference.tasks} shared; {shares}"
    if difference.standard_error is not None:
        again = "unknown" if difference.rerun_error is None else scale.size(difference.rerun_error)
        other = scale.size(difference.standard_error)
        yield f"standard error: {other} on other tasks like these, {again} on these very tasks again"
    if pair.word == "cannot tell" and pair.detectable is not None:
        yield f"so many tasks like these show a difference of {scale.size(pair.detectable)} four times out of five"


def _remarks(found: Comparison, pair: Pair) -> Iterator[str]:
    """What is missing, what was left out, and what else differs."""
    extremes = pair.extremes
    if extremes is not None:
        low, high = _scale(found).step(extremes.low), _scale(found).step(extremes.high)
        number = extremes.missing_first + extremes.missing_second
        yield (
            f"trials without a score: {number}; the difference could be anything from {low} ({extremes.low_word}) "
            f"to {high} ({extremes.high_word})"
        )
    yield from _conditions(pair)


def _conditions(pair: Pair) -> Iterator[str]:
    left = pair.left_out
    reasons = {"only in the first": left.only_first, "only in the second": left.only_second}
    reasons |= {"changed between the runs": left.changed, "without a score in one of them": left.without_score}
    told = ", ".join(f"{number} {reason}" for reason, number in reasons.items() if number)
    if told:
        yield f"tasks left out: {told}"
    if pair.unverified:
        yield f"of {pair.unverified} tasks only the names say that they are the same"
    for caution in pair.cautions:
        yield f"the runs differ in {caution}: the difference may be due to that"


def _confidence(found: Comparison) -> str:
    return f"{100 * (1 - found.options.alpha):.4g} % interval"


@dataclass(frozen=True)
class _Scale:
    """How numbers of a metric are shown: shares in per cent and their differences in points, or plain rewards."""

    factor: float
    digits: int
    of_share: str
    of_step: str

    def share(self, value: float) -> str:
        return f"{self.factor * value:.{self.digits}f}{self.of_share}"

    def size(self, value: float) -> str:
        return f"{self.factor * value:.{self.digits}f}{self.of_step}"

    def step(self, value: float) -> str:
        return f"{self.factor * value:+.{self.digits}f}{self.of_step}"

    def span(self, interval: Interval | None, *, sign: str = "") -> str | None:
        if interval is None:
            return None
        low, high = (f"{self.factor * end:{sign}.{self.digits}f}" for end in (interval.low, interval.high))
        return f"{low} to {high}"


_SCALES = {"solved": _Scale(100, 1, " %", " points"), "reward": _Scale(1, 3, "", "")}


def _scale(found: Comparison) -> _Scale:
    return _SCALES[found.options.metric]


def _p(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.3g}" if value >= SHOWN_IN_FULL else f"{value:.0e}"
