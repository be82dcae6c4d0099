"""The three trials that a task must stand: AllPassing, Nop and Partial, as TerminalWorld names them."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict

from termarena.core.errors import RecordingRefused
from termarena.forge.script import solution_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from termarena.forge.bench import Bench
    from termarena.forge.draft import Draft
    from termarena.forge.facts import Fact
    from termarena.grading import Verdict
    from termarena.sandbox.staging import StartState
    from termarena.tasks.model import Task

__all__ = ["Proof", "Trial", "prove"]

GATE: Final = "prove"
ORACLE_RUNS: Final = 3
MOST_PARTIALS: Final = 60
_FILES: Final = frozenset(
    {"text", "json_value", "csv_rows", "ini_sections", "digest", "compressed_text", "archive_members"}
)


class Trial(BaseModel):
    """One script that was graded, and whether the tests said what they had to say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["AllPassing", "Nop", "Partial"]
    variant: str = ""
    """Of a partial solution: what was left out or spoiled."""
    holds: bool
    passed: tuple[str, ...] = ()
    """The tests that passed."""
    failed: tuple[str, ...] = ()


class Proof(BaseModel):
    """Every trial of a task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trials: tuple[Trial, ...]

    @property
    def mutation_score(self) -> float:
        """The share of partial solutions that the tests tell from the whole one; 0 where there are none."""
        partial = [trial.holds for trial in self.trials if trial.kind == "Partial"]
        return sum(partial) / len(partial) if partial else 0.0

    @property
    def broken(self) -> tuple[Trial, ...]:
        """The trials that did not hold."""
        return tuple(trial for trial in self.trials if not trial.holds)


async def prove(bench: Bench, folder: Path, draft: Draft, facts: Sequence[Fact], *, logs: Path) -> Proof:
    """Grade the whole solution three times, nothing at all, and every mechanical part of the solution.

    Raises `RecordingRefused` (gate `prove`) where the tests give no verdict: that is no failure of a solution.
    """
    task, state = await bench.start_state(folder)
    whole = [await _trial(bench, task, state, draft.solution, logs / f"whole-{n}") for n in range(ORACLE_RUNS)]
    trials = [_all_passing(verdict) for verdict in whole]
    trials.append(_nop(await _trial(bench, task, state, None, logs / "nop")))
    for number, (variant, script) in enumerate(partials(draft, facts)):
        verdict = await _trial(bench, task, state, script, logs / f"partial-{number}")
        trials.append(_partial(verdict, variant))
    return Proof(trials=tuple(trials))


async def _trial(bench: Bench, task: Task, state: StartState, script: str | None, logs: Path) -> Verdict:
    await asyncio.to_thread(logs.mkdir, parents=True)
    verdict = await bench.grade(task, state, script, logs)
    if verdict.reward is None:
        said = verdict.fault.message if verdict.fault else "no reward"
        raise RecordingRefused(GATE, f"the tests gave no verdict: {said}")
    return verdict


def _all_passing(verdict: Verdict) -> Trial:
    return Trial(kind="AllPassing", holds=verdict.is_pass and bool(verdict.tests), **_named(verdict))


def _nop(verdict: Verdict) -> Trial:
    """Every single test must fail: one that passes where nothing was done says nothing."""
    named = _named(verdict)
    return Trial(kind="Nop", holds=not named["passed"] and bool(named["failed"]), **named)


def _partial(verdict: Verdict, variant: str) -> Trial:
    return Trial(kind="Partial", variant=variant, holds=not verdict.is_pass, **_named(verdict))


def _named(verdict: Verdict) -> dict[str, tuple[str, ...]]:
    passed = tuple(test.name for test in verdict.tests if test.state == "passed")
    return {"passed": passed, "failed": tuple(test.name for test in verdict.tests if test.state != "passed")}


def partials(draft: Draft, facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """Each step left out, each beginning of the solution, each result emptied; no script twice."""
    found: dict[str, str] = {}
    for variant, script in _variants(draft, facts):
        if script != draft.solution:
            found.setdefault(script, variant)
    return [(variant, script) for script, variant in found.items()][:MOST_PARTIALS]


def _variants(draft: Draft, facts: Sequence[Fact]) -> Iterator[tuple[str, str]]:
    numbers = [step.number for step in draft.steps if step.changes]
    for step in draft.steps:
        if step.changes:
            yield f"without step {step.number}", solution_script(draft.steps, draft.workdir, without={step.number})
    for end in range(1, len(numbers)):
        left_out = {step.number for step in draft.steps if step.number >= numbers[end]}
        yield f"up to step {numbers[end - 1]}", solution_script(draft.steps, draft.workdir, without=left_out)
    for path in dict.fromkeys(fact.path for fact in facts if fact.probe in _FILES and fact.value):
        yield f"{path} emptied", f"{draft.solution}: > {shlex.quote(path)}\n"
