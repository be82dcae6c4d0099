"""The trials that a task must stand: AllPassing, Nop and Partial, as TerminalWorld names them, and Equivalence."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from pydantic import BaseModel, ConfigDict

from termarena.core.errors import RecordingRefused
from termarena.forge.bench import SERVES
from termarena.forge.facts import leaves_the_same, state_of
from termarena.proof.constants import evenly
from termarena.proof.mutants import mutants_of
from termarena.proof.variants import variants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from termarena.forge.bench import Bench, Graded
    from termarena.forge.draft import Draft
    from termarena.forge.facts import Fact
    from termarena.grading import Verdict

__all__ = ["Proof", "Trial", "prove"]

GATE: Final = "prove"
ORACLE_RUNS: Final = 3
MOST_PARTIALS: Final = 48
MOST_EQUIVALENTS: Final = 6
_FILES: Final = frozenset(
    {
        "text",
        "json_value",
        "csv_rows",
        "ini_sections",
        "digest",
        "compressed_text",
        "archive_members",
        "yaml_value",
        "cron_jobs",
    }
)


class Trial(BaseModel):
    """One script that was graded, and whether the tests said what they had to say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["AllPassing", "Nop", "Partial", "Equivalence"]
    variant: str = ""
    """Of a partial solution what is wrong with it, of an equivalent one what is different about it."""
    holds: bool
    is_equal: bool = False
    """A partial solution that passes because it leaves what the whole one leaves: no test could tell it, so it does not
    count."""
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
        partial = [trial.holds for trial in self.trials if trial.kind == "Partial" and not trial.is_equal]
        return sum(partial) / len(partial) if partial else 0.0

    @property
    def broken(self) -> tuple[Trial, ...]:
        """The trials that did not hold."""
        return tuple(trial for trial in self.trials if not trial.holds and not trial.is_equal)

    @property
    def told(self) -> str:
        """How the trials went, each by its name, in one line."""
        words = (("AllPassing", "pass"), ("Nop", "fails every test"), ("Partial", "fail"), ("Equivalence", "pass"))
        return ", ".join(f"{kind}: {self._counted(kind)} {ends}" for kind, ends in words if self._counted(kind))

    def _counted(self, kind: str) -> str:
        found = [trial.holds for trial in self.trials if trial.kind == kind and not trial.is_equal]
        return f"{sum(found)} of {len(found)}" if found else ""


async def prove(bench: Bench, folder: Path, draft: Draft, facts: Sequence[Fact], *, logs: Path) -> Proof:
    """Grade the whole solution three times, nothing at all, every mechanical part of it, and others that are as right.

    Raises `RecordingRefused` (gate `prove`) where the tests give no verdict: that is no failure of a solution.
    """
    task, state = await bench.start_state(folder)

    is_live = any(fact.probe == SERVES for fact in facts)

    async def graded(script: str | None, name: str) -> Graded:
        await asyncio.to_thread((logs / name).mkdir, parents=True)
        return _with_verdict(await bench.grade((task, state), script, logs / name, is_live=is_live))

    whole = [await graded(draft.solution, f"whole-{n}") for n in range(ORACLE_RUNS)]
    trials = [_all_passing(one.verdict) for one in whole]
    trials.append(_nop((await graded(None, "nop")).verdict))
    states = [state_of(one.changes) for one in whole]
    for number, (variant, script) in enumerate(partials(draft, facts)):
        trials.append(_partial(await graded(script, f"partial-{number}"), variant, states))
    for number, (variant, script) in enumerate(equivalents(draft)):
        verdict = (await graded(script, f"equivalent-{number}")).verdict
        trials.append(Trial(kind="Equivalence", variant=variant, holds=verdict.is_pass, **_named(verdict)))
    return Proof(trials=tuple(trials))


def _with_verdict(found: Graded) -> Graded:
    if found.verdict.reward is None:
        said = found.verdict.fault.message if found.verdict.fault else "no reward"
        raise RecordingRefused(GATE, f"the tests gave no verdict: {said}")
    return found


def _all_passing(verdict: Verdict) -> Trial:
    return Trial(kind="AllPassing", holds=verdict.is_pass and bool(verdict.tests), **_named(verdict))


def _nop(verdict: Verdict) -> Trial:
    """Every single test must fail: one that passes where nothing was done says nothing."""
    named = _named(verdict)
    return Trial(kind="Nop", holds=not named["passed"] and bool(named["failed"]), **named)


def _partial(found: Graded, variant: str, whole: Sequence[Mapping[str, str]]) -> Trial:
    is_equal = found.verdict.is_pass and leaves_the_same(state_of(found.changes), whole)
    holds = not found.verdict.is_pass
    return Trial(kind="Partial", variant=variant, holds=holds, is_equal=is_equal, **_named(found.verdict))


class _Named(TypedDict):
    passed: tuple[str, ...]
    failed: tuple[str, ...]


def _named(verdict: Verdict) -> _Named:
    passed = tuple(test.name for test in verdict.tests if test.state == "passed")
    return {"passed": passed, "failed": tuple(test.name for test in verdict.tests if test.state != "passed")}


def partials(draft: Draft, facts: Sequence[Fact]) -> tuple[tuple[str, str], ...]:
    """The solution with one thing wrong, by every mutation there is, and each result emptied at the end."""
    found = {one.script: f"{one.operator}: {one.what}" for one in mutants_of(draft.solution)}
    for path in dict.fromkeys(fact.path for fact in facts if fact.probe in _FILES and fact.value):
        found.setdefault(f"{draft.solution}: > {shlex.quote(path)}\n", f"emptied: {path} at the end")
    return evenly([(variant, script) for script, variant in found.items()], MOST_PARTIALS)


def equivalents(draft: Draft) -> tuple[tuple[str, str], ...]:
    """Solutions that are just as right; not those that leave other permissions, which instructions state exactly."""
    found = [one for one in variants_of(draft.solution) if one.name != "other-umask" and "chmod" not in one.what]
    return evenly([(f"{one.name}: {one.what}", one.script) for one in found], MOST_EQUIVALENTS)
