"""The battery on small tasks: what it finds, and what it keeps."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.tasks import Made
from termarena.proof import further
from termarena.proof.card import card_of
from termarena.proof.html import card_page
from termarena.proof.report import read_proof

if TYPE_CHECKING:
    from proof.conftest import Prover

pytestmark = pytest.mark.needs("user-namespaces")

UNIT_TESTS = """\
import unittest
from pathlib import Path


class One(unittest.TestCase):
    def test_the_answer(self):
        self.assertEqual(Path("/app/one.txt").read_text(), "1\\n")

    def test_a_guard(self):
        self.assertTrue(Path("/app").is_dir())
"""
RUN_UNIT_TESTS = """\
#!/bin/sh
if python3 -I -B -m unittest discover -v -s /tests; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""
NAMED = Made(tests=RUN_UNIT_TESTS, files={"tests/test_outputs.py": UNIT_TESTS})


async def test_a_good_task_has_no_fault_and_a_card(prover: Prover) -> None:
    proof = await prover.prove(prover.task(NAMED))
    assert proof.faults == ()
    assert proof.letter == "A"
    assert proof.solvable is not None
    assert (proof.solvable.attempts, proof.solvable.passes) == (2, 2)
    assert proof.trivial is not None
    assert proof.trivial.passing_tests == ("One.test_a_guard",)
    assert proof.discriminating is not None
    assert proof.discriminating.score == 1.0
    assert proof.discriminating.killed >= 4
    folder = prover.folder / "out" / "task"
    assert read_proof(folder / "proof.json") == proof
    assert (folder / "card.md").read_text() == card_of(proof)
    assert "Tests that pass with nothing done:\n\n- One.test_a_guard\n" in card_of(proof)
    assert "<h2>Tests that pass with nothing done</h2><ul><li>One.test_a_guard</li>" in card_page(proof)


async def test_a_solution_that_does_not_solve_is_told(prover: Prover) -> None:
    proof = await prover.prove(prover.task(Made(solution="echo 2 >/app/one.txt\n")))
    assert [fault.rule for fault in proof.faults] == ["unsolvable"]
    assert proof.letter == "F"
    assert proof.discriminating is None


async def test_a_task_that_doing_nothing_solves_is_told(prover: Prover) -> None:
    proof = await prover.prove(prover.task(Made(setup="mkdir -p /app; echo 1 >/app/one.txt\n")), mutants=0)
    assert "trivial" in [fault.rule for fault in proof.faults]
    assert proof.letter == "F"


async def test_a_solution_that_depends_on_the_time_zone_is_fragile(prover: Prover) -> None:
    solution = '[ "$TZ" = Pacific/Chatham ] || echo 1 >/app/one.txt\n'
    proof = await prover.prove(prover.task(Made(solution=solution)), mutants=0)
    assert [fault.rule for fault in proof.faults] == ["fragile"]
    assert "elsewhere" in proof.faults[0].message
    assert proof.letter == "B"


async def test_weak_tests_are_told_with_what_is_missing(prover: Prover) -> None:
    tests = "#!/bin/sh\nif [ -e /app/one.txt ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
    proof = await prover.prove(prover.task(Made(tests=tests)))
    assert [fault.rule for fault in proof.faults] == ["weak-tests"]
    assert proof.discriminating is not None
    assert {one.missing for one in proof.discriminating.survivors} == {"what /app/one.txt holds"}


async def test_an_output_that_is_never_twice_the_same_does_not_hide_weak_tests(prover: Prover) -> None:
    tests = "#!/bin/sh\nif [ -e /app/one.txt ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
    proof = await prover.prove(prover.task(Made(tests=tests, solution="date +%s%N >/app/one.txt\n")))
    assert [fault.rule for fault in proof.faults] == ["weak-tests"]
    assert proof.letter != "A"


