"""The report as Markdown, with the sections that ElizaOS's has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from elizaos_terminal_bench.types import CategoryMetrics, LeaderboardComparison, TerminalBenchReport

__all__ = ["format_report_markdown"]

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>|#])")
_MARKS: Final = {"solved": "✅", "unsolved": "❌", "unscored": "⚠️ unscored"}
UNKNOWN: Final = "unknown"


def format_report_markdown(report: TerminalBenchReport) -> str:
    """The whole page, ending in a newline. Whatever comes from tasks is text, never markup."""
    sections = [
        ["# Terminal-Bench Evaluation Report"],
        _summary(report),
        _leaderboard(report.leaderboard_comparison),
        _groups("Results by Category", "Category", {name.value: each for name, each in report.by_category.items()}),
        _groups(
            "Results by Difficulty", "Difficulty", {name.value: each for name, each in report.by_difficulty.items()}
        ),
        _errors(report.error_categories),
        _tasks(report),
        _configuration(report),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _summary(report: TerminalBenchReport) -> list[str]:
    rows = [
        ("Total Tasks", str(report.total_tasks)),
        ("Passed", str(report.passed_tasks)),
        ("Failed", str(report.failed_tasks)),
        ("Unscored", str(report.unscored_tasks)),
        ("Accuracy", _share(report.accuracy)),
        ("Total Commands", str(report.total_commands)),
        ("Avg Commands/Task", f"{report.avg_commands_per_task:.1f}"),
        ("Total Tokens", UNKNOWN if report.total_tokens is None else f"{report.total_tokens:,}"),
        ("Avg Tokens/Task", UNKNOWN if report.avg_tokens_per_task is None else f"{report.avg_tokens_per_task:.0f}"),
        ("Evaluation Time", f"{report.evaluation_time_seconds:.1f}s"),
    ]
    return ["## Summary", "", *_table(["Metric", "Value"], [(f"**{name}**", value) for name, value in rows])]


def _leaderboard(compared: LeaderboardComparison | None) -> list[str]:
    if compared is None:
        return []
    head = ["## Leaderboard Comparison", ""]
    if not compared:
        return [*head, "This run has no rank:", "", *(f"- {_text(reason)}" for reason in compared.not_ranked)]
    rows = sorted(compared.comparison.items(), key=lambda row: -row[1])
    return [*head, *_table(["System", "Score"], [(_text(n), f"{s:.1f}%") for n, s in rows]), "", *_places(compared)]


def _places(compared: LeaderboardComparison) -> Iterator[str]:
    within = ""
    if compared.rank_range is not None:
        within = f"; anywhere from #{compared.rank_range[0]} to #{compared.rank_range[1]} within its 95 % interval"
    yield f"- **Rank**: #{compared.rank} out of {compared.total_entries}{within}"
    yield f"- **Percentile**: {compared.percentile:.1f}%"
    for name, nearest in (("above", compared.nearest_above), ("below", compared.nearest_below)):
        if nearest is not None:
            yield f"- Nearest {name}: {_text(nearest[0])} ({nearest[1]:.1f}%)"
    yield f"- Published {compared.as_of}: {_text(compared.source or UNKNOWN)}"


def _groups(title: str, what: str, groups: Mapping[str, CategoryMetrics]) -> list[str]:
    if not groups:
        return []
    rows = [
        (_text(name), str(each.total), str(each.passed), _share(each.accuracy), f"{each.avg_commands:.1f}")
        for name, each in sorted(groups.items())
    ]
    return [f"## {title}", "", *_table([what, "Total", "Passed", "Accuracy", "Avg Commands"], rows)]


def _errors(kinds: Mapping[str, int]) -> list[str]:
    if not kinds:
        return []
    return ["## Error Analysis", "", *_table(["Error Type", "Count"], [(_text(k), str(n)) for k, n in kinds.items()])]


def _tasks(report: TerminalBenchReport) -> list[str]:
    rows = [
        (
            _text(result.task_id),
            _MARKS[result.outcome],
            str(result.commands_executed),
            f"{result.total_execution_time_ms:.0f}",
            UNKNOWN if result.tokens_used is None else str(result.tokens_used),
        )
        for result in report.results
    ]
    return ["## Task Results", "", *_table(["Task ID", "Status", "Commands", "Time (ms)", "Tokens"], rows)]


def _configuration(report: TerminalBenchReport) -> list[str]:
    return ["## Configuration", "", *(f"- **{name}**: {_text(str(value))}" for name, value in report.metadata.items())]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def _text(value: str) -> str:
    """One line without markup."""
    return _MARKUP.sub(r"\\\1", " ".join(value.split()))
