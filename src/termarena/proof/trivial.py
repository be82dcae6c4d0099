"""Stage 2: doing nothing fails, and every single test that does not notice it is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.agents.nop import Nop
from termarena.proof.evidence import Evidence, Frozen
from termarena.proof.stand import Act

if TYPE_CHECKING:
    from termarena.proof.stand import Stand

__all__ = ["Trivial", "prove_not_trivial"]


class Trivial(Frozen):
    """What doing nothing earns."""

    passes: bool
    is_scored: bool
    """Whether the tests gave a verdict on the start state at all."""
    reward: float | None
    tests: int
    """How many single tests are known by name; 0 where the task does not tell them."""
    passing_tests: tuple[str, ...] = ()
    """Those that pass with nothing done: guards, or tests that say nothing."""


async def prove_not_trivial(stand: Stand) -> tuple[Trivial, list[Evidence]]:
    """Grade the start state."""
    tried = await stand.attempt(Act("trivial", "nop", "", lambda _task: Nop()))
    found = Trivial(
        passes=tried.passes,
        is_scored=tried.outcome != "unscored",
        reward=tried.gradings[0].reward if tried.gradings else None,
        tests=len(tried.tests),
        passing_tests=tuple(name for name, state in tried.tests.items() if state == "passed"),
    )
    return found, [tried]
