"""Two runs, task by task."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from termarena.stats import Scores, compare_paired, pair_word

rows = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5)
pairs = st.lists(st.tuples(rows, rows), min_size=1, max_size=12)


def test_effect_error_and_interval_are_those_of_the_paired_t_test() -> None:
    first = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    second = [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    found = compare_paired(first, second)
    means = [[sum(row) / 2 for row in run] for run in (first, second)]
    theirs = scipy_stats.ttest_rel(*means)
    interval = theirs.confidence_interval(0.95)
    assert found.standard_error is not None
    assert found.effect / found.standard_error == pytest.approx(theirs.statistic)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    assert (found.tasks, found.ahead, found.behind) == (6, 3, 1)
    unpaired = scipy_stats.ttest_ind(*means, equal_var=False)
    assert found.unpaired_error == pytest.approx(found.effect / unpaired.statistic)


def test_pairing_finds_what_unpaired_intervals_hide() -> None:
    """Hard and easy tasks alike, the first is a little better at each: only differences per task show it."""
    second = [[1.0] * won + [0.0] * (5 - won) for won in (0, 1, 2, 3, 4) * 4]
    first = [[1.0] * (won + 1) + [0.0] * (4 - won) for won in (0, 1, 2, 3, 4) * 4]
    found = compare_paired(first, second)
    assert pair_word(found.effect, found.test.p) == "better"
    assert found.unpaired_error is not None
    assert abs(found.effect) < 2.3 * found.unpaired_error


def test_identical_runs_cannot_be_told_apart() -> None:
    scores = [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    found = compare_paired(scores, scores)
    assert (found.effect, found.test.p, found.interval) == (0.0, 1.0, None)
    assert pair_word(found.effect, found.test.p) == "cannot tell"


def test_one_task_cannot_tell_and_divides_by_nothing() -> None:
    found = compare_paired([[1.0] * 5], [[0.0] * 5])
    assert (found.effect, found.tasks, found.test.p) == (1.0, 1, 1.0)
    assert (found.standard_error, found.interval, found.unpaired_error) == (None, None, None)
    assert found.rerun_error == 0


def test_a_constant_difference_has_no_interval_and_the_test_decides() -> None:
    found = compare_paired([[1.0]] * 4, [[0.0]] * 4)
    assert (found.standard_error, found.interval) == (0.0, None)
    assert found.test.p == 2 / 16


@pytest.mark.parametrize(("first", "second"), [([], []), ([[1.0]], []), ([[1.0], []], [[1.0], [0.0]]), ([[1.0]], [[]])])
def test_rows_that_do_not_match_are_refused(first: Scores, second: Scores) -> None:
    with pytest.raises(ValueError, match="rows of the same tasks"):
        compare_paired(first, second)


def test_the_rerun_error_adds_what_both_runs_vary() -> None:
    found = compare_paired([[1.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]])
    assert found.rerun_error == pytest.approx(sqrt(0.25 + 0.25) / 2)
    assert compare_paired([[1.0], [0.0]], [[1.0, 0.0], [1.0, 1.0]]).rerun_error is None


@given(pairs)
def test_the_other_way_round_everything_is_turned(table: list[tuple[list[float], list[float]]]) -> None:
    first, second = [ours for ours, _ in table], [theirs for _, theirs in table]
    there, back = compare_paired(first, second), compare_paired(second, first)
    assert back.effect == -there.effect
    assert back.standard_error == pytest.approx(there.standard_error)
    assert back.test.p == there.test.p
    assert (back.ahead, back.behind) == (there.behind, there.ahead)
    turned = {"better": "worse", "worse": "better", "cannot tell": "cannot tell"}
    assert pair_word(back.effect, back.test.p) == turned[pair_word(there.effect, there.test.p)]


@given(pairs)
def test_every_number_stays_where_it_can_be(table: list[tuple[list[float], list[float]]]) -> None:
    found = compare_paired([ours for ours, _ in table], [theirs for _, theirs in table])
    assert -1 <= found.effect <= 1
    assert 2.0 ** (1 - max(found.test.differing, 1)) <= found.test.p * (1 + 1e-12)
    assert found.test.p <= 1
    assert found.ahead + found.behind == found.test.differing <= found.tasks
    if found.interval is not None:
        assert found.interval.low <= found.effect <= found.interval.high


@pytest.mark.parametrize(
    ("effect", "p", "word"),
    [
        (0.1, 0.05, "better"),
        (-0.1, 0.05, "worse"),
        (0.1, 0.0501, "cannot tell"),
        (0.0, 0.0, "cannot tell"),
        (0.9, 1.0, "cannot tell"),
    ],
)
def test_the_word_is_decided_by_p_alone(effect: float, p: float, word: str) -> None:
    assert pair_word(effect, p) == word
    assert pair_word(effect, p, alpha=1e-9) == "cannot tell"
