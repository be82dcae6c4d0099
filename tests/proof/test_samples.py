"""The bundled samples under the battery: one of them here, all of them in `make soak`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from termarena.proof.battery import BatteryOptions
from termarena.proof.proving import prove
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from proof.conftest import Prover
    from termarena.proof.report import Proof

TASKS = {task.id.removeprefix("termarena/"): task for task in load_dataset("samples")}


async def _proof_of(prover: Prover, name: str, battery: BatteryOptions) -> Proof:
    proven = await prove([TASKS[name]], replace(prover.options, battery=battery), on_proof=lambda _: None)
    assert proven[0].proof is not None, proven[0].error
    return proven[0].proof


@pytest.mark.needs("user-namespaces")
async def test_the_smallest_sample_is_proven(prover: Prover) -> None:
    names = ("reward-early", "reward-symlink", "tests-planted", "outputs-empty", "shell-replaced", "reward-daemon")
    proof = await _proof_of(prover, "hello-world", BatteryOptions(attempts=3, exploits=names))
    assert [f"{fault.rule}: {fault.message}" for fault in proof.faults] == []
    assert proof.discriminating is not None
    assert proof.discriminating.score == 1.0
    assert proof.equivalent is not None
    assert proof.equivalent.passes == proof.equivalent.variants >= 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TASKS)
async def test_every_sample_is_proven(prover: Prover, name: str) -> None:
    bare = TASKS[name].environment.bare
    assert bare is not None
    proof = await _proof_of(prover, name, BatteryOptions())
    assert [f"{fault.rule}: {fault.message}" for fault in proof.faults] == []
    assert proof.solvable is not None
    assert proof.solvable.is_sound
    assert proof.solvable.attempts >= 5
    assert proof.discriminating is not None
    assert proof.discriminating.score is not None
    assert proof.discriminating.score >= 0.9
    assert proof.hackable is not None
    assert proof.hackable.sealed == 0.0
