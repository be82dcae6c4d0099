"""A whole folder of recordings: each made or refused, its outcome in the ledger; what is there is not made twice."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import RecordingRefused, TermArenaError
from termarena.forge.bench import Bench
from termarena.forge.intake import Unreadable
from termarena.forge.ledger import Outcome, key_of, key_of_unreadable
from termarena.forge.making import Making, MakingConfig, evidence, put_in_place
from termarena.forge.screening.likeness import Likeness, similarity, sketch_of
from termarena.forge.spans import spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from termarena.forge.assisting import Assistant
    from termarena.forge.ledger import Ledger, State
    from termarena.forge.screening.likeness import Sketch
    from termarena.forge.transcript import Transcript
    from termarena.sandbox import Driver

__all__ = ["Order", "work"]

BLOCKED: Final = "taken down: it does not come back"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be made, where to, and how many at once."""

    recordings: Iterable[Transcript | Unreadable]
    """Taken one by one, as there is room: none is held longer than it is worked on."""
    out: Path
    config: MakingConfig
    slots: int = 2
    assistant: Callable[[], Assistant] | None = None
    """A new one for each recording, where a model is asked."""


async def work(order: Order, ledger: Ledger, driver: Driver, on_outcome: Callable[[Outcome, bool], None]) -> None:
    """Make every recording of the order; `on_outcome` gets each outcome, and whether it was in the ledger already.

    A recording that fails for reasons of ours is `failed` and stops no other one. Cancelling leaves what has an outcome
    in the ledger: the same order goes on from there. Raises what reading the recordings raises.
    """
    began = time.monotonic()
    async with Bench(driver) as bench:
        shop = _Shop(order, ledger, bench, on_outcome)
        async with asyncio.TaskGroup() as group:
            for _ in range(order.slots):
                group.create_task(shop.take_turns())
    ledger.note_run(recordings=shop.taken, known=shop.known, took_s=time.monotonic() - began)
    if shop.failure is not None:
        raise shop.failure


