"""Quantiles, beside scipy's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from termarena.stats.quantiles import normal_quantile, student_quantile, student_tail


@pytest.mark.parametrize("probability", [0.001, 0.2, 0.5, 0.8, 0.9, 0.975, 0.995, 0.99999])
@pytest.mark.parametrize("df", [1, 2, 3.5, 5, 29, 88, 1499, 250_000, 5_000_000])
def test_students_quantiles_are_scipys(probability: float, df: float) -> None:
    assert student_quantile(probability, df) == pytest.approx(scipy_stats.t.ppf(probability, df), rel=2e-6, abs=1e-12)
    if df <= 1499:
        assert student_quantile(probability, df) == pytest.approx(scipy_stats.t.ppf(probability, df), rel=1e-10)


@given(value=st.floats(0, 1e6), df=st.floats(0.5, 1e5))
def test_students_tail_is_scipys(value: float, df: float) -> None:
    assert student_tail(value, df) == pytest.approx(scipy_stats.t.sf(value, df), rel=1e-7, abs=1e-12)


def test_the_quantile_of_infinity_has_no_tail() -> None:
    assert student_tail(float("inf"), 3) == 0


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, float("nan")])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(probability, 3)


def test_no_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ValueError, match="0 degrees of freedom"):
        student_quantile(0.9, 0)


def test_the_normal_quantile_is_the_one_in_every_table() -> None:
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054, abs=1e-12)
