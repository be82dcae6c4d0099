"""A rank is given for a whole, scored, honest run of a ranked dataset, and for nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from elizaos_terminal_bench import LEADERBOARD_SCORES, TerminalBenchEvaluator, format_report_markdown
from elizaos_terminal_bench.leaderboard import THIS_RUN, board_of, boards, compare
from elizaos_terminal_bench.types import TerminalBenchResult
from elizaos_terminal_bench.writing import session_names
from support.made_runs import Made, made_run
from termarena.reports import build_report
from termarena.runs.plan import RunOptions
from termarena.tasks.pull.known import all_names

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.reports import Report

RANKED = "terminal-bench@2.0"


def report(path: Path, letters: str, made: Made | None = None) -> Report:
    return build_report(made_run(path, {f"t{number}": letter for number, letter in enumerate(letters)}, made))


def test_every_board_is_dated_and_sourced_and_of_a_dataset_that_can_be_pulled() -> None:
    assert len(boards()) >= 2
    for board in boards():
        assert board.dataset in all_names()
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", board.as_of)
        assert re.search(r"\S+/\S+, \S+ at [0-9a-f]{8}", board.source)
        assert len(board.scores) >= 4
        assert all(0 < score < 100 for score in board.scores.values())
    assert LEADERBOARD_SCORES["Claude Code + Opus 4.6"] == {"overall": 58.0}


def test_a_whole_run_is_ranked_with_the_room_that_chance_leaves(tmp_path: Path) -> None:
    compared = compare(report(tmp_path / "r", "1" * 56 + "0" * 33), RANKED)  # 62.9 %
    assert compared
    assert compared.our_score == pytest.approx(62.92, abs=0.01)
    assert (compared.rank, compared.total_entries) == (5, 15)
    assert compared.nearest_above == ("Terminus 2 + Gemini 3.1 Pro", 63.0)
    assert compared.nearest_below == ("Terminus 2 + Opus 4.6", 62.9)
    assert compared.rank_range is not None
    best, worst = compared.rank_range
    assert best < 5 < worst
    assert compared.percentile == pytest.approx(100 * 10 / 15)
    assert compared.comparison[THIS_RUN] == compared.our_score
    assert (compared.as_of, compared.source) == ("2026-05-06", board_of(RANKED).source)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("letters", "made", "dataset", "why"),
    [
        ("1" * 89, Made(), None, "nothing was published on"),
        ("1" * 89, Made(), "samples", "nothing was published on"),
        ("1" * 88, Made(), RANKED, "88 of the 89 tasks"),
        ("1" * 88 + "?", Made(), RANKED, "1 trials have no score"),
        ("1" * 88 + "-", Made(), RANKED, "1 trials have no score"),
        ("1" * 89, Made(agent="oracle"), RANKED, "not an agent"),
        ("1" * 89, Made(options=RunOptions(timeout_multiplier=2)), RANKED, "time limits were multiplied"),
        ("1" * 89, Made(options=RunOptions(default_timeout_s=300)), RANKED, "were given 300 s"),
    ],
)
def test_no_rank_for_anything_else(letters: str, made: Made, dataset: str | None, why: str, tmp_path: Path) -> None:
    compared = compare(report(tmp_path / "r", letters, made), dataset)
    assert (compared.rank, bool(compared), compared.comparison) == (None, False, {})
    assert [reason for reason in compared.not_ranked if why in reason]


def result(task_id: str, outcome: str, **more: object) -> TerminalBenchResult:
    fields = {"commands_executed": 3, "total_execution_time_ms": 10.0, "test_output": "", **more}
    error = None if outcome == "solved" else "TEST_FAILED: <b>|no|</b>\nreally"
    return TerminalBenchResult(
        task_id=task_id,
        success=outcome == "solved",
        outcome=outcome,
        error_message=error,
        **fields,  # type: ignore[arg-type]  # any field
    )


def test_sums_are_sums_and_unknown_is_unknown() -> None:
    evaluator = TerminalBenchEvaluator()
    results = [result(f"t{number}", "solved", commands_executed=61 if number == 0 else 0) for number in range(7)]
    made = evaluator.create_report(results, 1.0)
    assert made.total_commands == 61, "ElizaOS makes 60 of the average"
    assert (made.total_tokens, made.avg_tokens_per_task) == (None, None)
    told = evaluator.create_report([result("a", "solved", tokens_used=5), result("b", "solved", tokens_used=7)], 1.0)
    assert (told.total_tokens, told.avg_tokens_per_task) == (12, 6.0)
    half = evaluator.create_report([result("a", "solved", tokens_used=5), result("b", "solved")], 1.0)
    assert half.total_tokens is None
    nothing = evaluator.create_report([], 0.0)
    assert (nothing.total_tasks, nothing.accuracy) == (0, None)


def test_unscored_is_neither_passed_nor_failed() -> None:
    results = [result("a", "solved"), result("b", "unsolved"), result("c", "unscored")]
    made = TerminalBenchEvaluator().create_report(results, 3.0)
    assert (made.passed_tasks, made.failed_tasks, made.unscored_tasks, made.accuracy) == (1, 1, 1, 0.5)


def test_markdown_takes_names_for_text(tmp_path: Path) -> None:
    made = TerminalBenchEvaluator().create_report(
        [result("a|<script>", "unsolved")],
        1.0,
        metadata={"dataset": "x\n## Rank: #1"},
        leaderboard_comparison=compare(report(tmp_path / "r", "1" * 56 + "0" * 33), RANKED),
    )
    text = format_report_markdown(made)
    assert "a\\|\\<script\\>" in text
    assert "- **dataset**: x \\#\\# Rank: \\#1" in text
    assert "- **Rank**: #5 out of 15; anywhere from #" in text
    assert "Published 2026-05-06" in text


def test_sessions_have_names_of_their_own() -> None:
    names = session_names(["org/hello", "a/twin", "b/twin", "../up", "plain"])
    assert names["org/hello"] == "hello.json"
    assert names["plain"] == "plain.json"
    assert len(set(names.values())) == 5
    assert not [name for name in names.values() if "/" in name or name.startswith(".")]
