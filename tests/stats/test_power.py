"""Minimal detectable effects, beside statsmodels and beside experiments that are drawn."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termarena.stats import TYPICAL, Variances, minimal_effect, tasks_needed, variances_of_one, variances_of_pair
from termarena.stats.power import KEPT

sizes = st.integers(6, 5000)
parts = st.builds(Variances, between=st.floats(0.001, 1), within=st.floats(0.001, 0.5))


def known(tasks: int, attempts: int, variances: Variances = TYPICAL) -> float:
    found = minimal_effect(tasks, attempts, variances)
    assert found is not None
    return found


@pytest.mark.parametrize("tasks", [10, 20, 89, 500, 1500])
def test_it_is_that_of_the_paired_t_test(tasks: int) -> None:
    from statsmodels.stats.power import TTestPower  # noqa: PLC0415 - half a second, needed only here

    size = TTestPower().solve_power(nobs=tasks, alpha=0.05, power=0.8)
    spread = sqrt(TYPICAL.between + TYPICAL.within / 5)
    assert known(tasks, 5) == pytest.approx(size * spread, rel=0.02 if tasks < 20 else 0.01)


@pytest.mark.parametrize(
    ("tasks", "attempts", "points"), [(89, 1, 15.0), (89, 5, 11.3), (500, 1, 6.3), (1500, 1, 3.6), (1500, 5, 2.7)]
)
def test_what_typical_pairs_of_agents_need(tasks: int, attempts: int, points: float) -> None:
    assert 100 * known(tasks, attempts) == pytest.approx(points, abs=0.1)


@given(sizes, st.integers(1, 50), parts)
def test_more_tasks_and_more_attempts_find_smaller_differences(tasks: int, attempts: int, variances: Variances) -> None:
    assert known(tasks + 1, attempts, variances) < known(tasks, attempts, variances)
    assert known(tasks, attempts + 1, variances) < known(tasks, attempts, variances)
    floor = known(tasks, 1, Variances(between=variances.between, within=0))
    assert known(tasks, attempts, variances) > floor


@given(st.floats(0.01, 0.9), st.integers(1, 20), parts)
def test_the_tasks_needed_are_enough_and_one_fewer_is_not(effect: float, attempts: int, variances: Variances) -> None:
    needed = tasks_needed(effect, attempts, variances)
    assert needed is not None
    assert known(needed, attempts, variances) <= effect
    fewer = minimal_effect(needed - 1, attempts, variances)
    assert fewer is None or fewer > effect


def test_no_number_of_tasks_finds_a_hair() -> None:
    assert tasks_needed(1e-9, 5, TYPICAL) is None


@pytest.mark.parametrize("tasks", range(1, 6))
def test_five_tasks_find_nothing_whatever_the_difference(tasks: int) -> None:
    assert minimal_effect(tasks, 100, TYPICAL) is None
    assert minimal_effect(6, 100, TYPICAL) is not None


@pytest.mark.parametrize(
    ("tasks", "attempts", "alpha", "power"), [(0, 5, 0.05, 0.8), (9, 0, 0.05, 0.8), (9, 5, 0, 0.8), (9, 5, 0.05, 1)]
)
def test_what_makes_no_sense_is_refused(tasks: int, attempts: int, alpha: float, power: float) -> None:
    with pytest.raises(ValueError, match="no power of"):
        minimal_effect(tasks, attempts, TYPICAL, alpha=alpha, power=power)
    with pytest.raises(ValueError, match="a difference of 0"):
        tasks_needed(0, attempts, TYPICAL)


def _runs(seed: int, tasks: int, attempts: int) -> list[list[list[float]]]:
    """Two agents whose chances at a task are alike, not equal."""
    drawn = np.random.default_rng(seed)
    common = drawn.beta(0.6, 0.6, tasks)
    chances = [np.clip(common + drawn.normal(0, 0.2, tasks), 0, 1) for _ in range(2)]
    return [[[float(drawn.random() < one) for _ in range(attempts)] for one in chance] for chance in chances]


def test_the_parts_are_told_apart_whatever_the_attempts() -> None:
    few, many = (variances_of_pair(*_runs(1, 3000, attempts)) for attempts in (2, 10))
    assert few.between == pytest.approx(many.between, abs=0.008)
    assert few.within == pytest.approx(many.within, abs=0.008)
    assert few.is_split


def test_runs_of_one_attempt_cannot_be_told_apart_into_parts_and_say_so() -> None:
    first, second = _runs(1, 50, 1)
    pair, one = variances_of_pair(first, second), variances_of_one(first)
    assert not pair.is_split
    assert not one.is_split
    assert pair.within == one.within == 0
    assert pair.between > 0
    assert variances_of_pair(first, _runs(1, 50, 3)[1]).is_split is False


def test_one_run_stands_for_a_rival_that_is_like_it() -> None:
    scores = [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    found = variances_of_one(scores)
    assert found.within == pytest.approx(2 * 0.5 / 4)
    means_spread = ((1 - 0.625) ** 2 * 2 + 0.625**2 + 0.125**2) / 3
    assert found.between == pytest.approx(2 * KEPT * (means_spread - 0.5 / 4 / 2))


def test_noise_alone_leaves_nothing_between() -> None:
    assert variances_of_pair([[1.0, 0.0]] * 4, [[0.0, 1.0]] * 4).between == 0


@pytest.mark.parametrize("scores", [[], [[1.0]], [[1.0], []]])
def test_one_task_has_no_variance(scores: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="two tasks or more"):
        variances_of_one(scores)
    with pytest.raises(ValueError, match="two tasks or more"):
        variances_of_pair(scores[:1], scores[:1])
