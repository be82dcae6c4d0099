"""Reports: what a run came to, derived from its journal."""

from termarena.reports.building import MOST_NAMED_TRIALS, MOST_TRIAL_ROWS, build_report
from termarena.reports.markdown import as_markdown
from termarena.reports.measures import PassRate, PerSolved, Spread
from termarena.reports.report import Counts, NotRanked, Report, Score, TaskRow, Totals, Unscored
from termarena.reports.writing import as_json, read_report, write_report

__all__ = [
    "MOST_NAMED_TRIALS",
    "MOST_TRIAL_ROWS",
    "Counts",
    "NotRanked",
    "PassRate",
    "PerSolved",
    "Report",
    "Score",
    "Spread",
    "TaskRow",
    "Totals",
    "Unscored",
    "as_json",
    "as_markdown",
    "build_report",
    "read_report",
    "write_report",
]
