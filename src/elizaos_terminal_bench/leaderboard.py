"""A run beside published scores; only where it ran what they ran."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from elizaos_terminal_bench.types import LeaderboardComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.reports import Report

__all__ = ["THIS_RUN", "Board", "board_of", "boards", "compare"]

THIS_RUN: Final = "elizaOS (This Run)"
"""What ElizaOS calls the run in the table."""


@dataclass(frozen=True, slots=True)
class Board:
    """Scores that were published together."""

    dataset: str
    tasks: int
    """How many the whole dataset has: a part of it is not ranked."""
    as_of: str
    source: str
    scores: Mapping[str, float]
    """In per cent, by system."""


@cache
def boards() -> tuple[Board, ...]:
    """Every board of `leaderboard.toml`."""
    text = files(__package__).joinpath("leaderboard.toml").read_text(encoding="utf-8")
    return tuple(
        Board(**{**table, "as_of": table["as_of"].isoformat()})  # the file's other names are the fields'
        for table in tomllib.loads(text)["board"]
    )


def board_of(dataset: str | None) -> Board | None:
    """The board of a pulled dataset, by its name; None where nothing was published on it."""
    return next((board for board in boards() if board.dataset == dataset), None)


def compare(report: Report, dataset: str | None) -> LeaderboardComparison:
    """A run beside the board of the dataset that it is known to be of; without a rank where anything stands against it.

    `dataset` is the public name (`terminal-bench@2.0`), None for tasks that come from elsewhere.
    """
    board = board_of(dataset)
    score = None if report.accuracy is None else 100 * report.accuracy
    reasons = [*_against(report, board)]
    if board is None or score is None or reasons:
        return LeaderboardComparison(score, None, len(board.scores) + 1 if board else 0, not_ranked=reasons)
    return _ranked(board, report, score)


def _against(report: Report, board: Board | None) -> Iterator[str]:
    if board is None:
        known = ", ".join(each.dataset for each in boards())
        yield f"nothing was published on {report.dataset}; there are scores for {known}"
    elif report.tasks != board.tasks:
        yield f"{report.tasks} of the {board.tasks} tasks of {board.dataset} were run"
    if report.unscored or report.pending:
        yield f"{report.unscored + report.pending} trials have no score"
    yield from (each.message for each in report.not_ranked)


def _ranked(board: Board, report: Report, score: float) -> LeaderboardComparison:
    def rank_at(value: float) -> int:
        return 1 + sum(other > value for other in board.scores.values())

    by_score = sorted(board.scores.items(), key=lambda row: -row[1])
    above = [row for row in by_score if row[1] > score]
    below = [row for row in by_score if row[1] < score]
    entries, spread = len(by_score) + 1, report.spread
    return LeaderboardComparison(
        our_score=score,
        rank=rank_at(score),
        total_entries=entries,
        comparison={**board.scores, THIS_RUN: score},
        percentile=100 * (entries - rank_at(score)) / entries,
        nearest_above=above[-1] if above else None,
        nearest_below=below[0] if below else None,
        rank_range=None if spread is None else (rank_at(100 * spread.high), rank_at(100 * spread.low)),
        as_of=board.as_of,
        source=board.source,
    )


def __getattr__(name: str) -> dict[str, dict[str, float]]:
    """`LEADERBOARD_SCORES`: the scores on Terminal-Bench 2.0 in ElizaOS's form, read when it is used."""
    if name != "LEADERBOARD_SCORES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    board = next(board for board in boards() if board.dataset == "terminal-bench@2.0")
    return {system: {"overall": score} for system, score in board.scores.items()}
