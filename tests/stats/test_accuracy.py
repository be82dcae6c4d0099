"""Accuracy of one run: the formulas beside scipy and statsmodels, and what they hold to."""

from __future__ import annotations

import random
from math import sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from termarena.stats import Accuracy, Scores, accuracy_of, bounds_of, filled, wilson

rewards = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
tables = st.lists(st.lists(rewards, max_size=6), max_size=30)
scored_tables = st.lists(st.lists(rewards, min_size=1, max_size=6), min_size=1, max_size=30)


def known(scores: Scores) -> Accuracy:
    found = accuracy_of(scores)
    assert found is not None
    return found


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 80), (80, 80), (7, 20), (47, 80), (1, 10_000)])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_wilson_is_scipys(successes: int, trials: int, confidence: float) -> None:
    theirs = scipy_stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    ours = wilson(successes, trials, confidence=confidence)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (1, 0), (3, 2), (-1, 2)])
def test_wilson_of_nothing_is_refused_and_no_division_by_zero(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no interval"):
        wilson(successes, trials)


@given(trials=st.integers(1, 2000), share=st.floats(0, 1), more=st.floats(1.01, 10))
def test_wilson_holds_its_share_stays_within_one_is_symmetric_and_shrinks(
    trials: int, share: float, more: float
) -> None:
    ours, mirrored = wilson(share * trials, trials), wilson((1 - share) * trials, trials)
    assert 0 <= ours.low <= share + 1e-12
    assert share - 1e-12 <= ours.high <= 1
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - ours.high, 1 - ours.low), abs=1e-9)
    larger = wilson(share * trials * more, trials * more)
    assert larger.high - larger.low < ours.high - ours.low


def _clustered_by_statsmodels(scores: Scores, *, weighted: bool) -> float:
    from statsmodels.regression.linear_model import OLS, WLS  # noqa: PLC0415 - half a second, needed only here

    values = np.array([score for row in scores for score in row])
    groups = np.array([place for place, row in enumerate(scores) for _ in row])
    weights = np.array([1 / len(row) for row in scores for _ in row])
    model = WLS(values, np.ones_like(values), weights=weights) if weighted else OLS(values, np.ones_like(values))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": groups})
    return float(fit.bse[0])


def _drawn(seed: int, tasks: int, attempts: range) -> list[list[float]]:
    source = random.Random(seed)  # noqa: S311 - a simulation
    chances = [source.betavariate(0.5, 0.5) for _ in range(tasks)]
    return [[float(source.random() < chance) for _ in range(source.choice(attempts))] for chance in chances]


