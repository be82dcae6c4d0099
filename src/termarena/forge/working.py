"""A whole folder of recordings: each made or refused, its outcome in the ledger; what is there is not made twice."""

from __future__ import annotations

import asyncio
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.core.errors import RecordingRefused
from termarena.forge.bench import Bench
from termarena.forge.ledger import Outcome, key_of
from termarena.forge.making import Making, MakingConfig, evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from termarena.forge.ledger import Ledger, State
    from termarena.forge.transcript import Transcript
    from termarena.sandbox import Driver

__all__ = ["Order", "work"]

BLOCKED: Final = "taken down: it does not come back"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be made, where to, and how many at once."""

    transcripts: Sequence[Transcript]
    out: Path
    config: MakingConfig
    slots: int = 2


async def work(order: Order, ledger: Ledger, driver: Driver, on_outcome: Callable[[Outcome, bool], None]) -> None:
    """Make every recording of the order; `on_outcome` gets each outcome, and whether it was in the ledger already.

    A recording that fails for reasons of ours is `failed` and stops no other one. Cancelling leaves what has an outcome
    in the ledger: the same order goes on from there.
    """
    room = asyncio.Semaphore(order.slots)
    async with Bench(driver) as bench, asyncio.TaskGroup() as group:
        for transcript in order.transcripts:
            known = ledger.known(transcript.digest, key_of(transcript, order.config))
            if known is not None and _still_stands(known):
                on_outcome(known, True)  # noqa: FBT003 - the callback's own words
            elif ledger.is_blocked(transcript.digest):
                on_outcome(_outcome(transcript, order, "refused", ("takedown", BLOCKED)), True)  # noqa: FBT003 - as above
            else:
                group.create_task(_one(transcript, order, _Place(ledger, bench, room), on_outcome))


def _still_stands(known: Outcome) -> bool:
    return known.folder is None or Path(known.folder).is_dir()


@dataclass(frozen=True, slots=True)
class _Place:
    ledger: Ledger
    bench: Bench
    room: asyncio.Semaphore


async def _one(
    transcript: Transcript, order: Order, place: _Place, on_outcome: Callable[[Outcome, bool], None]
) -> None:
    async with place.room:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="termarena-forge-", ignore_cleanup_errors=True) as workspace:
            making = Making(
                transcript, place.bench, Path(workspace), order.config, place.ledger.folder / "repositories"
            )
            folder, found = None, evidence(making)
            try:
                folder = await making.make(order.out.absolute())
                state, why = _ADMITTED
            except RecordingRefused as refused:
                state, why = "refused", (refused.gate, refused.reason)
            except Exception as error:  # noqa: BLE001 - the border of one recording: no other one is to suffer from it
                state, why = "failed", (type(error).__name__, str(error)[:500])
                found["traceback"] = traceback.format_exc()
            found = {**found, **evidence(making), "state": state, "gate": why[0], "reason": why[1]}
        outcome = _outcome(transcript, order, state, why)._replace(
            title=found["title"],
            task_id=found["task_id"] if folder else None,
            folder=str(folder) if folder else None,
            fidelity=found["fidelity"],
            mutation_score=found["mutation_score"],
            took_s=round(time.monotonic() - began, 3),
            evidence=place.ledger.keep(found),
        )
        place.ledger.write(outcome)
    on_outcome(outcome, False)  # noqa: FBT003 - as above


_ADMITTED: Final[tuple[State, tuple[str, str]]] = ("admitted", ("prove", "all three trials hold"))


def _outcome(transcript: Transcript, order: Order, state: State, why: tuple[str, str]) -> Outcome:
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 10**6:06}Z"
    key = key_of(transcript, order.config)
    names = (transcript.digest, key, transcript.source, "")
    return Outcome(*names, state, *why, None, None, None, None, 0.0, "", now)
