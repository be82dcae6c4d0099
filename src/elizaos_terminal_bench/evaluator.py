"""Figures over results, and the report as Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from elizaos_terminal_bench.markdown import format_report_markdown
from elizaos_terminal_bench.types import CategoryMetrics, DifficultyMetrics, TerminalBenchReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elizaos_terminal_bench.types import (
        LeaderboardComparison,
        OtherName,
        TaskCategory,
        TaskDifficulty,
        TerminalBenchResult,
    )

__all__ = ["TerminalBenchEvaluator", "format_report_markdown"]

_Metrics = TypeVar("_Metrics", bound=CategoryMetrics)
_Name = TypeVar("_Name")


class TerminalBenchEvaluator:
    """Counts results; grading itself happens in the trial, where no agent can reach."""

    def calculate_metrics(self, results: Sequence[TerminalBenchResult]) -> CategoryMetrics:
        """Of all results together."""
        return _metrics(CategoryMetrics, results)

    def calculate_category_metrics(
        self, results: Sequence[TerminalBenchResult]
    ) -> dict[TaskCategory | OtherName, CategoryMetrics]:
        """By category."""
        return _grouped(CategoryMetrics, results, lambda result: result.category)

    def calculate_difficulty_metrics(
        self, results: Sequence[TerminalBenchResult]
    ) -> dict[TaskDifficulty | OtherName, DifficultyMetrics]:
        """By difficulty."""
        return _grouped(DifficultyMetrics, results, lambda result: result.difficulty)

    def categorize_errors(self, results: Sequence[TerminalBenchResult]) -> dict[str, int]:
        """Failures by their kind, the most frequent first."""
        kinds = Counter((result.error_message or "").partition(":")[0] for result in results if not result.success)
        return dict(kinds.most_common())

    def create_report(
        self,
        results: Sequence[TerminalBenchResult],
        evaluation_time_seconds: float,
        *,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        leaderboard_comparison: LeaderboardComparison | None = None,
    ) -> TerminalBenchReport:
        """Everything about a run; sums are sums, and a sum with an unknown part is unknown."""
        whole, number = self.calculate_metrics(results), len(results)
        tokens = [result.tokens_used for result in results if result.tokens_used is not None]
        has_tokens = bool(number) and len(tokens) == number
        return TerminalBenchReport(
            total_tasks=number,
            passed_tasks=whole.passed,
            failed_tasks=whole.failed,
            unscored_tasks=whole.unscored,
            accuracy=whole.accuracy,
            results=list(results),
            total_commands=sum(result.commands_executed for result in results),
            avg_commands_per_task=whole.avg_commands,
            total_tokens=sum(tokens) if has_tokens else None,
            avg_tokens_per_task=sum(tokens) / number if has_tokens else None,
            evaluation_time_seconds=evaluation_time_seconds,
            avg_time_per_task_seconds=evaluation_time_seconds / number if number else 0.0,
            by_category=self.calculate_category_metrics(results),
            by_difficulty=self.calculate_difficulty_metrics(results),
            error_categories=self.categorize_errors(results),
            leaderboard_comparison=leaderboard_comparison,
            metadata=dict(metadata or {}),
        )


def _metrics(kind: type[_Metrics], results: Sequence[TerminalBenchResult]) -> _Metrics:
    outcomes = Counter(result.outcome for result in results)
    scored, number = outcomes["solved"] + outcomes["unsolved"], len(results)
    return kind(
        total=number,
        passed=outcomes["solved"],
        failed=outcomes["unsolved"],
        unscored=number - scored,
        accuracy=outcomes["solved"] / scored if scored else None,
        avg_commands=sum(result.commands_executed for result in results) / number if number else 0.0,
        avg_time_ms=sum(result.total_execution_time_ms for result in results) / number if number else 0.0,
    )


def _grouped(
    kind: type[_Metrics], results: Sequence[TerminalBenchResult], key: Callable[[TerminalBenchResult], _Name]
) -> dict[_Name, _Metrics]:
    groups: dict[_Name, list[TerminalBenchResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return {name: _metrics(kind, groups[name]) for name in groups}
