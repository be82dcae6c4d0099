"""The words and figures in which a report is told, on a screen and in `report.md` alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.reports.measures import Spread
    from termarena.reports.report import Counts, Report, Score, TaskRow

__all__ = [
    "UNKNOWN",
    "count",
    "duration",
    "headline",
    "money",
    "outcome_words",
    "percent",
    "score_words",
    "spread_words",
    "tests_words",
    "tokens",
]

UNKNOWN = "-"
SHORT_S = 10
MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86_400


def percent(share: float | None) -> str:
    """`62.5 %`; a dash where it is unknown. Never rounded to 0 or 100 unless it is that."""
    if share is None:
        return UNKNOWN
    shown = f"{100 * share:.1f}"
    if shown == "100.0" and share < 1:
        shown = "99.9"
    if shown == "0.0" and share > 0:
        shown = "0.1"
    return f"{shown} %"


def duration(seconds: float | None) -> str:
    """`4.2 s`, `1 min 05 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < SHORT_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S:02} s"
    if whole < DAY_S:
        return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S:02} min"
    return f"{whole // DAY_S} d {whole % DAY_S // HOUR_S} h"


def count(number: int, noun: str) -> str:
    """`1 trial`, `12,000 trials`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def money(cost_usd: float | None) -> str:
    """In dollars, or the word for not knowing."""
    return "unknown" if cost_usd is None else f"${cost_usd:,.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def tokens(number: int | None) -> str:
    """With separators, or the word for not knowing."""
    return "unknown" if number is None else f"{number:,}"


def tests_words(passed: int, total: int) -> str:
    """`3 of 4`; empty where the task names no tests."""
    return f"{passed} of {total}" if total else ""


def score_words(score: Score) -> str:
    """Accuracy, and its bounds where they differ from it."""
    known = "unknown" if score.accuracy is None else percent(score.accuracy)
    if score.accuracy_low == score.accuracy_high:
        return known
    return f"{known} (between {percent(score.accuracy_low)} and {percent(score.accuracy_high)})"


def spread_words(spread: Spread) -> str:
    """How far an accuracy can be trusted, in one line."""
    told = f"95 % interval {percent(spread.low)} to {percent(spread.high)}"
    if spread.standard_error is None:
        return told
    again = "" if spread.rerun_error is None else f", {100 * spread.rerun_error:.1f} on these again"
    return f"{told}; standard error {100 * spread.standard_error:.1f} points on other tasks like these{again}"


def outcome_words(counts: Counts | TaskRow) -> str:
    """`12 solved, 3 unsolved, 1 unscored`: what there is of each."""
    parts = [f"{counts.solved:,} solved", f"{counts.unsolved:,} unsolved"]
    parts += [f"{counts.unscored:,} unscored"] if counts.unscored else []
    parts += [f"{counts.pending:,} not run yet"] if counts.pending else []
    return ", ".join(parts)


def headline(report: Report) -> str:
    """One line: accuracy with its bounds, and the counts that it is made of."""
    trials = count(report.total, "trial")
    scored = "" if report.tasks_scored == report.tasks else f", {report.tasks_scored:,} of them scored"
    return (
        f"accuracy {score_words(report)}: {outcome_words(report)} of {trials} at {count(report.tasks, 'task')}{scored}"
    )
