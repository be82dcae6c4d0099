"""Stage 4: a solution that does the same in another way passes too."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from termarena.proof.discriminating import grading_for, oracle_with
from termarena.proof.evidence import Evidence, Frozen
from termarena.proof.exploit import paths_in
from termarena.proof.mutants import with_file
from termarena.proof.spoiled import Spoiled, asked_for
from termarena.proof.stand import Act
from termarena.proof.variants import variants_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.proof.stand import Stand
    from termarena.tasks.model import Task

__all__ = ["Equivalent", "Refused", "prove_equivalent"]

MOST: Final = 8
LISTS: Final = ("txt", "list", "jsonl", "tsv")
"""Endings of files whose lines may be of any order."""
_ANY_ORDER: Final = re.compile(
    r"\b(?:in )?any order\b|order (?:does not|doesn't|is not|need not) (?:matter|important|be)|no particular order|"
    r"regardless of (?:the )?order|unordered",
    re.IGNORECASE,
)
# Every text file that the instruction names, its lines the other way round.
_REVERSED: Final = 'sed -n "1!G;h;\\$p" "$1" >"$1.new" && cat "$1.new" >"$1"; rm -f "$1.new"'
_NEW_FILE: Final = 'cp -p "$1" "$1.new" && mv -f "$1.new" "$1"'


class Refused(Frozen):
    """A solution that is right and does not pass."""

    name: str
    what: str
    tests: tuple[str, ...] = ()
    """Those that did not pass, where they are known."""


class Equivalent(Frozen):
    """How many solutions that mean the same pass."""

    variants: int
    passes: int
    refused: tuple[Refused, ...] = ()


async def prove_equivalent(
    stand: Stand, solved: Evidence, *, noise: frozenset[str]
) -> tuple[Equivalent, list[Evidence]]:
    """Try variants of the solution; `solved` is a passing attempt of it."""
    acts = await asyncio.to_thread(lambda: list(_acts(stand.task, solved, noise))[:MOST])
    tried = await stand.attempt_all([act for act, _ in acts])
    scored = [(act, what, one) for (act, what), one in zip(acts, tried, strict=True) if one.outcome != "unscored"]
    refused = tuple(Refused(name=act.name, what=what, tests=_bad(one)) for act, what, one in scored if not one.passes)
    return Equivalent(variants=len(scored), passes=len(scored) - len(refused), refused=refused), tried


def _bad(evidence: Evidence) -> tuple[str, ...]:
    return tuple(name for name, state in evidence.tests.items() if state not in ("passed", "xfailed"))


def _acts(task: Task, solved: Evidence, noise: frozenset[str]) -> Iterator[tuple[Act, str]]:
    for name, what, script in _afterwards(task, solved, noise):
        yield Act("equivalent", name, script, partial(Spoiled, script=script)), what
    solution = task.solution
    entry = solution.files.get(solution.entry or "") if solution is not None and not task.steps else None
    if solution is None or entry is None or not entry.path.endswith(".sh"):
        return
    for variant in variants_of(entry.read().decode("utf-8", "surrogateescape")):
        made = oracle_with(with_file(solution, entry, variant.script))
        name = f"{variant.name}: {variant.what}"
        yield Act("equivalent", name, variant.script, made, grading=grading_for(task)), variant.what


def _afterwards(task: Task, solved: Evidence, noise: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """What may be done to the outputs that the instruction names without making them wrong."""
    paths = asked_for(task, solved.state, noise=noise)
    if not paths:
        return
    words = " ".join(f"'{path}'" for path in paths if "'" not in path)
    every = f'for path in {words}; do set -- "$path"; %s; done\n'
    yield "new-files", "the outputs are other files with the same content", every % _NEW_FILE
    if texts := [path for path in _of_any_order(task) if path in paths]:
        script = "".join(f"set -- '{path}'\n{_REVERSED}\n" for path in texts)
        yield "other-order", f"the lines of {texts[0]} the other way round, as the instruction allows", script


def _of_any_order(task: Task) -> Iterator[str]:
    """The lists that a paragraph of the instruction names together with words like `in any order`."""
    for paragraph in task.instruction.split("\n\n"):
        if _ANY_ORDER.search(paragraph):
            yield from (path for path in paths_in(paragraph) if path.rpartition("/")[2].partition(".")[2] in LISTS)
