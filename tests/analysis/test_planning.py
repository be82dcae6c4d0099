"""What a comparison will be able to find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.made_runs import made_run
from termarena.analysis.planning import PowerOptions, noise_of, plan_power
from termarena.core.errors import UsageError
from termarena.stats import TYPICAL, variances_of_one, variances_of_pair

if TYPE_CHECKING:
    from pathlib import Path

MIXED = {"a": "110", "b": "000", "c": "111", "d": "010", "e": "111", "f": "011", "g": "100"}


def scores(outcomes: dict[str, str]) -> list[list[float]]:
    return [[float(letter == "1") for letter in letters] for letters in outcomes.values()]


def test_without_a_run_the_noise_is_the_usual_one() -> None:
    noise = noise_of([])
    assert (noise.variances, noise.tasks) == (TYPICAL, None)


def test_one_run_stands_for_itself_and_a_rival_like_it(tmp_path: Path) -> None:
    noise = noise_of([made_run(tmp_path / "run", MIXED)])
    assert noise.variances == variances_of_one(scores(MIXED))
    assert (noise.tasks, noise.source) == (7, "run, and a rival like it")


def test_two_runs_are_taken_on_the_tasks_they_share(tmp_path: Path) -> None:
    other = {name: letters[::-1].replace("0", "1", 1) for name, letters in MIXED.items()}
    first = made_run(tmp_path / "first", MIXED | {"alone": "000"})
    noise = noise_of([first, made_run(tmp_path / "second", other)])
    assert noise.variances == variances_of_pair(scores(MIXED), scores(other))
    assert noise.tasks == 7


def test_more_than_two_are_refused(tmp_path: Path) -> None:
    view = made_run(tmp_path / "run", MIXED)
    with pytest.raises(UsageError, match="3 runs to plan from"):
        noise_of([view, view, view])


def test_a_run_that_solved_everything_cannot_be_planned_from(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shows no variation"):
        noise_of([made_run(tmp_path / "run", {"a": "11", "b": "11"})])


@pytest.mark.parametrize("outcomes", [{"a": "10"}, {"a": "10", "b": "??"}, {"a": "--"}])
def test_one_task_or_zero_attempts_cannot_be_planned_from(tmp_path: Path, outcomes: dict[str, str]) -> None:
    view = made_run(tmp_path / "run", outcomes)
    with pytest.raises(UsageError, match="cannot be planned from: variances need two tasks or more"):
        noise_of([view])
    other = made_run(tmp_path / "other", outcomes)
    with pytest.raises(UsageError, match="cannot be planned from: variances need two tasks or more"):
        noise_of([view, other])


def test_a_plan_says_what_is_found_and_what_more_attempts_would_bring() -> None:
    plan = plan_power(PowerOptions(tasks=89, attempts=5, effect=0.05), noise_of([]))
    assert plan.effect == pytest.approx(0.113, abs=0.001)
    assert plan.by_attempts[5] == plan.effect
    assert list(plan.by_attempts.values()) == sorted(plan.by_attempts.values(), reverse=True)
    assert plan.floor is not None
    assert plan.floor < plan.by_attempts[10]
    assert plan.tasks_needed == 449


def test_too_few_tasks_find_nothing() -> None:
    plan = plan_power(PowerOptions(tasks=3, attempts=5), noise_of([]))
    assert (plan.effect, plan.floor, dict(plan.by_attempts)) == (None, None, {})


def test_noise_that_is_not_split_promises_nothing_of_attempts(tmp_path: Path) -> None:
    single = {name: letters[0] for name, letters in MIXED.items()}
    noise = noise_of([made_run(tmp_path / "run", single)])
    assert not noise.variances.is_split
    plan = plan_power(PowerOptions(tasks=89, attempts=1), noise)
    assert (plan.floor, dict(plan.by_attempts)) == (None, {})
    assert plan.effect == plan_power(PowerOptions(tasks=89, attempts=7), noise).effect


@pytest.mark.parametrize(
    ("alpha", "power", "effect"), [(0, 0.8, None), (1.5, 0.8, None), (0.05, 1, None), (0.05, 0.8, 0)]
)
def test_what_makes_no_sense_is_refused(alpha: float, power: float, effect: float | None) -> None:
    with pytest.raises(UsageError):
        plan_power(PowerOptions(9, 5, alpha=alpha, power=power, effect=effect), noise_of([]))
