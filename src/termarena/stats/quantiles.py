"""Quantiles of the normal and of Student's distribution, without numpy or scipy: every report needs one."""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, isfinite, lgamma, log, log1p
from statistics import NormalDist
from typing import Final

__all__ = ["normal_quantile", "student_quantile", "student_tail"]

# From here on the two distributions differ by less than 1e-6 of the quantile.
NORMAL_FROM_DF: Final = 1_000_000
_TERMS: Final = 10_000
_TINY: Final = 1e-300
_PRECISION: Final = 1e-15


def normal_quantile(probability: float) -> float:
    """The value that a standard normal variable stays below with this probability, which is between 0 and 1."""
    return NormalDist().inv_cdf(probability)


@lru_cache(maxsize=1024)
def student_quantile(probability: float, df: float) -> float:
    """The value that Student's t with `df` degrees of freedom stays below with this probability.

    By bisection of `student_tail`; right to twelve digits. Raises ValueError for a probability that is not between 0
    and 1, or no positive `df`.
    """
    if not 0 < probability < 1 or not df > 0:
        raise ValueError(f"no quantile {probability} of Student's t with {df} degrees of freedom")
    if probability == 0.5:  # noqa: PLR2004 - the middle of a symmetric distribution
        return 0.0
    if df >= NORMAL_FROM_DF:
        return normal_quantile(probability)
    tail = min(probability, 1 - probability)
    low, high = 0.0, 1.0
    while student_tail(high, df) > tail and isfinite(high):
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, df) > tail else (low, middle)
    return high if probability > tail else -high


def student_tail(value: float, df: float) -> float:
    """The chance that Student's t with `df` degrees of freedom exceeds `value`, which is not negative.

    Half the regularised incomplete beta function of df / (df + value²) with parameters df / 2 and 1 / 2 (Abramowitz and
    Stegun, *Handbook of Mathematical Functions*, 26.7.1).
    """
    if value == inf:
        return 0.0
    ratio = value * value / df
    return _incomplete_beta(df / 2, 0.5, 1 / (1 + ratio), ratio / (1 + ratio)) / 2


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised I_x(a, b); `rest` is 1 - x, given apart because the difference would lose digits near 1."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * _log(x, rest) + b * _log(rest, x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _log(x: float, rest: float) -> float:
    return log1p(-rest) if x > rest else log(x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (A&S 26.5.8), by Lentz's method."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _nonzero(1 + even * d), _nonzero(1 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _nonzero(1 + odd * d), _nonzero(1 + odd / c)
        value *= d * c
        if abs(d * c - 1) < _PRECISION:
            return value
    raise ArithmeticError(f"the incomplete beta function of {x} with {a} and {b} does not converge")


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
