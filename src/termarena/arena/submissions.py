"""The part of the API that writes: runs are sent here, whole or while they go on. It needs a key that may submit."""

import tempfile
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict

from termarena.arena.allowing import Submitter
from termarena.arena.held import HeldNow
from termarena.arena.proofs import LARGEST_PROOF_BYTES, ProofCard, card_of_proof, keep, read_sent
from termarena.arena.uploading import RUN_NAME, Piece, journal_size
from termarena.arena.verified import Verified
from termarena.core.errors import Refused

__all__ = ["router"]

router = APIRouter(prefix="/api")

MEMORY_BYTES = 8 << 20
"""Of an archive; a larger one waits on disk."""
RunName = Annotated[str, Path(pattern=RUN_NAME, description="The run's folder, by its name.")]
ARCHIVE = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


class Journal(BaseModel):
    """How much of a run is here."""

    model_config = ConfigDict(frozen=True)

    size_bytes: int


class Accepted(BaseModel):
    """What came of what was sent."""

    model_config = ConfigDict(frozen=True)

    run: str
    """Its name in addresses."""
    trials: int
    """That are new or have changed."""
    journal_bytes: int


@router.get("/runs/{run}/journal")
def show_journal(held: HeldNow, _holder: Submitter, run: RunName) -> Journal:
    """How much of a run's journal is here: sending goes on from there."""
    return Journal(size_bytes=journal_size(held.config.runs, run))


@router.put("/runs/{run}/archive", openapi_extra=ARCHIVE)
async def send_archive(
    request: Request,
    held: HeldNow,
    holder: Submitter,
    run: RunName,
    journal_from: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
) -> Accepted:
    """Send a run, or more of it: a .tar.gz of files, in which `journal.jsonl` is the part from `journal_from` on."""
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
        async for chunk in request.stream():
            await run_in_threadpool(file.write, chunk)
        file.seek(0)
        taken = await run_in_threadpool(held.inbox.take, Piece(run, file, journal_from), holder)
    held.watcher.hurry()
    return Accepted(run=taken.slug, trials=taken.trials, journal_bytes=journal_size(held.config.runs, run))


class HandedIn(BaseModel):
    """What a bundle was found to be."""

    model_config = ConfigDict(frozen=True)

    run: str
    """Its name in addresses."""
    verified: Verified


@router.post("/bundles", openapi_extra=ARCHIVE, status_code=201)
async def hand_in(request: Request, held: HeldNow, holder: Submitter) -> HandedIn:
    """Hand in a run as `termarena pack` wrote it. It is verified, its score is computed anew, and what was found is
    shown beside it."""
    with tempfile.NamedTemporaryFile(prefix=".bundle-", dir=held.config.runs) as file:
        async for chunk in request.stream():
            await run_in_threadpool(file.write, chunk)
        file.flush()
        done = await run_in_threadpool(held.inbox.take_bundle, FilePath(file.name), holder)
    held.watcher.hurry()
    return HandedIn(run=done.taken.slug, verified=done.verified)


@router.post("/proofs", openapi_extra=ARCHIVE, status_code=201)
async def send_proof(request: Request, held: HeldNow, holder: Submitter) -> ProofCard:
    """Send a `proof.json` as `termarena prove` wrote it; of each version of a task the newest is kept."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_PROOF_BYTES:
            raise Refused(f"a proof has at most {LARGEST_PROOF_BYTES:,} bytes", status=413)
    proof = read_sent(bytes(content))
    await run_in_threadpool(keep, held.database, proof, holder.name)
    return card_of_proof(proof, holder.name)
