"""The sign-flip test, beside going through every sign and beside scipy."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import product
from math import comb

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from termarena.stats import flip_test
from termarena.stats.flipping import ENUMERATED

fifths = st.integers(-5, 5).map(lambda n: Fraction(n, 5))
small = st.lists(fifths | st.sampled_from([Fraction(1, 3), Fraction(-3, 4)]), max_size=9)


def every_sign(differences: list[Fraction]) -> float:
    """What the test is defined as, in the plainest way."""
    moved = [one for one in differences if one]
    seen = abs(sum(moved, Fraction(0)))
    sums = [
        abs(sum((sign * one for sign, one in zip(signs, moved, strict=True)), Fraction(0)))
        for signs in product([1, -1], repeat=len(moved))
    ]
    return sum(total >= seen for total in sums) / len(sums)


@given(small)
@example([])
@example([Fraction(0)])
@example([Fraction(1)])
def test_counting_gives_what_going_through_every_sign_gives(differences: list[Fraction]) -> None:
    found = flip_test(differences)
    assert found.method == "exact"
    assert found.p == pytest.approx(every_sign(differences), rel=1e-12)
    assert found.differing == sum(one != 0 for one in differences)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_rewards_that_are_no_fractions_are_gone_through_one_by_one(differences: list[float]) -> None:
    found = flip_test(differences)
    assert found.method == "exact"
    seen, slack = abs(sum(differences)), 1e-9 * sum(map(abs, differences))
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in product([1, -1], repeat=len(differences))
    ]
    # Sums that are equal but for rounding may be counted or not by this plain way; the truth lies between.
    least = sum(total >= seen + slack for total in sums) / len(sums)
    most = sum(total >= seen - slack for total in sums) / len(sums)
    assert least <= found.p <= most


def test_it_is_scipys_permutation_test() -> None:
    differences = [0.2, -0.4, 0.6, 1.0, 0.0, 0.8, -0.2, 0.4, 0.6]
    theirs = scipy_stats.permutation_test(
        (differences,), lambda sample, axis: sample.mean(axis=axis), permutation_type="samples", n_resamples=2**9
    )
    assert flip_test([Fraction(one).limit_denominator(10) for one in differences]).p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(("wins", "losses"), [(9, 2), (30, 14), (400, 300), (1, 0), (5, 5)])
def test_with_one_attempt_it_is_the_exact_mcnemar_test(wins: int, losses: int) -> None:
    found = flip_test([Fraction(1)] * wins + [Fraction(-1)] * losses + [Fraction(0)] * 50)
    assert found.p == pytest.approx(scipy_stats.binomtest(wins, wins + losses).pvalue, rel=1e-9)


def test_a_thousand_tasks_are_still_exact() -> None:
    differences = [Fraction(place % 11 - 4, 5) for place in range(1000)]
    found = flip_test(differences)
    assert found.method == "exact"
    z = abs(sum(differences)) / float(sum(one * one for one in differences)) ** 0.5
    assert found.p == pytest.approx(2 * scipy_stats.norm.sf(float(z)), rel=0.2)


def test_p_is_never_zero_however_clear_the_case() -> None:
    assert flip_test([Fraction(1)] * 60).p == 2.0**-59
    assert 0 < flip_test([Fraction(1)] * 2000).p < 1e-300
    assert flip_test([1.0] * 60, samples=999).p == 1 / 1000


@pytest.mark.parametrize("tasks", range(1, 6))
def test_five_tasks_can_never_tell_and_six_can(tasks: int) -> None:
    assert flip_test([Fraction(1)] * tasks).p > 0.05
    assert flip_test([Fraction(1)] * 6).p == 2 / 64


def test_sampling_comes_close_to_counting_and_repeats_with_its_seed() -> None:
    differences = [Fraction(place % 7 - 2, 5) for place in range(40)]
    exact = flip_test(differences).p
    drawn = flip_test(differences, samples=20_000, seed=3)
    error = (exact * (1 - exact) / 20_000) ** 0.5
    assert drawn.p == pytest.approx(exact, abs=4 * error)
    assert (drawn.method, drawn.samples, drawn.seed) == ("sampled", 20_000, 3)
    assert flip_test(differences, samples=20_000, seed=3) == drawn
    assert flip_test(differences, samples=20_000, seed=4).p != drawn.p


def test_sampling_draws_exactly_as_many_as_asked_across_blocks() -> None:
    found = flip_test([Fraction(1)] * 3, samples=70_001)
    assert found.p == pytest.approx(0.25, abs=0.01)
    hits = found.p * 70_002 - 1
    assert hits == pytest.approx(round(hits), abs=1e-6)


def test_odd_rewards_of_many_tasks_are_sampled_by_themselves() -> None:
    differences = [0.1 * (place % 13) - 0.37 for place in range(ENUMERATED + 1)]
    found = flip_test(differences)
    assert (found.method, found.samples) == ("sampled", 100_000)
    assert 1 / 100_001 <= found.p <= 1


@given(small)
def test_turning_everything_round_changes_nothing(differences: list[Fraction]) -> None:
    assert flip_test(differences).p == flip_test([-one for one in differences]).p


@given(st.integers(1, 40), st.integers(0, 40))
def test_a_clearer_case_has_a_smaller_p(wins: int, losses: int) -> None:
    ahead, behind = max(wins, losses), min(wins, losses)
    base = flip_test([Fraction(1)] * ahead + [Fraction(-1)] * behind).p
    clearer = flip_test([Fraction(1)] * (ahead + behind)).p
    assert clearer <= base


@pytest.mark.parametrize("samples", [0, -1])
def test_no_samples_are_refused(samples: int) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        flip_test([Fraction(1)], samples=samples)


def test_counting_does_not_overflow_where_one_sum_has_most_ways() -> None:
    # C(80, 40) of the 2^80 ways give one sum; a field that is one bit short would spill into the next.
    found = flip_test([Fraction(1)] * 41 + [Fraction(-1)] * 39)
    assert found.p == pytest.approx(1 - comb(80, 40) / 2**80, rel=1e-12)


def test_everything_but_sampling_works_without_numpy() -> None:
    code = """
import sys
sys.modules["numpy"] = None
from termarena.stats import accuracy_of, compare_paired, pass_any, minimal_effect, TYPICAL
first, second = [[1.0, 0.0]] * 30, [[0.0, 0.0]] * 30
print(accuracy_of(first).wilson.low > 0, pass_any([(1, 2)], 2).value, minimal_effect(89, 5, TYPICAL) > 0.1)
print(compare_paired(first, second).test.method)
try:
    compare_paired(first, second, samples=10)
except ModuleNotFoundError as error:
    print("no", error.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    assert done.stdout.splitlines() == ["True 1.0 True", "exact", "no numpy"]