@pytest.mark.parametrize("seed", range(3))
def test_the_clustered_error_is_statsmodels_cluster_robust_one(seed: int) -> None:
    even = _drawn(seed, 40, range(5, 6))
    assert known(even).standard_error == pytest.approx(_clustered_by_statsmodels(even, weighted=False), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_with_unequal_attempts_it_is_that_of_a_regression_in_which_tasks_weigh_the_same(seed: int) -> None:
    uneven = _drawn(seed, 40, range(1, 8))
    # statsmodels corrects for one parameter among N attempts as well, which for a constant is N - 1 over N - 1.
    assert known(uneven).standard_error == pytest.approx(_clustered_by_statsmodels(uneven, weighted=True), rel=1e-9)


def test_the_clustered_interval_is_students_over_task_means() -> None:
    scores = _drawn(1, 30, range(5, 6))
    means = [sum(row) / len(row) for row in scores]
    theirs = scipy_stats.ttest_1samp(means, 0).confidence_interval(0.95)
    ours = known(scores).clustered
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_one_attempt_per_task_has_the_textbooks_wilson_interval() -> None:
    scores = [[1.0]] * 47 + [[0.0]] * 33
    assert known(scores).wilson == wilson(47, 80)
    assert known(scores).effective_trials == 80


def test_repeating_the_same_answer_five_times_is_no_more_evidence() -> None:
    once = [[1.0]] * 47 + [[0.0]] * 33
    five_times = [row * 5 for row in once]
    assert known(five_times).wilson == known(once).wilson
    assert known(five_times).rerun_error == 0


def test_a_run_that_solved_everything_is_not_certain_to() -> None:
    perfect = known([[1.0, 1.0, 1.0]] * 10)
    assert perfect.clustered is None
    assert perfect.wilson == wilson(10, 10)
    assert perfect.wilson is not None
    assert perfect.wilson.low == pytest.approx(0.7225, abs=1e-4)


def test_one_task_has_a_mean_and_no_error_over_tasks() -> None:
    single = known([[1.0, 0.0, 1.0, 1.0]])
    assert (single.mean, single.tasks, single.standard_error, single.clustered) == (0.75, 1, None, None)
    assert single.rerun_error == pytest.approx(sqrt(0.75 * 0.25 / 3))
    assert single.wilson is not None


@pytest.mark.parametrize("scores", [[], [[]], [[], []]])
def test_zero_attempts_are_no_accuracy_and_no_division_by_zero(scores: Scores) -> None:
    assert accuracy_of(scores) is None
    assert bounds_of(scores, [0] * len(scores)) is None


def test_tasks_without_a_score_are_counted_and_not_dropped_in_silence() -> None:
    found = known([[1.0], [], [0.0], []])
    assert (found.mean, found.tasks, found.tasks_without_score) == (0.5, 2, 2)


def test_the_leaderboards_own_error_is_the_rerun_error() -> None:
    solved = [0, 1, 2, 3, 4, 5]
    scores = [[1.0] * won + [0.0] * (5 - won) for won in solved]
    theirs = sqrt(sum(won / 5 * (1 - won / 5) / 4 for won in solved)) / len(solved)
    assert known(scores).rerun_error == pytest.approx(theirs)


def test_a_task_tried_once_is_as_noisy_as_the_others() -> None:
    with_single = known([[1.0, 0.0], [1.0, 0.0], [1.0]])
    assert with_single.rerun_error == pytest.approx(sqrt(0.25 + 0.25 + 0.5) / 3)
    assert known([[1.0], [0.0]]).rerun_error is None


def test_rewards_beyond_one_have_no_wilson_interval() -> None:
    found = known([[2.5], [0.5], [-1.0]])
    assert found.wilson is None
    assert found.effective_trials is None
    assert found.clustered is not None
    assert found.clustered.low < 0


@given(scored_tables)
def test_intervals_hold_the_mean_and_the_mean_holds_to_its_scores(scores: Scores) -> None:
    found = known(scores)
    flat = [score for row in scores for score in row]
    assert min(flat) - 1e-12 <= found.mean <= max(flat) + 1e-12
    for interval in (found.wilson, found.clustered):
        if interval is not None:
            assert 0 <= interval.low <= found.mean + 1e-9
            assert found.mean - 1e-9 <= interval.high <= 1
    assert found.effective_trials is not None
    assert len(scores) * (1 - 1e-9) <= found.effective_trials <= len(flat)


@given(scored_tables, st.randoms())
def test_the_order_of_tasks_and_attempts_changes_nothing(scores: list[list[float]], source: random.Random) -> None:
    shuffled = [source.sample(row, len(row)) for row in source.sample(scores, len(scores))]
    ours, theirs = known(scores), known(shuffled)
    assert ours.mean == theirs.mean
    assert ours.standard_error == pytest.approx(theirs.standard_error, abs=1e-12)


@given(tables, st.data())
def test_bounds_hold_whatever_the_missing_scores_turn_out_to_be(scores: list[list[float]], data: st.DataObject) -> None:
    missing = data.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores)))
    bounds = bounds_of(scores, missing)
    assume(bounds is not None)
    assert bounds is not None
    revealed = [[*row, *(data.draw(rewards) for _ in range(gap))] for row, gap in zip(scores, missing, strict=True)]
    assert bounds.low - 1e-9 <= known(revealed).mean <= bounds.high + 1e-9
    if not any(missing):
        assert bounds.low == bounds.high == known(scores).mean


def test_filling_puts_every_missing_score_in() -> None:
    assert filled([[1.0], []], [0, 2], with_=0.0) == [[1.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="zip"):
        filled([[1.0]], [0, 2], with_=0.0)
