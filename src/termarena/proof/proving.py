"""Proving tasks: the battery on each, the drivers that they need, the files that come of it."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from termarena.core.errors import TermArenaError
from termarena.core.records import write_atomically, write_record
from termarena.core.run_folder import folder_name
from termarena.core.scrub import Scrubber
from termarena.proof.battery import BatteryOptions, prove_task, solution_digest
from termarena.proof.card import card_of
from termarena.proof.html import card_page, summary_page
from termarena.proof.ledger import Ledger
from termarena.proof.radar import sweep
from termarena.proof.report import read_proof, write_proof
from termarena.proof.stand import RUN_ID, Bench, Stand
from termarena.proof.summary import summary_card
from termarena.sandbox.drivers import choose_driver, open_driver
from termarena.sandbox.staging import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from termarena.proof.evidence import Evidence
    from termarena.proof.radar import Sighting
    from termarena.proof.report import Proof
    from termarena.proof.summary import Summary
    from termarena.tasks.model import Task

__all__ = ["ProveOptions", "Proven", "look_again", "prove", "write_summary"]

TASKS_AT_ONCE = 2
"""Their trials share the turns; one alone leaves turns unused whenever a stage ends."""


@dataclass(frozen=True, slots=True)
class ProveOptions:
    """What is proven how, and where it is kept."""

    home: Path
    driver: str = "auto"
    jobs: int = 0
    """Trials at once; 0 is as many as there are processors."""
    is_cached: bool = True
    battery: BatteryOptions = field(default_factory=BatteryOptions)
    on_trial: Callable[[Task, Evidence], None] = lambda _task, _evidence: None


@dataclass(frozen=True, slots=True)
class Proven:
    """What came of one task: a proof, or the error that kept it from being tried."""

    task: Task
    proof: Proof | None
    error: TermArenaError | None = None


async def prove(
    tasks: Sequence[Task], options: ProveOptions, *, out: Path | None = None, on_proof: Callable[[Proven], None]
) -> list[Proven]:
    """Prove tasks, in their order; each proof is written below `out` as soon as it is there.

    A task that cannot be tried here does not stop the others. Raises `OSError`, `MissingExtra`, and `CancelledError`
    after everything has been stopped: what was tried by then is kept.
    """
    async with _benches(options) as bench_of:
        turns = asyncio.Semaphore(TASKS_AT_ONCE)

        async def one(task: Task) -> Proven:
            async with turns:
                proven = await _prove_one(task, bench_of, options)
            if proven.proof is not None and out is not None:
                await asyncio.to_thread(_write, proven.proof, out)
            on_proof(proven)
            return proven

        jobs = [asyncio.create_task(one(task)) for task in tasks]
        try:
            return list(await asyncio.gather(*jobs))
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)


async def _prove_one(task: Task, bench_of: Callable[[Task], Bench], options: ProveOptions) -> Proven:
    cache = options.home / "proofs" if options.is_cached else None
    try:
        return Proven(task, await prove_task(task, bench_of(task), options.battery, cache=cache))
    except TermArenaError as error:
        return Proven(task, None, error)


def _write(proof: Proof, out: Path) -> None:
    folder = out / folder_name(proof.task_id)
    folder.mkdir(parents=True, exist_ok=True)
    write_proof(folder / "proof.json", proof)
    write_atomically(folder / "card.md", card_of(proof).encode())
    write_atomically(folder / "card.html", card_page(proof).encode())


def write_summary(summary: Summary, out: Path) -> None:
    """Write the summary of a dataset beside its proofs: `summary.json`, `.md` and `.html`. Raises `OSError`."""
    out.mkdir(parents=True, exist_ok=True)
    write_record(out / "summary.json", "proof-summary", summary.model_dump(mode="json"))
    write_atomically(out / "summary.md", summary_card(summary).encode())
    write_atomically(out / "summary.html", summary_page(summary).encode())


async def look_again(
    tasks: Sequence[Task], options: ProveOptions, *, out: Path, on_sighting: Callable[[Sighting], None]
) -> list[Sighting | Proven]:
    """The radar: run the solution of every task once more, and compare with the proofs below `out`.

    Nothing that was found before is used, and nothing is written. A task that cannot be tried is a `Proven` with its
    error.
    """

    async def one(task: Task, bench_of: Callable[[Task], Bench]) -> Sighting | Proven:
        path = out / folder_name(task.id) / "proof.json"
        try:
            last = await asyncio.to_thread(read_proof, path) if path.is_file() else None
            solution = await asyncio.to_thread(solution_digest, task)
            sighting = await sweep(Stand(task, bench_of(task), Ledger(None)), last, solution=solution)
        except TermArenaError as error:
            return Proven(task, None, error)
        on_sighting(sighting)
        return sighting

    async with _benches(options) as bench_of:
        return list(await asyncio.gather(*(one(task, bench_of) for task in tasks)))


@asynccontextmanager
async def _benches(options: ProveOptions) -> AsyncIterator[Callable[[Task], Bench]]:
    """Benches by task: one per driver, opened when first needed and closed at the end."""
    opened: dict[str, Bench] = {}
    turns = asyncio.Semaphore(options.jobs or os.cpu_count() or 1)
    scrubber = Scrubber.from_environment(os.environ)

    def bench_of(task: Task) -> Bench:
        name = choose_driver(options.driver, task.environment, home=options.home).name
        if name not in opened:
            driver = open_driver(name, home=options.home, run_id=RUN_ID, on_log=None)
            opened[name] = Bench(driver, Stage(driver), scrubber, turns, options.on_trial)
        return opened[name]

    try:
        yield bench_of
    finally:
        for bench in opened.values():
            await bench.stage.aclose()
            await bench.driver.aclose()
