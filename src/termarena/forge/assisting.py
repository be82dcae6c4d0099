"""A language model beside the forge: it may score, reword and repair, and decides nothing.

Each proposal goes through the same gates as what the forge makes by itself: a wording is linted and the task proven
anew, a repaired session begins at the first gate. Where the model fails, is silent or has spent its budget, the forge
goes on as if there were none.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from termarena.core.errors import RecordingRefused, TermArenaError
from termarena.forge.making import Making, check_proof, evidence
from termarena.forge.prompts import (
    Repair,
    Score,
    Wording,
    ask_for_repair,
    ask_for_score,
    ask_for_wording,
    read_answer,
)
from termarena.forge.trials import prove
from termarena.forge.wording import wording_problem

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.draft import Draft
    from termarena.forge.model_rules import ModelRules
    from termarena.forge.transcript import Transcript
    from termarena.models import Request
    from termarena.models.run_models import MeteredModel

__all__ = ["Assistant", "Made", "Proposal"]

ANSWER_S: Final = 120.0
REPAIRABLE: Final = frozenset({"synthesize", "reproduce", "test", "instruct", "prove"})
"""What screening refuses stays refused: no model talks a recording past privacy and safety."""
Answer = TypeVar("Answer", bound=BaseModel)
Kind = Literal["score", "wording", "repair"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a model said, and what became of it."""

    kind: Kind
    outcome: Literal["noted", "taken", "refused", "none"]
    """`none`: there was no answer that could be used."""
    why: str = ""
    content: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As evidence and lineage hold it."""
        return {"kind": self.kind, "outcome": self.outcome, "why": self.why, **self.content}


class Made(NamedTuple):
    """A task in the workspace, and the making that led to it: a repaired session has one of its own."""

    folder: Path
    making: Making


@dataclass(slots=True)
class Assistant:
    """A model at work on one recording; `proposals` has everything that it said."""

    model: MeteredModel
    rules: ModelRules
    proposals: list[Proposal] = field(default_factory=list)

    def spent(self) -> dict[str, Any]:
        """Which model, how often it answered, what that cost as far as it is known, and what came of it."""
        meter = self.model.meter
        tokens = {"input_tokens": meter.input_tokens, "output_tokens": meter.output_tokens}
        told = [proposal.as_dict() for proposal in self.proposals]
        return {"name": self.model.name, "answers": meter.answers, "cost_usd": meter.cost_usd, **tokens, "said": told}

    async def prove(self, making: Making) -> Made:
        """As `Making.prove`, with the model's proposals. Raises what that raises."""
        shown = await asyncio.to_thread(making.screen)
        if self.rules.scores:
            await self._score(shown)
        try:
            made = Made(await making.prove(), making)
        except RecordingRefused as refused:
            made = await self._repaired(making, shown, refused)
        if self.rules.words:
            await self._reword(made)
        _mark(made, self.proposals, self.model.name)
        return made

    async def _ask(self, kind: Kind, shape: type[Answer], request: Request) -> Answer | None:
        """An answer of this shape; whatever else comes is noted, and is no reason to stop."""
        try:
            said = await self.model.complete(request, timeout_s=ANSWER_S)
            return read_answer(shape, said.message.content)
        except (TermArenaError, ValueError) as error:
            self.proposals.append(Proposal(kind, "none", str(error)[:300]))
            return None

    async def _score(self, shown: Transcript) -> None:
        score = await self._ask("score", Score, ask_for_score(shown))
        if score is not None:
            axes = score.model_dump(exclude={"reasons"})
            reasons = [reason[:500] for reason in score.reasons]
            content = {**axes, "total": sum(axes.values()), "reasons": reasons}
            self.proposals.append(Proposal("score", "noted", content=content))

    async def _repaired(self, making: Making, shown: Transcript, refused: RecordingRefused) -> Made:
        for attempt in range(self.rules.repairs if refused.gate in REPAIRABLE else 0):
            repair = await self._ask("repair", Repair, ask_for_repair(shown, refused.gate, refused.reason))
            if repair is None:
                break
            content = {"changes": [change.model_dump() for change in repair.changes]}
            place = making.workspace / f"repair-{attempt}"
            await asyncio.to_thread(place.mkdir)
            other = Making(_changed(shown, repair), making.bench, place, making.config, making.cache)
            try:
                made = Made(await other.prove(), other)
            except RecordingRefused as again:
                self.proposals.append(Proposal("repair", "refused", f"{again.gate}: {again.reason}", content))
                continue
            self.proposals.append(Proposal("repair", "taken", repair.why[:500], content))
            return made
        raise refused

    async def _reword(self, made: Made) -> None:
        path = made.folder / "instruction.md"
        plain = await asyncio.to_thread(path.read_text, "utf-8")
        wording = await self._ask("wording", Wording, ask_for_wording(plain))
        if wording is None:
            return
        text = wording.instruction.strip() + "\n"
        draft = made.making.draft
        assert draft is not None  # noqa: S101 - what was proven had one
        problem = wording_problem(text, plain, draft.solution)
        if problem is None:
            await asyncio.to_thread(path.write_text, text, "utf-8")
            problem = await self._complaint_of_trials(made, draft)
        if problem is not None:
            await asyncio.to_thread(path.write_text, plain, "utf-8")
        self.proposals.append(Proposal("wording", "refused" if problem else "taken", problem or ""))

    async def _complaint_of_trials(self, made: Made, draft: Draft) -> str | None:
        making = made.making
        logs = making.workspace / "trials-again"
        proof = await prove(making.bench, made.folder, draft, making.facts, logs=logs)
        try:
            check_proof(proof, making.config)
        except RecordingRefused as refused:
            return refused.reason
        making.proof = proof
        return None


def _changed(shown: Transcript, repair: Repair) -> Transcript:
    """The session with other commands; what was recorded as their output stays what they are held against."""
    changes = {change.number: change.command for change in repair.changes}
    commands = [
        command.model_copy(update={"text": changes.get(number, command.text)})
        for number, command in enumerate(shown.commands, 1)
    ]
    return shown.model_copy(update={"commands": tuple(command for command in commands if command.text.strip())})


def _mark(made: Made, proposals: list[Proposal], model: str) -> None:
    """Say in the task's lineage what a model had a part in, and which trials were done with that."""
    taken = [proposal.as_dict() for proposal in proposals if proposal.outcome == "taken"]
    if taken:
        path, found = made.folder / "lineage.json", evidence(made.making)
        proven = {name: found[name] for name in ("mutation_score", "trials")}
        document = {**json.loads(path.read_text("utf-8")), **proven, "proposed_by": model, "proposals": taken}
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
