"""Statistics: plain numbers in, plain numbers out. Imports nothing of ours, and numpy only where it has to draw."""

from termarena.stats.accuracy import (
    CONFIDENCE,
    Accuracy,
    Bounds,
    Interval,
    Scores,
    accuracy_of,
    bounds_of,
    filled,
    wilson,
)
from termarena.stats.agreement import Agreement, agreement_of
from termarena.stats.flipping import SAMPLES, FlipTest, flip_test
from termarena.stats.many import RankSet, holm, rank_sets
from termarena.stats.pairing import ALPHA, Difference, PairWord, compare_paired, pair_word
from termarena.stats.passing import Passing, Tally, all_of_k, any_of_k, pass_all, pass_any
from termarena.stats.power import (
    KEPT,
    POWER,
    TYPICAL,
    Variances,
    minimal_effect,
    tasks_needed,
    variances_of_one,
    variances_of_pair,
)

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "KEPT",
    "POWER",
    "SAMPLES",
    "TYPICAL",
    "Accuracy",
    "Agreement",
    "Bounds",
    "Difference",
    "FlipTest",
    "Interval",
    "PairWord",
    "Passing",
    "RankSet",
    "Scores",
    "Tally",
    "Variances",
    "accuracy_of",
    "agreement_of",
    "all_of_k",
    "any_of_k",
    "bounds_of",
    "compare_paired",
    "filled",
    "flip_test",
    "holm",
    "minimal_effect",
    "pair_word",
    "pass_all",
    "pass_any",
    "rank_sets",
    "tasks_needed",
    "variances_of_one",
    "variances_of_pair",
    "wilson",
]
