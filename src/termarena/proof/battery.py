"""The battery: every stage on one task, in an order in which the cheap ones come first."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import termarena
from termarena.core.run_folder import folder_name
from termarena.proof.cost import measure_cost
from termarena.proof.discriminating import prove_discriminating
from termarena.proof.equivalent import prove_equivalent
from termarena.proof.faults import (
    Fault,
    cost_faults,
    hackable_faults,
    leak_faults,
    letter_of,
    over_specified_faults,
    solvable_faults,
    trivial_faults,
    weak_faults,
)
from termarena.proof.further import patience_for
from termarena.proof.hackable import prove_not_hackable
from termarena.proof.leaks import prove_no_leaks
from termarena.proof.ledger import Ledger
from termarena.proof.radar import known_fetches
from termarena.proof.report import Proof
from termarena.proof.solvable import is_comparable, prove_solvable
from termarena.proof.stand import Stand
from termarena.proof.trivial import prove_not_trivial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.proof.cost import Cost
    from termarena.proof.discriminating import Discriminating
    from termarena.proof.equivalent import Equivalent
    from termarena.proof.evidence import Evidence
    from termarena.proof.hackable import Hackable
    from termarena.proof.leaks import Leaks
    from termarena.proof.solvable import Solvable
    from termarena.proof.stand import Bench
    from termarena.proof.trivial import Trivial
    from termarena.tasks.model import Task

__all__ = ["BATTERY", "BatteryOptions", "prove_task", "solution_digest"]

BATTERY: Final = 3
"""Goes up when a trial of the same name is no longer the same trial: evidence of another version is not used."""

DECIDING: Final = ("agents", "grading", "proof", "runs", "sandbox", "shell")
"""Rooms of which a change can change what a trial comes to."""


@dataclass(frozen=True, slots=True)
class BatteryOptions:
    """How much is tried."""

    attempts: int = 5
    """Of the reference solution."""
    mutants: int = 40
    """Of it, at most."""
    mutants_s: float = 40.0
    """For how long mutants are tried, all trials summed; the first dozen end states are graded anyway."""
    exploits: tuple[str, ...] | None = None
    """Only those of these names; None is all."""


class _Findings:
    """What the stages came to so far."""

    def __init__(self) -> None:
        self.solvable: Solvable | None = None
        self.discriminating: Discriminating | None = None
        self.equivalent: Equivalent | None = None
        self.hackable: Hackable | None = None
        self.leaks: Leaks | None = None
        self.cost: Cost | None = None
        self.trivial: Trivial | None = None
        self.fetched: Mapping[str, str] = {}
        self.faults: list[Fault] = []
        self.evidence: list[Evidence] = []


async def prove_task(task: Task, bench: Bench, options: BatteryOptions, *, cache: Path | None = None) -> Proof:
    """Carry out the battery on one task. `cache` is a folder for evidence that lasts: what was tried on the same task
    with the same solution before is not tried again.

    A task that fails is a proof like any other. Raises what making its start state raises, `MissingExtra` without a
    parser for shell scripts, and `OSError`.
    """
    began = time.monotonic()
    solution = await asyncio.to_thread(solution_digest, task)
    ledger = Ledger(cache / ledger_name(task, solution, bench.driver.name) if cache is not None else None)
    stand = Stand(task, bench, ledger)
    found = _Findings()
    await _carry_out(stand, options, found)
    faults = tuple(found.faults)
    return Proof(
        task_id=task.id,
        task_digest=task.digest,
        solution_digest=solution,
        driver=bench.driver.name,
        battery=BATTERY,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 2),
        trials=len(found.evidence),
        trials_run=stand.started,
        letter=letter_of(faults),
        faults=faults,
        solvable=found.solvable,
        trivial=found.trivial,
        discriminating=found.discriminating,
        equivalent=found.equivalent,
        hackable=found.hackable,
        leaks=found.leaks,
        cost=found.cost,
        fetched=found.fetched,
        evidence=tuple(found.evidence),
    )


async def _carry_out(stand: Stand, options: BatteryOptions, found: _Findings) -> None:
    if not _has_solution(stand.task):
        found.faults.append(Fault(rule="no-solution", message="the task's folder holds no script that solves it"))
    else:
        found.solvable, tried = await prove_solvable(stand, options.attempts)
        found.evidence += tried
        found.faults += solvable_faults(found.solvable)
    found.trivial, tried = await prove_not_trivial(stand)
    found.evidence += tried
    found.faults += trivial_faults(found.trivial)
    solved = next((one for one in found.evidence if one.stage == "solvable" and one.passes), None)
    if solved is not None and found.solvable is not None:
        await _judge_tests(stand, options, found, solved)
    if found.trivial.is_scored and not found.trivial.passes:
        passed = [one for one in found.evidence if one.stage == "solvable" and one.passes]
        found.hackable, tried = await prove_not_hackable(
            stand,
            options.exploits,
            nothing=max(found.trivial.reward or 0.0, 0.0),
            patience=patience_for(passed) if passed and not stand.task.steps else None,
        )
        found.evidence += tried
        found.faults += hackable_faults(found.hackable)
    found.fetched = await known_fetches(stand) if solved is not None else {}
    found.leaks = await prove_no_leaks(stand, solved)
    found.faults += leak_faults(found.leaks)
    attempts = [one for one in found.evidence if one.stage == "solvable"]
    found.cost = measure_cost(stand.task, attempts, found.fetched)
    found.faults += cost_faults(found.cost) if found.cost is not None else ()


async def _judge_tests(stand: Stand, options: BatteryOptions, found: _Findings, solved: Evidence) -> None:
    """Whether the tests refuse what is wrong, and nothing else."""
    noise = frozenset(found.solvable.noise) if found.solvable is not None else frozenset()
    passed = [one for one in found.evidence if is_comparable(one) and one is not solved]
    found.discriminating, tried = await prove_discriminating(
        stand, [solved, *passed], noise=noise, most=options.mutants, budget_s=options.mutants_s
    )
    found.evidence += tried
    found.faults += weak_faults(found.discriminating)
    if options.mutants and found.solvable is not None and found.solvable.is_sound:
        found.equivalent, tried = await prove_equivalent(stand, solved, noise=noise)
        found.evidence += tried
        found.faults += over_specified_faults(found.equivalent)


def _has_solution(task: Task) -> bool:
    parts = [step.solution or task.solution for step in task.steps] or [task.solution]
    return all(one is not None and (one.entry is not None or one.keystrokes) for one in parts)


def solution_digest(task: Task) -> str:
    """Of everything that the oracle does. Reads the files."""
    solutions = [task.solution, *(step.solution for step in task.steps)]
    view = [
        {
            "entry": one.entry,
            "files": one.files.digests(),
            "env": dict(one.env),
            "keys": [k.command for k in one.keystrokes],
        }
        if one is not None
        else None
        for one in solutions
    ]
    return hashlib.sha256(json.dumps(view, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()


@cache
def harness_digest() -> str:
    """Of the code that decides what a trial comes to: a grader that learnt something makes old evidence worthless."""
    rooms = Path(termarena.__file__).parent
    hashed = hashlib.sha256()
    for path in sorted(
        path for room in DECIDING for path in (rooms / room).rglob("*") if path.suffix in (".py", ".sh")
    ):
        hashed.update(f"{path.relative_to(rooms)}\0".encode() + path.read_bytes())
    return hashed.hexdigest()


def ledger_name(task: Task, solution: str, driver: str) -> str:
    """The file of a task's evidence: another digest, solution, driver, battery or harness is another file."""
    parts = (str(BATTERY), harness_digest(), task.digest, solution, driver)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    return f"{folder_name(task.id)}-{key}.jsonl"
