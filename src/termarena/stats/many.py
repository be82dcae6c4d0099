"""Many comparisons at once: Holm's correction, and ranks that say no more than the comparisons do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["RankSet", "holm", "rank_sets"]


@dataclass(frozen=True, slots=True)
class RankSet:
    """The ranks that a contestant may have, both ends included; 1 is the best."""

    best: int
    worst: int


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted for all being looked at together, in the order given.

    The i-th smallest of m becomes the largest of (m - j + 1) · p_(j) over j <= i, at most 1. Rejecting what is at most
    alpha then rejects a true hypothesis among all with a chance of at most alpha, whatever the dependence (Holm, *A
    Simple Sequentially Rejective Multiple Test Procedure*, 1979). Raises ValueError for what is no probability.
    """
    if any(not 0 <= value <= 1 for value in values):
        raise ValueError(f"not all of these are p values: {list(values)}")
    adjusted = [0.0] * len(values)
    so_far = 0.0
    for step, place in enumerate(sorted(range(len(values)), key=lambda place: values[place])):
        so_far = max(so_far, min(1.0, (len(values) - step) * values[place]))
        adjusted[place] = so_far
    return adjusted


def rank_sets(contestants: int, better: Iterable[tuple[int, int]]) -> list[RankSet]:
    """For each contestant the ranks that are not ruled out: from 1 + (how many are better) to n - (how many are worse).

    `better` holds (winner, loser) for each pair in which one was found better. Each set counts a contestant's own
    comparisons and draws no conclusion from the others': "A beats C" does not follow from "A beats B" and "B beats C",
    and none of it need be consistent. If the chance of a single false claim among all pairs, in either direction, is at
    most alpha, then all the sets together hold the true ranks with a chance of at least 1 - alpha; contestants whose
    sets overlap are not told apart by rank (Mogstad, Romano, Shaikh and Wilhelm, *Inference for Ranks*, Review of
    Economic Studies, 2024). Raises ValueError for a pair that is given both ways, or with itself.
    """
    found = set(better)
    for winner, loser in found:
        if winner == loser or (loser, winner) in found:
            raise ValueError(f"contestant {winner} cannot be better and worse than {loser}")
    beaten_by = [sum(loser == one for _, loser in found) for one in range(contestants)]
    beats = [sum(winner == one for winner, _ in found) for one in range(contestants)]
    return [RankSet(1 + above, contestants - below) for above, below in zip(beaten_by, beats, strict=True)]
