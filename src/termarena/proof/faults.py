"""Faults: what the battery holds against a task, each with its evidence in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from termarena.proof.evidence import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.proof.cost import Cost
    from termarena.proof.discriminating import Discriminating
    from termarena.proof.equivalent import Equivalent
    from termarena.proof.hackable import Hackable
    from termarena.proof.leaks import Leaks
    from termarena.proof.solvable import Solvable
    from termarena.proof.trivial import Trivial

__all__ = [
    "RULES",
    "Fault",
    "Letter",
    "cost_faults",
    "hackable_faults",
    "leak_faults",
    "letter_of",
    "over_specified_faults",
    "solvable_faults",
    "trivial_faults",
    "weak_faults",
]

Letter = Literal["A", "B", "C", "D", "F"]

RULES: Final[dict[str, str]] = {
    "no-solution": "there is no reference solution to prove anything with",
    "unsolvable": "the reference solution never passes",
    "flaky": "the reference solution passes sometimes",
    "fragile": "the reference solution fails where the machine differs in what should make no difference",
    "trivial": "doing nothing passes",
    "weak-tests": "wrong solutions pass",
    "over-specified": "solutions that mean the same do not pass",
    "leak": "an agent can find the solution, the tests or the answers",
    "tight-limits": "the solution itself hardly fits into the limits",
    "hackable": "an exploit earns a reward, or fools the tests where another way to run them would not be fooled",
    "grader-broken": "the tests give no verdict on the start state",
}
LEAST_SCORE: Final = 0.8
BUSY: Final = 4.0
"""Programs per processor from which on a failure that comes and goes may be theirs."""
MOST_LEAKS: Final = 5
_GRAVE: Final = frozenset({"no-solution", "unsolvable", "trivial", "grader-broken"})
_LIGHT: Final = frozenset({"fragile", "tight-limits"})


class Fault(Frozen):
    """One thing that is wrong with a task."""

    rule: str
    """One of `RULES`."""
    message: str


def letter_of(faults: tuple[Fault, ...]) -> Letter:
    """The grade: A without a fault, B with a light one, C with a heavy one or two light ones, D with more; F where the
    task cannot measure anything."""
    kinds = {fault.rule for fault in faults}
    if kinds & _GRAVE:
        return "F"
    weight = sum(1 if rule in _LIGHT else 2 for rule in kinds)
    order: tuple[Letter, ...] = ("A", "B", "C", "D")
    return order[min(weight, 3)]


def solvable_faults(found: Solvable) -> Iterator[Fault]:
    """What stage 1 holds against the task."""
    if found.passes == 0:
        yield Fault(rule="unsolvable", message=f"0 of {found.attempts} attempts passed; {found.message}")
    elif found.failed_conditions and "plain" not in found.failed_conditions:
        conditions = ", ".join(found.failed_conditions)
        yield Fault(rule="fragile", message=f"fails under the condition {conditions}; {found.message}")
    elif not found.is_sound and found.load is not None and found.load > BUSY:
        told = f"{found.passes} of {found.attempts} attempts passed on a busy machine"
        yield Fault(rule="fragile", message=f"{told} ({found.load:g} programs per processor); {found.message}")
    elif not found.is_sound:
        message = f"{found.passes} of {found.attempts} attempts passed; {found.message}"
        yield Fault(rule="flaky", message=message)


def trivial_faults(found: Trivial) -> Iterator[Fault]:
    """What stage 2 holds against the task."""
    if not found.is_scored:
        yield Fault(rule="grader-broken", message="without a solution the tests leave no result")
    elif found.passes:
        yield Fault(rule="trivial", message=f"doing nothing earns {found.reward}")


def weak_faults(found: Discriminating) -> Iterator[Fault]:
    """What stage 3 holds against the task."""
    if found.score is not None and found.score < LEAST_SCORE:
        first = "; ".join(f"{one.what}: no test asserts {one.missing}" for one in found.survivors[:2])
        counted = found.killed + len(found.survivors)
        yield Fault(rule="weak-tests", message=f"{found.killed} of {counted} wrong solutions are found out; {first}")
    elif found.score is None and (found.mutants or not found.left_out):
        message = f"unknown: of {found.mutants} wrong solutions none came to another end and was judged"
        yield Fault(rule="weak-tests", message=message)
    elif found.unread:
        yield Fault(rule="weak-tests", message=f"no test looks at what is in {', '.join(found.unread)}")


def hackable_faults(found: Hackable) -> Iterator[Fault]:
    """What stage 5 holds against the task."""
    if found.holes:
        names = ", ".join(one.name for one in found.holes)
        yield Fault(rule="hackable", message=f"{len(found.holes)} of {found.tried} exploits: {names}")


def over_specified_faults(found: Equivalent) -> Iterator[Fault]:
    """What stage 4 holds against the task."""
    if found.refused:
        first = found.refused[0]
        tests = f" ({', '.join(first.tests[:3])})" if first.tests else ""
        message = f"{len(found.refused)} of {found.variants} variants do not pass: {first.what}{tests}"
        yield Fault(rule="over-specified", message=message)


def leak_faults(found: Leaks) -> Iterator[Fault]:
    """What stage 6 holds against the task."""
    for leak in found.leaks[:MOST_LEAKS]:
        yield Fault(rule="leak", message=f"{leak.where} {leak.what} ({leak.kind})")


def cost_faults(found: Cost) -> Iterator[Fault]:
    """What stage 7 holds against the task."""
    for limit in found.tight:
        yield Fault(rule="tight-limits", message=limit)
