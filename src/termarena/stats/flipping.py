"""The sign-flip test: were the differences as likely to point the other way?

If neither of two runs is the better one, each task's difference is as likely to be d as -d. The p value is the share of
all 2^m ways to give the m differences that are not zero a sign, whose sum is at least as far from zero as the one that
was seen (Fisher, *The Design of Experiments*, 1935). Dividing the sum by its standard error would order the ways no
differently, since the sum of squares does not depend on signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, lcm
from sys import float_info
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SAMPLES", "FlipTest", "flip_test"]

SAMPLES: Final = 100_000
"""Ways that are drawn where not all are counted: p near 0.05 is then right to ±0.0014 (two standard errors)."""
ENUMERATED: Final = 18
"""Most differences whose 2^m ways are gone through one by one: a tenth of a second."""
COUNTED_BITS: Final = 30_000_000_000
"""Most work that counting by sums may be: about two seconds."""
# Two sums that are equal on paper can differ by this much of the sum of all, as computed.
_SLACK: Final = 1e-12
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class FlipTest:
    """A two-sided p value, and how it was come by."""

    p: float
    method: Literal["exact", "sampled"]
    differing: int
    """m: differences that are not zero. With fewer than six, no p can be below 0.05."""
    samples: int | None = None
    """Ways that were drawn; None where all were counted."""
    seed: int | None = None


def flip_test(differences: Sequence[Fraction | float], *, samples: int | None = None, seed: int = 0) -> FlipTest:
    """The test for these differences, one per task.

    Exact where that is feasible: where the differences are small fractions, as they are between successes of a few
    attempts, by counting how many ways give each sum, for thousands of tasks; else by going through all ways of up to
    `ENUMERATED` differences. Otherwise, or where `samples` is given, that many ways are drawn, and p = (1 + hits) /
    (1 + samples), so that the test is valid and p is never 0 (Phipson and Smyth, *Permutation P-values Should Never Be
    Zero*, 2010). The same seed gives the same p.

    Raises ValueError for no positive number of samples, ModuleNotFoundError where it has to draw and there is no numpy.
    """
    if samples is not None and samples < 1:
        raise ValueError(f"{samples} samples cannot be drawn")
    moved = [one for one in differences if one]
    if not moved:
        return FlipTest(1.0, "exact", 0)
    if samples is None:
        p = _counted(moved)
        if p is None and len(moved) <= ENUMERATED:
            p = _enumerated([float(one) for one in moved])
        if p is not None:
            return FlipTest(p, "exact", len(moved))
    number = samples or SAMPLES
    return FlipTest(_sampled([float(one) for one in moved], number, seed), "sampled", len(moved), number, seed)


def _counted(differences: Sequence[Fraction | float]) -> float | None:
    """By the number of ways for each sum; None where the sums are too many.

    All differences are multiples of one fraction, so sums are whole numbers, and the ways to reach each are the
    coefficients of Π (1 + x^d). A polynomial is one large integer with a field of `width` bits for each coefficient,
    and multiplying it is a shift and an addition; no way is lost to rounding.
    """
    exact = [Fraction(one) for one in differences]
    scale = lcm(*(one.denominator for one in exact))
    steps = [abs(one.numerator) * (scale // one.denominator) for one in exact]
    seen = abs(sum((one * scale for one in exact), Fraction(0)))
    # As many sums are at least `seen` as are at most -seen, and those have subsets of at most `highest` turned up.
    highest = (sum(steps) - int(seen)) // 2
    width = (len(steps) // 8 + 1) * 8
    if len(steps) * (highest + 1) * width > 2 * COUNTED_BITS:
        return None
    ways = _ways_up_to(highest, sorted(steps), width)
    p = Fraction(2 * ways, 1 << len(steps)) if seen else Fraction(1)
    return min(1.0, max(float(p), float_info.min))


def _ways_up_to(highest: int, steps: Sequence[int], width: int) -> int:
    """How many subsets of the steps have a sum of at most `highest`.

    The steps are sorted; `width` is a multiple of 8 above their number.
    """
    kept = (1 << (highest + 1) * width) - 1
    polynomial, reach = 1, 0
    for step in steps:
        if step > highest:  # and so is every later one: they are sorted
            break
        polynomial += polynomial << step * width
        reach += step
        if reach > highest:
            polynomial &= kept
    octets = polynomial.to_bytes((highest + 1) * width // 8, "little")
    field = width // 8
    return sum(int.from_bytes(octets[start : start + field], "little") for start in range(0, len(octets), field))


def _enumerated(differences: Sequence[float]) -> float:
    """One by one. The first sign is held, since turning all of them changes no distance from zero."""
    sums = [differences[0]]
    for one in differences[1:]:
        sums = [total + one for total in sums] + [total - one for total in sums]
    least = _least(differences)
    return sum(abs(total) >= least for total in sums) / len(sums)


def _sampled(differences: Sequence[float], samples: int, seed: int) -> float:
    """From ways that are drawn.

    Eight signs are drawn as one byte, and the sum of eight differences with those signs is looked up: 1,500 differences
    and 100,000 ways take a fifth of a second and no memory to speak of.
    """
    import numpy as np  # noqa: PLC0415 - an extra, and only this needs it

    padded = np.zeros(-(-len(differences) // 8) * 8)
    padded[: len(differences)] = differences
    signs = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    tables = padded.reshape(-1, 8) @ signs.T
    drawn = np.random.default_rng(seed)
    least, hits = _least(differences), 0
    for start in range(0, samples, _BLOCK):
        size = min(_BLOCK, samples - start)
        sums = np.zeros(size)
        for table in tables:
            sums += table[drawn.integers(0, 256, size=size, dtype=np.uint8)]
        hits += int(np.count_nonzero(np.abs(sums) >= least))
    return (1 + hits) / (1 + samples)


def _least(differences: Sequence[float]) -> float:
    """The distance from zero that counts as at least as far."""
    return abs(fsum(differences)) - _SLACK * fsum(abs(one) for one in differences)
