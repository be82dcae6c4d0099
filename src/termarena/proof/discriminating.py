"""Stage 3: the tests tell a solution from one that is almost right."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from termarena.agents.oracle import Oracle
from termarena.proof.evidence import Evidence, Frozen, dated_in, differences, undated
from termarena.proof.further import patience_for
from termarena.proof.mutants import ELSEWHERE, mutants_of_solution
from termarena.proof.spoiled import Spoiled, is_spoiling, spoilings
from termarena.proof.stand import Act

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from termarena.agents.contract import Agent
    from termarena.grading.contract import GradingMode
    from termarena.proof.further import Patience
    from termarena.proof.stand import Stand
    from termarena.tasks.model import Solution, Task

__all__ = ["Discriminating", "Survivor", "grading_for", "oracle_with", "prove_discriminating"]

SHOWN_PATHS: Final = 5
LEAST: Final = 12
"""So many different end states are graded however long that takes."""
AHEAD: Final = 8
"""So many are begun before it is known whether they are needed: one that takes long holds up few others."""


class Survivor(Frozen):
    """A solution that is wrong and passes."""

    name: str
    what: str
    """What was wrong with it."""
    paths: tuple[str, ...]
    """Where its end state differs from the solution's; empty where only what ran differs."""
    missing: str
    """What no test asserts."""


class Discriminating(Frozen):
    """How many wrong solutions the tests find out."""

    mutants: int
    """That were tried."""
    left_out: int
    """Further ones that were not tried, for want of time."""
    equal: int
    """That came to the same end state as the solution: no test can tell them apart, so they do not count."""
    repeated: int
    """That came to the same end state as another mutant: counted once."""
    unscored: int
    killed: int
    timed_out: int = 0
    """Of those that were killed, how many took too long."""
    survivors: tuple[Survivor, ...]
    score: float | None
    """Killed, of those that count; None where none does."""
    by_operator: Mapping[str, tuple[int, int]]
    """Killed and counted, by what was made wrong."""
    unread: tuple[str, ...] = ()
    """Outputs that the instruction names and that may hold anything."""


async def prove_discriminating(
    stand: Stand, passed: Sequence[Evidence], *, noise: frozenset[str], most: int, budget_s: float
) -> tuple[Discriminating, list[Evidence]]:
    """Try mutants of the solution: at most so many, beyond the first few for so long. `passed` are tries of it."""
    dated = dated_in([one.state for one in passed])
    noise, solved = noise - dated, _undated(passed[0], dated)
    if not solved.processes_left:
        # Else its files alone are no solution: a server that was never started has them too.
        stand.knows_solved(solved.state, noise=noise, dated=dated)
    patience = None if stand.task.steps else patience_for(passed)
    every = await asyncio.to_thread(lambda: list(_acts(stand.task, solved, noise, patience)))
    chosen = in_turns(every)[:most]
    tried = await _within(stand, [act for act, _ in chosen], budget_s, lambda one: _end(_undated(one, dated), noise))
    seen = [_undated(one, dated) for one in tried]
    return _tallied(chosen[: len(tried)], seen, solved, noise, left_out=len(every) - len(tried)), tried


def _undated(evidence: Evidence, dated: frozenset[str]) -> Evidence:
    return evidence.model_copy(update={"state": undated(evidence.state, dated)})


async def _within(stand: Stand, acts: list[Act], budget_s: float, end: Callable[[Evidence], str]) -> list[Evidence]:
    """The evidence of the first acts, until together they took so long; what was known before counts with the time
    that it took then, so that a second battery tries nothing further."""

    def is_enough(tried: Sequence[Evidence]) -> bool:
        spent_s = sum(one.work_s + one.grade_s for one in tried)
        return spent_s >= budget_s and len(set(map(end, tried))) >= LEAST

    return await stand.attempt_until(is_enough, acts, ahead=AHEAD)


def in_turns(acts: list[tuple[Act, str]]) -> list[tuple[Act, str]]:
    """One of each operator, then the next of each: the first ones say most, should there be no time for all."""
    queues: dict[str, list[tuple[Act, str]]] = {}
    for act, what in acts:
        queues.setdefault(_operator(act), []).append((act, what))
    spread = list(queues.values())
    longest = max(map(len, spread), default=0)
    return [queue[turn] for turn in range(longest) for queue in spread if turn < len(queue)]


def _operator(act: Act) -> str:
    return act.name.split(" ", maxsplit=1)[0]


