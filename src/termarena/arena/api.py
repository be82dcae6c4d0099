"""The REST API. Reading is free unless the server is private; writing needs a key."""

from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict

from termarena import __version__
from termarena.arena import queries
from termarena.arena.attempt import file_of
from termarena.arena.comparing import compare_two
from termarena.arena.filters import RunFilter, TrialFilter, Window
from termarena.arena.funnel import Funnel, read_funnel
from termarena.arena.held import Held, HeldNow
from termarena.arena.proofs import ProofCard, proof_cards, proof_of, proofs_summary
from termarena.arena.views import (
    DatasetRow,
    EntrantRow,
    Leaderboard,
    RunDetail,
    RunRow,
    TaskDetail,
    TaskShare,
    TrialRow,
)
from termarena.core.errors import NotFound
from termarena.core.run_folder import RunFolder
from termarena.proof.summary import Summary

__all__ = ["router"]

router = APIRouter(prefix="/api")

LONGEST_NAME = 200
Slug = Annotated[str, Path(max_length=LONGEST_NAME, description="A name as addresses have it.")]
Name = Annotated[str, Query(max_length=LONGEST_NAME, description="A run, as addresses name it.")]
Attempt = Annotated[int, Path(ge=1, lt=1 << 31, description="Counted from 1.")]
Place = Annotated[str, Path(pattern=r"^[1-9][0-9]{0,8}(-retry-[1-9][0-9]{0,8})?$", description="`1`, or `1-retry-2`.")]
Piece = Annotated[str, Path(pattern=r"^(index|0|[1-9][0-9]{0,5})\.json$", description="`index.json`, or `0.json` …")]


class Health(BaseModel):
    """Whether the server is well."""

    model_config = ConfigDict(frozen=True)

    status: Literal["ok", "troubled"]
    version: str
    problems: dict[str, str]
    """What could not be taken in, by run."""


@router.get("/health")
def health(held: HeldNow) -> Health:
    """Whether the server is well, and what it could not take in."""
    problems = dict(held.watcher.problems)
    return Health(status="troubled" if problems else "ok", version=__version__, problems=problems)


@router.get("/datasets")
def list_datasets(held: HeldNow) -> list[DatasetRow]:
    """Every set of tasks that has a run: those with a ranked one first, of them the one that changed last."""
    with held.database.reading() as session:
        return queries.dataset_rows(session)


@router.get("/datasets/{digest}/leaderboard")
def show_leaderboard(held: HeldNow, digest: Slug) -> Leaderboard:
    """Who is how good at these tasks, with intervals and rank sets."""
    with held.database.reading() as session:
        return queries.leaderboard(session, digest)


@router.get("/datasets/{digest}/tasks")
def list_tasks(held: HeldNow, digest: Slug, chosen: Annotated[Window, Query()]) -> list[TaskShare]:
    """The tasks of a set over all of its runs, the hardest first."""
    with held.database.reading() as session:
        queries.find_dataset(session, digest)
        return queries.task_shares(session, digest, limit=chosen.limit, offset=chosen.offset)


@router.get("/compare")
def compare(held: HeldNow, first: Name, second: Name) -> dict[str, Any]:
    """Two runs, task by task: better, worse, or cannot tell."""
    with held.database.reading() as session:
        return compare_two(session, first, second).as_json()


@router.get("/runs")
def list_runs(held: HeldNow, chosen: Annotated[RunFilter, Query()]) -> list[RunRow]:
    """Runs, the newest first."""
    with held.database.reading() as session:
        return queries.run_rows(session, chosen)


@router.get("/runs/{run}")
def show_run(held: HeldNow, run: Slug) -> RunDetail:
    """A run and its report."""
    with held.database.reading() as session:
        return queries.run_detail(session, run)


