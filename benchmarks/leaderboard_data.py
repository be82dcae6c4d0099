"""What the public Terminal-Bench 0.1.1 submissions say, and what they do not: our statistics on data of others.

Usage: python benchmarks/leaderboard_data.py PATH

PATH is a checkout of the repository laude-institute/terminal-bench-leaderboard: 13 submissions of 80 tasks with five
attempts each. Only its `results.json` files are read. One run is there twice; figures on rows count it twice, as it was
published, figures on submissions once. A trial counts as solved if it was published as resolved, and as failed if not,
as on that leaderboard; the last lines say how many of those failures nobody measured. Without PATH nothing is done.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations, pairwise
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from termarena.runs.importing.terminal_bench import TerminalBenchTrial, judge
from termarena.stats import (
    Accuracy,
    Difference,
    Variances,
    accuracy_of,
    compare_paired,
    holm,
    rank_sets,
    variances_of_one,
    variances_of_pair,
)
from termarena.stats.quantiles import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ALPHA = 0.05
RANDOM_SETS = 2000
BORDERS = ("trial_started", "agent_started", "agent_ended", "test_started", "test_ended", "trial_ended")


@dataclass
class Submission:
    """One agent: the trials of all its runs, each run once."""

    name: str
    runs: list[list[TerminalBenchTrial]] = field(default_factory=list)

    @property
    def trials(self) -> list[TerminalBenchTrial]:
        """Of all runs."""
        return [trial for run in self.runs for trial in run]

    def scores(self, tasks: Sequence[str]) -> list[list[float]]:
        """A row for each task, as published."""
        found: dict[str, list[float]] = defaultdict(list)
        for trial in self.trials:
            found[trial.task_id].append(float(bool(trial.is_resolved)))
        return [found[task] for task in tasks]

    @property
    def is_merged(self) -> bool:
        """Whether all attempts are in one run, in whose file they stand in no certain order."""
        return len(self.runs) == 1

    def run_accuracies(self) -> list[float]:
        """One for each run; the attempts of a merged one are told apart by their order."""
        rounds: dict[tuple[int, int], list[bool]] = defaultdict(list)
        for number, run in enumerate(self.runs):
            seen: Counter[str] = Counter()
            for trial in run:
                seen[trial.task_id] += 1
                rounds[number, seen[trial.task_id]].append(bool(trial.is_resolved))
        return [sum(one) / len(one) for one in rounds.values()]


@dataclass
class Data:
    """Everything that was read."""

    rows: list[TerminalBenchTrial]
    """As published, the run that is there twice included."""
    files: int
    submissions: list[Submission]


def read(path: Path) -> Data:
    """All aggregates below `results/`."""
    found: dict[str, Submission] = {}
    rows: list[TerminalBenchTrial] = []
    seen: set[str] = set()
    files = 0
    root = path / "results"
    for file in sorted(root.rglob("*results.json")):
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if "results" not in document:
            continue
        trials = [TerminalBenchTrial.model_validate(row) for row in document["results"]]
        files, rows = files + 1, rows + trials
        name = file.relative_to(root).parts[1]
        key = name + json.dumps(sorted(f"{trial.trial_name} {trial.is_resolved}" for trial in trials))
        if key not in seen:
            found.setdefault(name, Submission(name)).runs.append(trials)
        seen.add(key)
    return Data(rows, files, list(found.values()))


def rows_part(data: Data) -> Iterator[str]:
    """What the rows say as they were published."""
    rows, number = data.rows, len(data.rows)
    modes = Counter(row.failure_mode for row in rows)
    yield f"{data.files} files, {number:,} trials; failure modes: " + ", ".join(
        f"{mode} {100 * count / number:.1f} %" for mode, count in modes.most_common()
    )
    late = [row for row in rows if row.failure_mode == "agent_timeout"]
    in_time = sum(bool(row.is_resolved) for row in late)
    yield f"agent timeouts that are resolved all the same: {in_time} of {len(late):,}"
    faults = sum(row.failure_mode not in ("unset", "none", "agent_timeout") for row in rows)
    yield f"ended in a failure of harness or tests, all published as 0: {100 * faults / number:.1f} %"
    untold = sum(not row.total_input_tokens for row in rows)
    yield f"without token counts: {100 * untold / number:.0f} %"


def phases_part(path: Path) -> Iterator[str]:
    """How long the phases of timed trials took."""
    rows = [
        row
        for file in sorted((path / "results").rglob("*results.json"))
        for row in json.loads(file.read_text(encoding="utf-8")).get("results", [])
    ]
    timed = [
        [_moment(row[f"{border}_at"]) for border in BORDERS]
        for row in rows
        if all(row.get(f"{border}_at") for border in BORDERS)
    ]
    yield f"seconds by phase, median (mean, 95th percentile) of {len(timed):,} timed trials:"
    for name, start, end in (("environment", 0, 1), ("agent", 1, 2), ("tests", 3, 4), ("teardown", 4, 5)):
        took = sorted((moments[end] - moments[start]).total_seconds() for moments in timed)
        high = took[int(0.95 * len(took))]
        yield f"  {name:<12}{statistics.median(took):7.1f} ({statistics.fmean(took):.1f}, {high:.1f})"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass
class Board:
    """The submissions with their statistics, the best first."""

    names: list[str]
    scores: list[list[list[float]]]
    accuracies: list[Accuracy]
    pairs: dict[tuple[int, int], Difference]


def board_of(data: Data) -> Board:
    """Compute it."""
    tasks = sorted({trial.task_id for one in data.submissions for trial in one.trials})
    rows = [(one.name, one.scores(tasks)) for one in data.submissions]
    rows.sort(key=lambda row: -_known(row[1]).mean)
    scores = [row for _, row in rows]
    pairs = {(a, b): compare_paired(scores[a], scores[b]) for a, b in combinations(range(len(rows)), 2)}
    return Board([name for name, _ in rows], scores, [_known(row) for row in scores], pairs)


def _known(scores: list[list[float]]) -> Accuracy:
    found = accuracy_of(scores)
    assert found is not None  # noqa: S101 - every submission has scores
    return found


def table_part(board: Board) -> Iterator[str]:
    """One line for each submission."""
    adjusted = holm([one.test.p for one in board.pairs.values()])
    better = [
        (a, b) if one.effect > 0 else (b, a)
        for ((a, b), one), p in zip(board.pairs.items(), adjusted, strict=True)
        if p <= ALPHA
    ]
    ranks = rank_sets(len(board.names), better)
    yield f"{'submission':<42}{'mean':>7}{'rerun SE':>10}{'task SE':>9}{'95 % interval':>16}{'rank':>7}"
    for name, one, rank in zip(board.names, board.accuracies, ranks, strict=True):
        assert one.rerun_error is not None  # noqa: S101 - five attempts
        assert one.standard_error is not None  # noqa: S101 - eighty tasks
        assert one.wilson is not None  # noqa: S101 - ones and zeros
        interval = f"{100 * one.wilson.low:.1f} to {100 * one.wilson.high:.1f}"
        errors = f"{100 * one.rerun_error:>10.2f}{100 * one.standard_error:>9.2f}"
        yield f"{name:<42}{100 * one.mean:>7.2f}{errors}{interval:>16}{f'{rank.best}-{rank.worst}':>7}"
    yield f"pairs that differ after Holm's correction: {len(better)} of {len(board.pairs)}"


def pairs_part(board: Board) -> Iterator[str]:
    """What pairs can be told apart, and by which question."""
    z, pairs = normal_quantile(1 - ALPHA / 2), board.pairs
    adjacent = [pairs[place] for place in pairwise(range(len(board.names)))]
    near = sum(one.test.p <= ALPHA for one in adjacent)
    yield f"adjacent ranks that a paired permutation test tells apart: {near} of {len(adjacent)}"
    fixed = sum(abs(one.effect) > z * (one.rerun_error or 0) for one in pairs.values())
    unpaired = sum(abs(one.effect) > z * (one.unpaired_error or 0) for one in pairs.values())
    tested = sum(one.test.p <= ALPHA for one in pairs.values())
    yield f"of {len(pairs)} pairs: tasks held fixed {fixed}, paired permutation {tested}, unpaired {unpaired}"
    ratios = [(one.standard_error or 0) / (one.unpaired_error or 1) for one in pairs.values()]
    ratio = statistics.median(ratios)
    yield f"paired over unpaired standard error, median: {ratio:.2f}, worth {1 / ratio**2:.1f} times the tasks"


def noise_part(data: Data, board: Board) -> Iterator[str]:
    """Where the variance is."""
    cells = [row for scores in board.scores for row in scores]
    mixed = sum(0 < sum(row) < len(row) for row in cells)
    yield f"cells of five attempts that are neither 0 nor 5: {100 * mixed / len(cells):.1f} % of {len(cells):,}"
    by_one = [sum(0 < sum(row) < len(row) for row in scores) / len(scores) for scores in board.scores]
    yield f"  by submission: {100 * min(by_one):.0f} to {100 * max(by_one):.0f} %"
    never = sum(not any(sum(scores[place]) for scores in board.scores) for place in range(len(board.scores[0])))
    yield f"tasks that nobody ever solved: {never} of {len(board.scores[0])}"
    ranges = [100 * (max(runs) - min(runs)) for runs in (one.run_accuracies() for one in data.submissions)]
    median = statistics.median(ranges)
    yield f"five runs of one agent: range {min(ranges):.1f} to {max(ranges):.1f} points, median {median:.1f}"
    apart = [one.run_accuracies() for one in data.submissions if not one.is_merged]
    spreads, plain = [100 * statistics.stdev(runs) for runs in apart], [100 * statistics.pstdev(runs) for runs in apart]
    yield (
        f"  of the {len(apart)} with separate runs: standard deviation {min(spreads):.1f} to {max(spreads):.1f} "
        f"({min(plain):.1f} to {max(plain):.1f} with divisor 5)"
    )
    alone = [variances_of_one(scores, kept=1.0) for scores in board.scores]
    shares = [one.between / (one.between + one.within) for one in alone]
    yield f"of the variance of an attempt, between tasks: {100 * statistics.fmean(shares):.0f} % (mean)"


def power_part(board: Board) -> Iterator[str]:
    """What it takes to tell two such agents apart."""
    found = {(a, b): variances_of_pair(board.scores[a], board.scores[b]) for a, b in board.pairs}
    alone = [variances_of_one(scores, kept=1.0).between / 2 for scores in board.scores]
    kept = statistics.median(one.between / (alone[a] + alone[b]) for (a, b), one in found.items())
    typical = Variances(
        between=statistics.median(one.between for one in found.values()),
        within=statistics.median(one.within for one in found.values()),
    )
    yield f"typical pair: between tasks {typical.between:.4f}, within {typical.within:.4f}, kept of two runs {kept:.3f}"
    sizes = [(89, 1), (89, 5), (89, 10), (500, 1), (1500, 1), (1500, 5)]
    factor = normal_quantile(1 - ALPHA / 2) + normal_quantile(0.8)
    told = (
        f"{tasks} x {attempts}: {100 * factor * sqrt((typical.between + typical.within / attempts) / tasks):.1f}"
        for tasks, attempts in sizes
    )
    yield f"points found with 80 % power (normal quantiles), tasks x attempts: {', '.join(told)}"


def subset_part(board: Board) -> Iterator[str]:
    """Whether tasks of middling difficulty rank agents better than tasks at random."""
    full = [one.mean for one in board.accuracies]
    means = [[sum(row) / len(row) for row in scores] for scores in board.scores]
    places = range(len(means[0]))
    sizes, chosen = [], []
    for own in range(len(means)):
        middling = [place for place in places if _is_middling(board, own, place)]
        sizes.append(len(middling))
        chosen.append(statistics.fmean(means[own][place] for place in middling))
    size = round(statistics.fmean(sizes))
    source = random.Random(1)  # noqa: S311 - a simulation
    drawn = [source.sample(places, size) for _ in range(RANDOM_SETS)]
    rivals = [[statistics.fmean(one[place] for place in some) for one in means] for some in drawn]
    rival = statistics.fmean(_rank_correlation(full, one) for one in rivals)
    yield (
        f"ranks from the {size} tasks that 30 to 70 % of others solve: Spearman {_rank_correlation(full, chosen):.3f} "
        f"with those from all; from as many at random: {rival:.3f}"
    )


def _is_middling(board: Board, own: int, place: int) -> bool:
    """Whether the others solved the task in 30 to 70 % of their attempts; in whole numbers, since 0.3 is a border."""
    rows = [scores[place] for number, scores in enumerate(board.scores) if number != own]
    solved, tried = sum(round(sum(row)) for row in rows), sum(map(len, rows))
    return 3 * tried <= 10 * solved <= 7 * tried


def _rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; Python 3.11 has only Pearson's."""

    def ranks(values: Sequence[float]) -> list[float]:
        return [sum(other < one for other in values) + sum(other == one for other in values) / 2 for one in values]

    return statistics.correlation(ranks(first), ranks(second))


def honest_part(data: Data) -> Iterator[str]:
    """How many of the published failures nobody measured."""
    for one in data.submissions:
        unscored = [trial for trial in one.trials if judge(trial).outcome == "unscored"]
        solved = sum(bool(trial.is_resolved) for trial in one.trials)
        low, high = 100 * solved / len(one.trials), 100 * (solved + len(unscored)) / len(one.trials)
        yield f"  {one.name:<42}{len(unscored):>4} unscored: between {low:.1f} and {high:.1f} %"


def main() -> int:
    """Read and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", metavar="PATH")
    path = parser.parse_args().path
    if path is None:
        print("not measured: give a checkout of laude-institute/terminal-bench-leaderboard", file=sys.stderr)
        return 2
    data = read(path)
    if not data.rows:
        print(f"{path} holds no results", file=sys.stderr)
        return 1
    board = board_of(data)
    parts = [rows_part(data), phases_part(path), table_part(board), pairs_part(board), noise_part(data, board)]
    for part in [*parts, power_part(board), subset_part(board), honest_part(data)]:
        for line in part:
            print(line)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
