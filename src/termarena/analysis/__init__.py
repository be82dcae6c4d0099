"""Analysis: runs beside each other, what a run is planned by, and reading what agents did."""

from termarena.analysis.comparing import Comparison, Side, compare_contestants, compare_runs
from termarena.analysis.contestants import Contestant, Metric, TaskScores, contestant_of
from termarena.analysis.flaws import FLAWS, Flaw
from termarena.analysis.meeting import ComparisonOptions, Extremes, LeftOut, Meeting, Pair
from termarena.analysis.page import as_html
from termarena.analysis.reading import Reading, TrialReading, read_runs
from termarena.analysis.telling import as_data, as_markdown

__all__ = [
    "FLAWS",
    "Comparison",
    "ComparisonOptions",
    "Contestant",
    "Extremes",
    "Flaw",
    "LeftOut",
    "Meeting",
    "Metric",
    "Pair",
    "Reading",
    "Side",
    "TaskScores",
    "TrialReading",
    "as_data",
    "as_html",
    "as_markdown",
    "compare_contestants",
    "compare_runs",
    "contestant_of",
    "read_runs",
]
