"""What a comparison will be able to find, before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from termarena.analysis.contestants import Contestant, Metric, contestant_of
from termarena.analysis.meeting import Meeting
from termarena.core.errors import UsageError
from termarena.stats import (
    ALPHA,
    POWER,
    TYPICAL,
    Variances,
    minimal_effect,
    tasks_needed,
    variances_of_one,
    variances_of_pair,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.runs.reading import RunView

__all__ = ["Noise", "PowerOptions", "PowerPlan", "noise_of", "plan_power"]

OTHER_ATTEMPTS: Final = (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True)
class PowerOptions:
    """What is planned."""

    tasks: int
    attempts: int
    alpha: float = ALPHA
    power: float = POWER
    effect: float | None = None
    """A difference that is to be found: how many tasks would that take?"""


@dataclass(frozen=True, slots=True)
class Noise:
    """Variances, and what they are taken from."""

    variances: Variances
    source: str
    tasks: int | None = None
    """How many tasks they were estimated from."""


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """What T tasks with K attempts each can find."""

    options: PowerOptions
    noise: Noise
    effect: float | None
    """The smallest difference that is found with the wanted power; None where none can be."""
    floor: float | None
    """What no number of attempts at so many tasks gets below; None where unknown."""
    by_attempts: Mapping[int, float]
    """The same for other numbers of attempts."""
    tasks_needed: int | None
    """For the wanted effect; None where none is wanted, or ten million are too few."""


def plan_power(options: PowerOptions, noise: Noise) -> PowerPlan:
    """Raises UsageError for a level or a power that is no probability, or no positive effect."""
    if not 0 < options.alpha < 1 or not 0 < options.power < 1:
        raise UsageError(f"alpha is {options.alpha:g} and power {options.power:g}", hint="both are between 0 and 1")
    if options.effect is not None and not options.effect > 0:
        raise UsageError(f"no number of tasks finds a difference of {options.effect:g}", hint="give a positive one")
    variances = noise.variances
    endless = replace(variances, within=0.0)
    others = {number: _effect(options, variances, number) for number in OTHER_ATTEMPTS if variances.is_split}
    needed = None
    if options.effect is not None:
        needed = tasks_needed(options.effect, options.attempts, variances, alpha=options.alpha, power=options.power)
    return PowerPlan(
        options=options,
        noise=noise,
        effect=_effect(options, variances, options.attempts),
        floor=_effect(options, endless, 1) if variances.is_split else None,
        by_attempts={number: effect for number, effect in others.items() if effect is not None},
        tasks_needed=needed,
    )


def _effect(options: PowerOptions, variances: Variances, attempts: int) -> float | None:
    return minimal_effect(options.tasks, attempts, variances, alpha=options.alpha, power=options.power)


def noise_of(views: Sequence[RunView], metric: Metric = "solved") -> Noise:
    """The noise to plan with: that of one run and a rival like it, of two runs, or, of none, the usual one.

    Raises UsageError for more than two, or where the runs do not show how much tasks differ.
    """
    sides = [contestant_of(view, metric) for view in views]
    if not sides:
        return Noise(TYPICAL, "public submissions to Terminal-Bench 0.1.1: the median of 78 pairs")
    if len(sides) > 2:  # noqa: PLR2004 - a pair
        raise UsageError(f"{len(sides)} runs to plan from", hint="give one, or the two that are like those to compare")
    try:
        noise = _of_one(sides[0]) if len(sides) == 1 else _of_pair(sides[0], sides[1])
    except ValueError as error:
        names = " and ".join(side.name for side in sides)
        raise UsageError(f"{names} cannot be planned from: {error}", hint="leave --from out") from error
    if not noise.variances.between and not noise.variances.within:
        raise UsageError(f"{noise.source} shows no variation to plan with", hint="leave --from out")
    return noise


def _of_one(side: Contestant) -> Noise:
    scores = [task.scores for task in side.tasks.values() if task.scores]
    return Noise(variances_of_one(scores), f"{side.name}, and a rival like it", len(scores))


def _of_pair(first: Contestant, second: Contestant) -> Noise:
    meeting = Meeting(first, second)
    variances = variances_of_pair(meeting.scores(first), meeting.scores(second))
    return Noise(variances, f"{first.name} and {second.name}", len(meeting.shared))
