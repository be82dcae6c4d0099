"""The planted defects: the battery names each, and finds nothing in the task they were made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proof.planted import GOOD, PLANTED, Planted

if TYPE_CHECKING:
    from proof.conftest import Prover

pytestmark = pytest.mark.needs("user-namespaces", "python3")

EXPLOITS = ("module-shadow", "conftest-workdir", "outputs-empty", "program-succeeds", "truth-scan", "checker-replaced")
IN_CI = (
    "wants-one-order",
    "grader-in-the-image",
    "a-small-answer-by-its-name",
    "missing-is-fine",
    "solution-in-the-image",
    "instruction-is-a-recipe",
    "needs-a-host-name",
)


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 25
    assert len({one.name for one in PLANTED}) == len(PLANTED)
    assert {one.name for one in PLANTED} >= set(IN_CI)


async def test_the_good_task_has_no_fault(prover: Prover) -> None:
    proof = await prover.prove(prover.task(GOOD), attempts=3, mutants=16, exploits=EXPLOITS)
    assert [f"{fault.rule}: {fault.message}" for fault in proof.faults] == []
    assert proof.letter == "A"


async def _check(prover: Prover, planted: Planted) -> None:
    attempts = 12 if "flaky" in planted.rules else 3
    mutants = 40 if planted.rules == {"weak-tests"} else 1
    exploits = EXPLOITS if "hackable" in planted.rules else ()
    proof = await prover.prove(prover.task(planted.made), attempts=attempts, mutants=mutants, exploits=exploits)
    assert planted.rules & {fault.rule for fault in proof.faults}, [*proof.faults]


@pytest.mark.parametrize("planted", [one for one in PLANTED if one.name in IN_CI], ids=lambda one: one.name)
async def test_a_planted_fault_is_named(prover: Prover, planted: Planted) -> None:
    await _check(prover, planted)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("planted", [one for one in PLANTED if one.name not in IN_CI], ids=lambda one: one.name)
async def test_every_planted_fault_is_named(prover: Prover, planted: Planted) -> None:
    await _check(prover, planted)