def grading_for(task: Task) -> GradingMode:
    """Where mutants are graded: a task that wants services is graded beside them, without a sealed grading first."""
    return "live" if task.environment.services and not task.steps else "auto"


def oracle_with(solution: Solution) -> Callable[[Task], Agent]:
    """What makes an oracle that carries out another solution than the task's."""
    return lambda task: Oracle(task.model_copy(update={"solution": solution}))


def _acts(task: Task, solved: Evidence, noise: frozenset[str], patience: Patience | None) -> Iterator[tuple[Act, str]]:
    act = partial(Act, "discriminating", grading=grading_for(task), patience=patience)
    if task.solution is not None and not task.steps:
        for one in mutants_of_solution(task.solution):
            changed = one.solution.files.get(one.file)
            content = changed.sha256() if changed is not None else ""
            made = oracle_with(one.solution)
            yield act(f"{one.name} {one.what}", content, made), one.what
    for spoiling in spoilings(task, solved.state, noise=noise):
        name = f"{spoiling.way} {spoiling.path}"
        made = partial(Spoiled, script=spoiling.script)
        yield act(name, spoiling.script, made), spoiling.what


def _tallied(
    chosen: list[tuple[Act, str]], tried: list[Evidence], solved: Evidence, noise: frozenset[str], *, left_out: int
) -> Discriminating:
    counts: Counter[str] = Counter()
    by_operator: dict[str, tuple[int, int]] = {}
    survivors = []
    seen: set[str] = set()
    for (act, what), evidence in zip(chosen, tried, strict=True):
        verdict = _verdict(evidence, solved, noise)
        if verdict in ("killed", "survived"):
            end = _end(evidence, noise)
            verdict = "repeated" if end in seen else verdict
            seen.add(end)
        counts[verdict] += 1
        counts["timed out"] += verdict == "killed" and evidence.timed_out
        if verdict in ("killed", "survived"):
            operator = _operator(act)
            killed, counted = by_operator.get(operator, (0, 0))
            by_operator[operator] = (killed + (verdict == "killed"), counted + 1)
        if verdict == "survived":
            survivors.append(_survivor(act, what, evidence, solved, noise))
    counted = counts["killed"] + counts["survived"]
    return Discriminating(
        mutants=len(tried),
        left_out=left_out,
        equal=counts["equal"],
        repeated=counts["repeated"],
        unscored=counts["unscored"],
        killed=counts["killed"],
        timed_out=counts["timed out"],
        survivors=tuple(survivors),
        score=counts["killed"] / counted if counted else None,
        by_operator=by_operator,
        unread=tuple(dict.fromkeys(name.partition(" ")[2] for one in survivors if is_spoiling(name := one.name))),
    )


def _end(evidence: Evidence, noise: frozenset[str]) -> str:
    """Everything of an end state that counts, as one text."""
    paths = sorted((path, held) for path, held in evidence.state.items() if path not in noise)
    return f"{evidence.processes_left} {paths}"


def _verdict(evidence: Evidence, solved: Evidence, noise: frozenset[str]) -> str:
    if evidence.outcome == "unscored":
        return "unscored"
    differing = differences(evidence.state, solved.state, noise=noise)
    # What else is there under a name that the mutant alone made up takes nothing away from the solution.
    is_equal = all(path not in solved.state and ELSEWHERE in path for path in differing)
    if is_equal and evidence.processes_left == solved.processes_left:
        return "equal"
    return "survived" if evidence.passes else "killed"


def _survivor(act: Act, what: str, evidence: Evidence, solved: Evidence, noise: frozenset[str]) -> Survivor:
    paths = differences(evidence.state, solved.state, noise=noise)
    return Survivor(name=act.name, what=what, paths=paths[:SHOWN_PATHS], missing=_missing(paths, evidence, solved))


def _missing(paths: tuple[str, ...], evidence: Evidence, solved: Evidence) -> str:
    """The assertion that would have found it out."""
    if not paths:
        return "that the processes which the solution leaves are running"
    path = paths[0]
    ours, theirs = solved.state.get(path), evidence.state.get(path)
    if theirs in (None, "removed") and ours not in (None, "removed"):
        return f"that {path} is there"
    if ours is None or ours == "removed":
        return f"that nothing is at {path}" if ours == "removed" else f"that {path} is as it was"
    if ours.split(" ")[-1] == (theirs or "").split(" ")[-1]:
        return f"the mode and owner of {path}"
    return f"what {path} holds"