class _Shop:
    """One order in the works: whoever has a hand free takes the next recording."""

    def __init__(self, order: Order, ledger: Ledger, bench: Bench, on_outcome: Callable[[Outcome, bool], None]) -> None:
        self.order, self.ledger, self.bench, self.on_outcome = order, ledger, bench, on_outcome
        self.out = order.out.absolute()
        self.taken = self.known = 0
        self.failure: TermArenaError | OSError | None = None
        self._next = iter(order.recordings)
        self._turn = asyncio.Lock()
        self._alike = Likeness(order.config.screen.near_duplicate)
        self._sources: dict[str, str] = {}
        self._under_way: dict[str, tuple[Sketch, asyncio.Event]] = {}
        for recording, source, sketch in ledger.sketches():
            self._remember(recording, source, sketch)

    async def take_turns(self) -> None:
        while (item := await self._take()) is not None:
            self.taken += 1
            if isinstance(item, Unreadable):
                self._refuse_unreadable(item)
                continue
            sketch = sketch_of(item)
            await self._wait_for_like(item.digest, sketch)
            ended = asyncio.Event()
            self._under_way[item.digest] = (sketch, ended)
            try:
                await self._one(item, sketch)
            finally:
                del self._under_way[item.digest]
                ended.set()

    async def _take(self) -> Transcript | Unreadable | None:
        async with self._turn:
            if self.failure is not None:
                return None
            try:
                return await asyncio.to_thread(next, self._next, None)
            except (TermArenaError, OSError) as error:
                self.failure = error
                return None

    async def _wait_for_like(self, recording: str, sketch: Sketch) -> None:
        """Of two that are alike the second waits: whether it is news depends on what becomes of the first."""
        least = self.order.config.screen.near_duplicate
        while True:
            like = [
                ended
                for digest, (other, ended) in self._under_way.items()
                if digest == recording or similarity(sketch, other) >= least
            ]
            if not like:
                return
            await like[0].wait()

    def _tell(self, outcome: Outcome, *, was_known: bool) -> None:
        self.known += was_known
        self.on_outcome(outcome, was_known)

    def _refuse_unreadable(self, item: Unreadable) -> None:
        key = key_of_unreadable(item.reason, self.order.config)
        known = self.ledger.known(item.digest, key)
        found = {"recording": {"source": item.source, "digest": item.digest}, **_NOTHING_FOUND}
        outcome = known or Outcome(
            item.digest, key, item.source, "", "refused", "read", item.reason, None, None, None, None, 0.0,
            self.ledger.keep({**found, "state": "refused", "gate": "read", "reason": item.reason}), _now(),
        )  # fmt: skip
        if known is None:
            self.ledger.write(outcome)
        self._tell(outcome, was_known=known is not None)

    async def _one(self, transcript: Transcript, sketch: Sketch) -> None:
        digest, key = transcript.digest, key_of(transcript, self.order.config)
        if self.ledger.is_blocked(digest) or self.ledger.is_blocked_source(transcript.source):
            self._tell(_outcome(transcript, key, "refused", ("takedown", BLOCKED)), was_known=True)
            return
        known = self.ledger.known(digest, key)
        if known is not None and _still_stands(known):
            brought = await asyncio.to_thread(_brought, known, self.out)
            is_last = self.ledger.is_latest(known)
            self._settle(brought if is_last else brought._replace(at=_now()), was_known=True)
        elif (like := self._alike.like(sketch, but=digest)) is not None:
            self._settle(self._like_another(transcript, key, like), was_known=False)
        else:
            outcome = await self._made(transcript, key)
            if self._settle(outcome, was_known=False) and outcome.state == "admitted":
                self.ledger.remember(digest, transcript.source, sketch)
                self._remember(digest, transcript.source, sketch)

    def _remember(self, recording: str, source: str, sketch: Sketch) -> None:
        self._sources[recording] = source
        self._alike.add(recording, sketch)

    def _like_another(self, transcript: Transcript, key: str, like: tuple[str, float]) -> Outcome:
        reason = (
            f"{100 * like[1]:.0f} % of its commands are those of {self._sources[like[0]]}, of which a task was made"
        )
        outcome = _outcome(transcript, key, "refused", ("duplicates", reason))
        found = {"recording": {"source": transcript.source, "digest": transcript.digest}, **_NOTHING_FOUND}
        told = {"state": "refused", "gate": "duplicates", "reason": reason}
        return outcome._replace(evidence=self.ledger.keep({**found, **told}))

    async def _made(self, transcript: Transcript, key: str) -> Outcome:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="termarena-forge-", ignore_cleanup_errors=True) as workspace:
            making = Making(
                transcript, self.bench, Path(workspace), self.order.config, self.ledger.folder / "repositories"
            )
            folder, found = None, evidence(making)
            assistant = self.order.assistant() if self.order.assistant is not None else None
            state: State = "admitted"
            try:
                if assistant is None:
                    folder = await making.make(self.out)
                else:
                    made = await assistant.prove(making)
                    making, folder = made.making, self.out / made.folder.name
                    await asyncio.to_thread(put_in_place, made.folder, folder)
                why = ("prove", making.proof.told if making.proof else "")
            except RecordingRefused as refused:
                state, why = "refused", (refused.gate, refused.reason)
            except Exception as error:  # noqa: BLE001 - the border of one recording: no other one is to suffer from it
                state, why = "failed", (type(error).__name__, str(error)[:500])
                found["traceback"] = traceback.format_exc()
            found = {**found, **evidence(making), "state": state, "gate": why[0], "reason": why[1]}
            found |= {"licence": transcript.licence, "spans": _spans(making, folder)}
            if assistant is not None:
                found["model"] = assistant.spent()
                self.ledger.note_cost(transcript.digest, key, assistant.model.meter.cost_usd)
        return _outcome(transcript, key, state, why)._replace(
            title=found["title"],
            task_id=found["task_id"] if folder else None,
            folder=str(folder) if folder else None,
            fidelity=found["fidelity"],
            mutation_score=found["mutation_score"],
            took_s=round(time.monotonic() - began, 3),
            evidence=self.ledger.keep(found),
        )

    def _settle(self, outcome: Outcome, *, was_known: bool) -> bool:
        """Write it down and tell it; of a recording that was taken down meanwhile, nothing stays."""
        folder = Path(outcome.folder) if outcome.folder else None
        stands = self.ledger.write(outcome)
        if not stands:
            self.ledger.drop_evidence(outcome.evidence)
            _remove(folder)
            outcome = outcome._replace(state="refused", gate="takedown", reason=BLOCKED, task_id=None, folder=None)
        elif outcome.state != "failed":
            self._tidy(outcome.recording, folder)
        self._tell(outcome, was_known=was_known)
        return stands

    def _tidy(self, recording: str, current: Path | None) -> None:
        """Remove what earlier settings let through here and the present ones do not, or under another name."""
        for folder in self.ledger.placed(recording):
            if folder.parent == self.out and folder != current:
                _remove(folder)
                self.ledger.unplace(recording, folder)


_NOTHING_FOUND: Final[dict[str, Any]] = {"title": "", "screening": [], "steps": [], "facts": [], "trials": []}


def _spans(making: Making, folder: Path | None) -> dict[str, int]:
    shown = making.screening.transcript if making.screening else None
    return spans_of(shown, folder) if shown is not None and folder is not None else {}


def _still_stands(known: Outcome) -> bool:
    return known.folder is None or Path(known.folder).is_dir()


def _brought(known: Outcome, out: Path) -> Outcome:
    """A task that was made for another folder is put into this one, too."""
    if known.folder is None or Path(known.folder).parent == out:
        return known
    target = out / Path(known.folder).name
    if not target.is_dir():
        put_in_place(Path(known.folder), target)
    return known._replace(folder=str(target))


def _remove(folder: Path | None) -> None:
    if folder is not None and folder.is_dir():
        shutil.rmtree(folder)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 10**6:06}Z"


def _outcome(transcript: Transcript, key: str, state: State, why: tuple[str, str]) -> Outcome:
    names = (transcript.digest, key, transcript.source, "")
    return Outcome(*names, state, *why, None, None, None, None, 0.0, "", _now())
