"""Proofs of tasks: taken from a folder as `termarena prove` writes it, or sent; the newest of each version of a task is
kept and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import or_, select

from termarena.arena.ingest import plain
from termarena.arena.schema import RunTask, Task, TaskProof
from termarena.core.errors import NotFound, Refused, TaskFormatError
from termarena.proof.card import rows_of, survivors_of
from termarena.proof.faults import RULES
from termarena.proof.report import Proof, read_proof
from termarena.proof.summary import Summary, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.orm import Session

    from termarena.arena.database import Database

__all__ = [
    "Answer",
    "ProofCard",
    "Shelf",
    "card_of_proof",
    "keep",
    "proof_cards",
    "proof_digests",
    "proof_of",
    "proofs_summary",
    "read_sent",
]

MOST_PROOFS: Final = 5_000
LARGEST_PROOF_BYTES: Final = 64 << 20


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Answer(_Frozen):
    """A question that was asked of a task, or a fault, and what was found."""

    question: str
    answer: str


class ProofCard(_Frozen):
    """What a task is worth, on one page."""

    task: str
    task_digest: str
    letter: str
    made_at: str
    driver: str
    trials: int
    sender: str | None
    """The name of the key that it was sent with; None where it was found in the folder."""
    faults: tuple[Answer, ...]
    answers: tuple[Answer, ...]
    survivors: tuple[str, ...]
    """Wrong solutions that pass, the first of them."""


class _Sent(Proof):
    """The file as it is."""

    kind: Literal["task-proof"]
    schema_version: Literal[1]


def card_of_proof(proof: Proof, sender: str | None) -> ProofCard:
    """As it is shown."""
    faults = tuple(
        Answer(question=one.rule, answer=f"{RULES.get(one.rule, one.rule)}. {one.message}") for one in proof.faults
    )
    return ProofCard(
        task=proof.task_id,
        task_digest=proof.task_digest,
        letter=proof.letter,
        made_at=proof.made_at,
        driver=proof.driver,
        trials=proof.trials,
        sender=sender,
        faults=faults,
        answers=tuple(Answer(question=question, answer=answer) for question, answer in rows_of(proof)),
        survivors=tuple(f"{one.what}. No test asserts {one.missing}." for one in survivors_of(proof)),
    )


def read_sent(content: bytes) -> Proof:
    """A `proof.json` that was sent. Raises Refused for what is none."""
    try:
        sent = _Sent.model_validate_json(content)
        return Proof.model_validate(sent.model_dump(exclude={"kind", "schema_version"}))
    except ValidationError as error:
        raise Refused("this is no proof.json", status=400, hint="send what termarena prove wrote") from error


def keep(database: Database, proof: Proof, sender: str | None) -> bool:
    """Write it down, unless a newer one of the same version of the task is known; whether it was. Raises Refused."""
    content = plain(proof.model_copy(update={"evidence": ()}).model_dump_json())
    with database.writing() as session:
        chosen = select(TaskProof).where(TaskProof.task_digest == proof.task_digest)
        known = session.scalars(chosen).first()
        if known is not None and known.sender != sender and sender is not None:
            raise Refused("another proof of this version of the task is known here", status=409)
        if known is not None and known.made_at >= proof.made_at:
            return False
        if known is None:
            known = TaskProof(task_digest=plain(proof.task_digest))
            session.add(known)
        known.task, known.letter, known.made_at = plain(proof.task_id), proof.letter, plain(proof.made_at)
        known.sender, known.content = sender, content
    return True


def proof_of(session: Session, digest: str) -> ProofCard:
    """Raises NotFound."""
    row = session.scalars(select(TaskProof).where(TaskProof.task_digest == digest)).first()
    if row is None:
        raise NotFound("no proof of this task is known here", hint="/api/proofs lists those there are")
    return _card(row)


def proof_cards(session: Session, task_slug: str) -> list[ProofCard]:
    """The proofs of a task: of the versions that runs had, and of its name; the newest first."""
    task = select(Task.id, Task.name).where(Task.slug == task_slug).subquery()
    digests = select(RunTask.digest).where(RunTask.task_id == task.c.id)
    named = select(task.c.name)
    chosen = select(TaskProof).where(or_(TaskProof.task_digest.in_(digests), TaskProof.task.in_(named)))
    return [_card(row) for row in session.scalars(chosen.order_by(TaskProof.made_at.desc()).limit(10))]


def proofs_summary(session: Session) -> Summary:
    """All proofs together."""
    rows = session.scalars(select(TaskProof.content).order_by(TaskProof.task).limit(MOST_PROOFS))
    return summary_of([Proof.model_validate_json(row) for row in rows])


def proof_digests(session: Session) -> dict[str, str]:
    """The digest of the newest proof by the name of its task."""
    rows = session.execute(select(TaskProof.task, TaskProof.task_digest).order_by(TaskProof.made_at))
    return {name: digest for name, digest in rows}  # noqa: C416 - a result has keys of its own


def _card(row: TaskProof) -> ProofCard:
    return card_of_proof(Proof.model_validate_json(row.content), row.sender)


class Shelf:
    """A folder of proofs, looked at again and again. `problems` says what in it is none."""

    def __init__(self, database: Database, place: Path | None) -> None:
        """Without a place there is nothing to look at."""
        self._database = database
        self._place = place
        self._seen: dict[Path, tuple[int, int]] = {}
        self.problems: dict[str, str] = {}

    def look(self) -> int:
        """Take in what is new; how many. Raises SQLAlchemy's DBAPIError."""
        taken = 0
        for path in self._files():
            try:
                found = path.stat()
            except OSError:  # gone since it was listed
                continue
            signature = found.st_size, found.st_mtime_ns
            if self._seen.get(path) == signature:
                continue
            try:
                if found.st_size <= LARGEST_PROOF_BYTES:
                    taken += keep(self._database, read_proof(path), None)
                self.problems.pop(path.parent.name, None)
            except TaskFormatError as error:
                self.problems[path.parent.name] = error.message.replace(f"{path.parent}/", "")
            self._seen[path] = signature
        return taken

    def _files(self) -> Iterator[Path]:
        if self._place is None:
            return
        yield from sorted({*self._place.glob("proof.json"), *self._place.glob("*/proof.json")})
