"""Holm's correction beside statsmodels', and what rank sets claim."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termarena.stats import RankSet, holm, rank_sets


@settings(max_examples=10)  # theirs takes 50 ms each
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_statsmodels(values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 - half a second, needed only here

    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]), abs=1e-12)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(raw <= one <= 1 for raw, one in zip(values, adjusted, strict=True))
    for (raw, one), (other_raw, other) in combinations(zip(values, adjusted, strict=True), 2):
        assert (raw - other_raw) * (one - other) >= 0


def test_one_comparison_needs_no_correction() -> None:
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not all of these are p values"):
        holm([0.5, value])


def test_without_any_verdict_everyone_may_have_every_rank() -> None:
    assert rank_sets(3, []) == [RankSet(1, 3)] * 3
    assert rank_sets(1, []) == [RankSet(1, 1)]
    assert rank_sets(0, []) == []


def test_ranks_draw_no_conclusion_that_was_not_tested() -> None:
    # A beats B, B beats C, and nothing is known of A and C.
    assert rank_sets(3, [(0, 1), (1, 2)]) == [RankSet(1, 2), RankSet(2, 2), RankSet(2, 3)]


def test_ties_are_shown_as_ties() -> None:
    assert rank_sets(4, [(0, 2), (0, 3), (1, 2), (1, 3)]) == [
        RankSet(1, 2),
        RankSet(1, 2),
        RankSet(3, 4),
        RankSet(3, 4),
    ]


def test_verdicts_that_go_round_in_a_circle_are_shown_as_they_are() -> None:
    assert rank_sets(3, [(0, 1), (1, 2), (2, 0)]) == [RankSet(2, 2)] * 3


@pytest.mark.parametrize("better", [[(0, 0)], [(0, 1), (1, 0)]])
def test_better_and_worse_at_once_is_refused(better: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="better and worse"):
        rank_sets(2, better)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_true_verdicts_never_rule_out_the_true_rank(order: tuple[int, ...]) -> None:
    """Whatever part of the true pairs is found, the sets hold the true ranks."""
    pairs = [(winner, loser) for place, winner in enumerate(order) for loser in order[place + 1 :]]
    source = random.Random(sum(place * one for place, one in enumerate(order)))  # noqa: S311 - a sample of cases
    for _ in range(20):
        found = rank_sets(4, source.sample(pairs, source.randint(0, len(pairs))))
        for rank, contestant in enumerate(order, start=1):
            assert found[contestant].best <= rank <= found[contestant].worst
    assert rank_sets(4, pairs) == [RankSet(order.index(one) + 1, order.index(one) + 1) for one in range(4)]
