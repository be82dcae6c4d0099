"""Stage 1: the reference solution passes, every time and wherever it runs."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Final

from termarena.agents.oracle import Oracle
from termarena.proof.conditions import CONDITIONS, PLAIN, condition
from termarena.proof.evidence import Evidence, Frozen, differences
from termarena.proof.further import OTHER_USER, Equipped, Untried, further_conditions, why_unreached
from termarena.proof.stand import Act

if TYPE_CHECKING:
    from termarena.proof.stand import Stand

__all__ = ["Solvable", "is_comparable", "noise_of", "prove_solvable", "wilson"]

Z: Final = 1.959963984540054
"""95 % of a normal distribution lie within so many deviations."""


class Solvable(Frozen):
    """How often the reference solution passed."""

    attempts: int
    passes: int
    failed_conditions: tuple[str, ...] = ()
    """Under which it did not pass."""
    flake_rate: float
    flake_interval: tuple[float, float]
    """Of the rate, at 95 % (Wilson)."""
    noise: tuple[str, ...] = ()
    """Paths that came out differently from one passing attempt to the next."""
    load: float | None = None
    """Of the attempt that failed on the quietest machine: programs per processor; None without one, and where that is
    unknown."""
    message: str = ""
    """Of the first attempt that failed."""
    untried: tuple[Untried, ...] = ()
    """Conditions under which it was not tried."""

    @property
    def is_sound(self) -> bool:
        """Whether every attempt passed."""
        return self.attempts > 0 and self.passes == self.attempts


async def prove_solvable(stand: Stand, attempts: int) -> tuple[Solvable, list[Evidence]]:
    """Run the solution so often, under changing conditions; where all of these were met and it passes, once more under
    each of those that the task and the machine allow."""
    acts = [
        Act("solvable", "oracle", "", Oracle, condition=condition(number), repeat=number) for number in range(attempts)
    ]
    tried = await stand.attempt_all(acts)
    solved = next((one for one in tried if one.passes and one.condition == PLAIN.name), None)
    untried: tuple[Untried, ...] = ()
    if solved is not None and attempts >= len(CONDITIONS):
        more, untried = await _further(stand, solved)
        tried += more
    failed = [one for one in tried if not one.passes]
    low, high = wilson(len(failed), len(tried))
    found = Solvable(
        attempts=len(tried),
        passes=len(tried) - len(failed),
        failed_conditions=tuple(dict.fromkeys(one.condition for one in failed)),
        flake_rate=len(failed) / len(tried),
        flake_interval=(low, high),
        noise=tuple(sorted(noise_of(tried))),
        load=_least_load(failed),
        message=_why(failed[0]) if failed else "",
        untried=untried,
    )
    return found, tried


async def _further(stand: Stand, solved: Evidence) -> tuple[list[Evidence], tuple[Untried, ...]]:
    """Once under each condition that is possible here; one that was not reached is as one that was not tried."""
    possible, untried = await asyncio.to_thread(further_conditions, stand.task, solved, stand.capabilities)
    acts = [
        Act("solvable", "oracle", "", partial(Equipped, condition=one), condition=one, repeat=number)
        for number, one in enumerate(possible)
    ]
    tried = await stand.attempt_all(acts)
    missed = {one.condition: why for one in tried if (why := why_unreached(one)) is not None}
    reached = [one for one in tried if one.condition not in missed]
    return reached, (*untried, *(Untried(condition=name, why=why) for name, why in missed.items()))


def _least_load(failed: list[Evidence]) -> float | None:
    loads = [one.load for one in failed]
    known = [load for load in loads if load is not None]
    return min(known) if known and len(known) == len(loads) else None


def is_comparable(evidence: Evidence) -> bool:
    """Whether it is a passing attempt whose files may be compared with others'."""
    return evidence.stage == "solvable" and evidence.passes and evidence.condition != OTHER_USER


def noise_of(tried: list[Evidence]) -> frozenset[str]:
    """The paths in which passing attempts differ from each other: what the solution does not decide alone. Files of
    another user differ in their owner, which says nothing of the solution."""
    passed = [one for one in tried if is_comparable(one)]
    reference = next((one for one in passed if one.condition == PLAIN.name), None)
    if reference is None:
        return frozenset()
    return frozenset(path for one in passed for path in differences(one.state, reference.state))


def wilson(count: int, total: int) -> tuple[float, float]:
    """Wilson's interval of a proportion at 95 %; everything where nothing was tried."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = count / total, Z * Z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def _why(evidence: Evidence) -> str:
    bad = [name for name, state in evidence.tests.items() if state not in ("passed", "xfailed")]
    reward = evidence.gradings[0].reward if evidence.gradings else None
    part = f"it earns {reward:g} of 1; " if reward else ""
    if bad:
        return f"{part}not passed: {', '.join(bad[:5])}"
    return part + evidence.message
