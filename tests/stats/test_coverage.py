"""Does an interval hold the truth as often as it says, and does the test err as seldom? By drawing whole benchmarks.

Tasks are drawn with chances of their own, attempts by those chances: what the formulas assume, and no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from termarena.stats import Variances, accuracy_of, compare_paired, minimal_effect, pair_word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from termarena.stats import Interval


@dataclass(frozen=True)
class World:
    """Where benchmarks are drawn from: chances per task follow a beta distribution."""

    tasks: int
    attempts: int
    alpha: float
    beta: float

    @property
    def truth(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    def chances(self, drawn: np.random.Generator) -> NDArray[np.float64]:
        return drawn.beta(self.alpha, self.beta, self.tasks)

    def scores(self, drawn: np.random.Generator, chances: NDArray[np.float64]) -> list[list[float]]:
        table: list[list[float]] = (drawn.random((self.tasks, self.attempts)) < chances[:, None]).astype(float).tolist()
        return table


WORLDS = {
    "a usual benchmark": World(89, 5, 0.5, 0.5),
    "one attempt": World(89, 1, 0.5, 0.7),
    "few tasks": World(12, 5, 0.8, 0.8),
    "a hard one": World(80, 5, 0.15, 1.5),
}


def _share_held(world: World, rounds: int, seed: int, name: str) -> float:
    drawn = np.random.default_rng(seed)
    held = 0
    for _ in range(rounds):
        found = accuracy_of(world.scores(drawn, world.chances(drawn)))
        assert found is not None
        interval: Interval | None = getattr(found, name)
        held += interval is not None and interval.low <= world.truth <= interval.high
    return held / rounds


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("interval", ["wilson", "clustered"])
def test_intervals_hold_the_truth_about_as_often_as_they_say(name: str, interval: str) -> None:
    # 300 rounds of 95 % are 95 ± 2.5 %; at the edges of the scale, Student's ± holds less than it says.
    assert (0.91 if interval == "wilson" else 0.87) <= _share_held(WORLDS[name], 300, 1, interval) <= 0.995


def test_near_the_edge_with_few_tasks_wilsons_holds_and_students_does_not() -> None:
    world = World(10, 1, 2, 18)
    assert _share_held(world, 300, 4, "wilson") > 0.9
    assert _share_held(world, 300, 4, "clustered") < 0.75


def test_an_interval_that_takes_attempts_for_independent_would_not() -> None:
    """What clustering is for: of the same benchmarks, the naive interval holds the truth far too seldom."""
    world, drawn, held = WORLDS["a usual benchmark"], np.random.default_rng(1), 0
    for _ in range(300):
        flat = [[score] for row in world.scores(drawn, world.chances(drawn)) for score in row]
        found = accuracy_of(flat)
        assert found is not None
        assert found.wilson is not None
        held += found.wilson.low <= world.truth <= found.wilson.high
    assert held / 300 < 0.8


def _share_claimed(world: World, rounds: int, seed: int, effect: float) -> float:
    """How often the first of two is called better; its chance is higher by `effect` at every task on average."""
    drawn = np.random.default_rng(seed)
    claimed = 0
    for _ in range(rounds):
        second = 0.25 + 0.4 * world.chances(drawn)
        first = np.clip(second + effect + drawn.choice([-0.2, 0.2], world.tasks), 0, 1)
        found = compare_paired(world.scores(drawn, first), world.scores(drawn, second))
        claimed += pair_word(found.effect, found.test.p) != "cannot tell"
    return claimed / rounds


def test_equal_agents_are_told_apart_no_more_often_than_alpha_allows() -> None:
    assert _share_claimed(World(40, 3, 0.5, 0.5), 300, 2, 0.0) <= 0.08


def test_the_minimal_effect_is_found_with_the_power_it_promises() -> None:
    world = World(60, 4, 0.5, 0.5)
    # The two differ by ±0.2 between tasks. Within: mean p (1 - p) of the second, and of the first at an effect of 0.12.
    within = (0.45 * 0.55 - 0.02) + (0.57 * 0.43 - 0.06)
    effect = minimal_effect(world.tasks, world.attempts, Variances(between=0.04, within=within))
    assert effect is not None
    assert 0.68 <= _share_claimed(world, 300, 3, effect) <= 0.88


@pytest.mark.soak
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("interval", ["wilson", "clustered"])
def test_coverage_over_many_benchmarks(name: str, interval: str) -> None:
    assert (0.93 if interval == "wilson" else 0.92) <= _share_held(WORLDS[name], 20_000, 7, interval) <= 0.98


@pytest.mark.soak
@pytest.mark.parametrize("tasks", [8, 20, 89])
def test_false_claims_over_many_pairs(tasks: int) -> None:
    assert _share_claimed(World(tasks, 5, 0.5, 0.5), 20_000, 11, 0.0) <= 0.055
