"""pass@k and pass^k, beside going through every choice of k attempts."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termarena.stats import all_of_k, any_of_k, pass_all, pass_any

CASES = [(won, tried, k) for tried in range(1, 8) for won in range(tried + 1) for k in range(1, tried + 1)]


@pytest.mark.parametrize(("won", "tried", "k"), CASES)
def test_every_choice_of_k_attempts_gives_the_same(won: int, tried: int, k: int) -> None:
    attempts = [True] * won + [False] * (tried - won)
    choices = list(combinations(attempts, k))
    assert any_of_k(won, tried, k) == pytest.approx(sum(map(any, choices)) / len(choices), abs=1e-12)
    assert all_of_k(won, tried, k) == pytest.approx(sum(map(all, choices)) / len(choices), abs=1e-12)


@pytest.mark.parametrize(("chance", "attempts", "k"), [(0.3, 5, 2), (0.5, 4, 4), (0.9, 6, 3)])
def test_both_are_unbiased(chance: float, attempts: int, k: int) -> None:
    any_mean = all_mean = 0.0
    for outcome in product([0, 1], repeat=attempts):
        won = sum(outcome)
        weight = chance**won * (1 - chance) ** (attempts - won)
        any_mean += weight * any_of_k(won, attempts, k)
        all_mean += weight * all_of_k(won, attempts, k)
    assert any_mean == pytest.approx(1 - (1 - chance) ** k)
    assert all_mean == pytest.approx(chance**k)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n))))
def test_more_tries_never_hurt_pass_at_k_nor_help_pass_hat_k(case: tuple[int, int, int]) -> None:
    won, tried, k = case
    assert 0 <= all_of_k(won, tried, k) <= won / tried + 1e-12
    assert won / tried - 1e-12 <= any_of_k(won, tried, k) <= 1
    if k < tried:
        assert any_of_k(won, tried, k) <= any_of_k(won, tried, k + 1) + 1e-12
        assert all_of_k(won, tried, k) >= all_of_k(won, tried, k + 1) - 1e-12


def test_with_k_of_one_both_are_the_accuracy() -> None:
    tallies = [(3, 5), (0, 5), (5, 5)]
    assert pass_any(tallies, 1).value == pass_all(tallies, 1).value == pytest.approx(8 / 15)


def test_tasks_with_fewer_than_k_attempts_are_told_and_not_dropped_in_silence() -> None:
    found = pass_any([(1, 4), (1, 2), (0, 0), (0, 3)], 3)
    assert found.too_few == (1, 2)
    assert found.over is not None
    assert found.over.tasks == 2
    assert found.value == pytest.approx((0.75 + 0) / 2)


@pytest.mark.parametrize("tallies", [[], [(0, 0)], [(1, 1), (2, 2)]])
def test_where_no_task_was_tried_often_enough_there_is_no_value(tallies: list[tuple[int, int]]) -> None:
    found = pass_all(tallies, 5)
    assert found.value is None
    assert len(found.too_few) == len(tallies)


@pytest.mark.parametrize(("won", "tried", "k"), [(1, 0, 1), (2, 1, 1), (0, 3, 0), (0, 3, 4), (-1, 3, 1)])
def test_what_makes_no_sense_is_refused(won: int, tried: int, k: int) -> None:
    with pytest.raises(ValueError, match="no pass rate"):
        any_of_k(won, tried, k)
    with pytest.raises(ValueError, match="k is 0"):
        pass_any([(1, 1)], 0)