@router.get("/runs/{run}/trials")
def list_trials(held: HeldNow, run: Slug, chosen: Annotated[TrialFilter, Query()]) -> list[TrialRow]:
    """What counts of each trial, in the order of tasks and attempts."""
    with held.database.reading() as session:
        return queries.trial_rows(session, run, chosen)


@router.get("/runs/{run}/trials/{task}/{attempt}")
def show_trial(held: HeldNow, run: Slug, task: Slug, attempt: Attempt) -> list[TrialRow]:
    """Every try of one trial."""
    with held.database.reading() as session:
        return queries.tries(session, run, task, attempt)


@router.get("/runs/{run}/trials/{task}/{place}/{name}", response_class=FileResponse)
def fetch_file(held: HeldNow, run: Slug, task: Slug, place: Place, name: Slug) -> FileResponse:
    """A file of an attempt that has ended: result.json, trajectory.json, terminal.cast …"""
    # Never as HTML, whatever it holds.
    media = "application/json" if name.endswith(".json") else "text/plain; charset=utf-8"
    return FileResponse(_file(held, run, task, (place, name)), media_type=media)


@router.get("/runs/{run}/trials/{task}/{place}/{name}/segments/{piece}", response_class=FileResponse)
async def fetch_segment(held: HeldNow, run: Slug, task: Slug, place: Place, name: Slug, piece: Piece) -> FileResponse:
    """A piece of a recording, or the index of its pieces: `index.json`, `0.json`, `1.json` …"""
    recording = await run_in_threadpool(_file, held, run, task, (place, name))
    if not name.endswith(".cast"):
        raise NotFound("only recordings have pieces", hint="terminal.cast is one")
    path = await held.segments.file(recording, piece)
    return FileResponse(path, media_type="application/json", headers={"Cache-Control": "private, max-age=60"})


def _file(held: Held, run: str, task: str, named: tuple[str, str]) -> FilePath:
    """A file of an attempt by the attempt's place and the file's name. Raises NotFound."""
    place, name = named
    attempt, _, retry = place.partition("-retry-")
    with held.database.reading() as session:
        found = queries.tries(session, run, task, int(attempt))
        folder = RunFolder(queries.folder_of(session, run))
    is_there = any(one.retry == int(retry or 0) for one in found)
    path = (
        file_of(folder.attempt_in(found[0].task_slug, int(attempt), retry=int(retry or 0)), name) if is_there else None
    )
    if path is None:
        raise NotFound("no such file of this attempt", hint="the trial's page lists those there are")
    return path


@router.get("/tasks/{task}")
def show_task(held: HeldNow, task: Slug) -> TaskDetail:
    """A task, and how runs did at it."""
    with held.database.reading() as session:
        return queries.task_detail(session, task)


@router.get("/agents")
def list_agents(held: HeldNow) -> list[EntrantRow]:
    """Every agent in every setup that has a run."""
    with held.database.reading() as session:
        return queries.entrant_rows(session)


@router.get("/agents/{entrant}")
def show_agent(held: HeldNow, entrant: Slug) -> EntrantRow:
    """An agent in one setup."""
    with held.database.reading() as session:
        return queries.find_entrant(session, entrant)


@router.get("/tasks/{task}/proofs")
def list_task_proofs(held: HeldNow, task: Slug) -> list[ProofCard]:
    """What was proven of a task, the newest first."""
    with held.database.reading() as session:
        return proof_cards(session, task)


@router.get("/proofs")
def show_proofs(held: HeldNow) -> Summary:
    """All proofs together: grades, faults, and how the figures are spread."""
    with held.database.reading() as session:
        return proofs_summary(session)


@router.get("/proofs/{digest}")
def show_proof(held: HeldNow, digest: Slug) -> ProofCard:
    """The proof of one version of a task."""
    with held.database.reading() as session:
        return proof_of(session, digest)


@router.get("/forge")
def show_forge(held: HeldNow) -> Funnel:
    """How many recordings came to each gate of the forge, and what became of them."""
    return read_funnel(held.config.forge)