async def test_mutants_that_come_to_the_same_are_left_out(prover: Prover) -> None:
    proof = await prover.prove(prover.task(Made(solution="set -u\necho 1 >/app/one.txt\n")))
    assert proof.discriminating is not None
    assert proof.discriminating.equal >= 1
    assert proof.discriminating.score == 1.0


@pytest.mark.timeout(90)
async def test_a_mutant_that_loops_is_given_up_long_before_the_tasks_own_limit(
    prover: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(further, "LEAST_PATIENCE_S", 0.5)
    waiting = "echo 1 >/app/one.txt\nuntil grep -q 1 /app/one.txt; do :; done\n"
    proof = await prover.prove(prover.task(Made(solution=waiting, agent_s=3600.0)), mutants=2)
    assert proof.discriminating is not None
    assert proof.discriminating.score == 1.0
    assert proof.discriminating.timed_out >= 1
    assert "took too long)" in card_of(proof)


async def test_what_was_tried_is_not_tried_again(prover: Prover) -> None:
    prover.options = replace(prover.options, is_cached=True)
    task = prover.task()
    first = await prover.prove(task, mutants=3)
    again = await prover.prove(task, mutants=3)
    assert first.trials_run == first.trials > 5
    assert again.trials_run == 0
    assert again.evidence == first.evidence
    more = await prover.prove(task, attempts=3, mutants=3)
    assert more.trials_run == 1
    other = prover.task(Made(solution="printf '1\\n' >/app/one.txt\n"), name="task-2")
    assert (await prover.prove(other, mutants=3)).trials_run > 5


async def test_a_ledger_that_was_cut_off_is_gone_on_with(prover: Prover) -> None:
    prover.options = replace(prover.options, is_cached=True)
    task = prover.task(name="cut-off")
    whole = await prover.prove(task, mutants=3)
    ledger = next((prover.options.home / "proofs").glob("cut-off-*.jsonl"))
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:3]) + lines[3][:40])
    again = await prover.prove(task, mutants=3)
    assert again.trials_run == whole.trials - 3
    assert (await prover.prove(task, mutants=3)).trials_run == 0


KILLED_AT_ITS_FOURTH_TRIAL = """\
import asyncio, os, signal, sys
from pathlib import Path

from termarena.proof.battery import BatteryOptions
from termarena.proof.proving import ProveOptions, prove
from termarena.tasks import load_task

tried = []


def die(task, evidence):
    tried.append(evidence)
    if len(tried) == 4:
        os.kill(os.getpid(), signal.SIGKILL)


battery = BatteryOptions(attempts=2, mutants=3, exploits=())
options = ProveOptions(home=Path(sys.argv[1]), driver="namespace", battery=battery, on_trial=die)
asyncio.run(prove([load_task(Path(sys.argv[2]))], options, on_proof=print))
"""


async def test_a_battery_whose_process_was_killed_goes_on_and_tries_only_what_is_missing(prover: Prover) -> None:
    prover.options = replace(prover.options, is_cached=True)
    task = prover.task(name="killed")
    words = [sys.executable, "-c", KILLED_AT_ITS_FOURTH_TRIAL, str(prover.options.home), str(prover.folder / "killed")]
    killed = await asyncio.create_subprocess_exec(*words)
    assert await killed.wait() == -signal.SIGKILL
    ledger = next((prover.options.home / "proofs").glob("killed-*.jsonl"))
    known = [json.loads(line) for line in ledger.read_text().splitlines(keepends=True) if line.endswith("\n")]
    assert len(known) >= 4
    proof = await prover.prove(task, mutants=3)
    assert proof.trials_run == proof.trials - len(known) > 0
    assert {one["key"] for one in known} <= {one.key for one in proof.evidence}
    assert (proof.letter, proof.faults) == ("A", ())


async def test_a_task_without_a_solution_is_told(prover: Prover) -> None:
    task = prover.task().model_copy(update={"solution": None})
    proof = await prover.prove(task)
    assert [fault.rule for fault in proof.faults] == ["no-solution"]
