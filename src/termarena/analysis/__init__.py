"""Analysis: runs beside each other, and what a run is planned by."""

from termarena.analysis.comparing import Comparison, Side, compare_contestants, compare_runs
from termarena.analysis.contestants import Contestant, Metric, TaskScores, contestant_of
from termarena.analysis.meeting import ComparisonOptions, Extremes, LeftOut, Meeting, Pair

__all__ = [
    "Comparison",
    "ComparisonOptions",
    "Contestant",
    "Extremes",
    "LeftOut",
    "Meeting",
    "Metric",
    "Pair",
    "Side",
    "TaskScores",
    "compare_contestants",
    "compare_runs",
    "contestant_of",
]
