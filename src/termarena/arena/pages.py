"""The pages: the same values as the API's, rendered on the server. They work without scripts, replay apart."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from termarena.arena import queries
from termarena.arena.attempt import read_attempt
from termarena.arena.comparing import compare_two
from termarena.arena.diverging import parting_of
from termarena.arena.filters import MatrixFilter, RunFilter
from termarena.arena.funnel import read_funnel
from termarena.arena.held import HeldNow
from termarena.arena.links import ServerLinks
from termarena.arena.proofs import proof_cards, proof_digests, proof_of, proofs_summary
from termarena.arena.rendering import render
from termarena.arena.segmenting import LARGE_BYTES
from termarena.core.errors import NotFound
from termarena.core.run_folder import RunFolder
from termarena.proof.faults import RULES

__all__ = ["router"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

LONGEST_NAME = 200
RUNS_ON_A_PAGE = 50
TASKS_ON_A_PAGE = 100
Slug = Annotated[str, Path(max_length=LONGEST_NAME)]
Name = Annotated[str, Query(max_length=LONGEST_NAME)]
Attempt = Annotated[int, Path(ge=1, lt=1 << 31)]
LINKS = ServerLinks()


def _page(template: str, **values: Any) -> str:  # noqa: ANN401 - what the template asks for
    return render(template, LINKS, **values)


@router.get("/")
def home(held: HeldNow) -> str:
    """The leaderboard that changed last, and the others."""
    with held.database.reading() as session:
        datasets = queries.dataset_rows(session)
        board = queries.leaderboard(session, datasets[0].digest) if datasets else None
    return _page("leaderboard.html", board=board, datasets=datasets)


@router.get("/datasets/{digest}")
def dataset(held: HeldNow, digest: Slug) -> str:
    """The leaderboard of one set of tasks."""
    with held.database.reading() as session:
        board = queries.leaderboard(session, digest)
        datasets = queries.dataset_rows(session)
    return _page("leaderboard.html", board=board, datasets=datasets)


@router.get("/datasets/{digest}/tasks")
def tasks(held: HeldNow, digest: Slug, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1) -> str:
    """The tasks of a set, the hardest first."""
    with held.database.reading() as session:
        found = queries.find_dataset(session, digest)
        rows = queries.task_shares(session, digest, limit=TASKS_ON_A_PAGE + 1, offset=(page - 1) * TASKS_ON_A_PAGE)
    has_more = len(rows) > TASKS_ON_A_PAGE
    return _page("tasks.html", dataset=found, rows=rows[:TASKS_ON_A_PAGE], page=page, has_more=has_more)


@router.get("/compare")
def compare(held: HeldNow, first: Name, second: Name) -> str:
    """Two runs, task by task."""
    with held.database.reading() as session:
        two = compare_two(session, first, second)
    return _page("compare.html", two=two)


@router.get("/compare/{task}")
def part(held: HeldNow, task: Slug, first: Name, second: Name) -> str:
    """Where the first attempts of two runs at one task part."""
    with held.database.reading() as session:
        parting = parting_of(session, (first, second), task)
    return _page("parting.html", parting=parting)


@router.get("/runs")
def runs(held: HeldNow, chosen: Annotated[RunFilter, Query()]) -> str:
    """Runs, the newest first."""
    # One more than is shown tells whether there is a next page.
    asked = chosen.model_copy(update={"limit": RUNS_ON_A_PAGE + 1})
    with held.database.reading() as session:
        rows = queries.run_rows(session, asked)
        datasets = queries.dataset_rows(session)
    shown, has_more = rows[:RUNS_ON_A_PAGE], len(rows) > RUNS_ON_A_PAGE
    problems = dict(held.watcher.problems)
    return _page("runs.html", rows=shown, chosen=chosen, datasets=datasets, has_more=has_more, problems=problems)


@router.get("/runs/{run}")
def run(held: HeldNow, run: Slug, chosen: Annotated[MatrixFilter, Query()]) -> str:
    """A run: its figures, and its trials as a matrix."""
    with held.database.reading() as session:
        detail = queries.run_detail(session, run)
        matrix = queries.matrix(session, run, chosen)
        board = queries.leaderboard(session, detail.run.dataset_digest)
        others = queries.rivals(session, detail.run, limit=RUNS_ON_A_PAGE)
    return _page(
        "run.html",
        run=detail.run,
        report=detail.report,
        verified=detail.verified,
        matrix=matrix,
        chosen=chosen,
        board=board,
        others=others,
        is_live=True,
    )


class TrialChoice(BaseModel):
    """Which try of a trial, and from which step on."""

    model_config = ConfigDict(frozen=True)

    retry: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    """None is the one that counts."""
    step: Annotated[int, Field(ge=0, lt=1 << 31)] = 0


@router.get("/runs/{run}/{task}/{attempt}")
def trial(held: HeldNow, run: Slug, task: Slug, attempt: Attempt, chosen: Annotated[TrialChoice, Query()]) -> str:
    """A trial: replay, steps, tests, changes, findings."""
    with held.database.reading() as session:
        detail = queries.run_detail(session, run)
        tries = queries.tries(session, run, task, attempt)
        folder = RunFolder(queries.folder_of(session, run))
    retry = chosen.retry
    shown = next((one for one in tries if (one.is_counted if retry is None else one.retry == retry)), None)
    if shown is None:
        raise NotFound("no such try of this trial")
    tried = folder.attempt_in(shown.task_slug, attempt, retry=shown.retry)
    seen = read_attempt(tried, first_step=chosen.step)
    is_large = bool(seen.casts) and seen.casts[0].size_bytes > LARGE_BYTES
    cast_problem = held.segments.problem(tried.cast()) if is_large else None
    place = f"{attempt}-retry-{shown.retry}" if shown.retry else str(attempt)
    return _page(
        "trial.html",
        run=detail.run,
        trial=shown,
        tries=tries,
        seen=seen,
        place=place,
        first_step=chosen.step,
        cast_text=None,
        has_replay=bool(seen.casts) and cast_problem is None,
        cast_problem=cast_problem,
        is_large=is_large,
        is_live=True,
    )


@router.get("/tasks/{task}")
def task(held: HeldNow, task: Slug) -> str:
    """A task, and who solves it."""
    with held.database.reading() as session:
        detail = queries.task_detail(session, task)
        proofs = proof_cards(session, task)
    return _page("task.html", task=detail, proofs=proofs)


@router.get("/proofs")
def proofs(held: HeldNow) -> str:
    """All proofs together."""
    with held.database.reading() as session:
        summary, digests = proofs_summary(session), proof_digests(session)
    return _page("proofs.html", summary=summary, digests=digests, rules=RULES)


@router.get("/proofs/{digest}")
def proof(held: HeldNow, digest: Slug) -> str:
    """The card of one task."""
    with held.database.reading() as session:
        card = proof_of(session, digest)
    return _page("proof.html", proof=card)


@router.get("/forge")
def forge(held: HeldNow) -> str:
    """The forge's funnel."""
    return _page("forge.html", funnel=read_funnel(held.config.forge) if held.config.forge else None)


@router.get("/agents")
def agents(held: HeldNow) -> str:
    """Every agent in every setup."""
    with held.database.reading() as session:
        rows = queries.entrant_rows(session)
    return _page("agents.html", rows=rows)


@router.get("/agents/{entrant}")
def agent(held: HeldNow, entrant: Slug) -> str:
    """An agent in one setup, and its runs."""
    with held.database.reading() as session:
        found = queries.find_entrant(session, entrant)
        rows = queries.run_rows(session, RunFilter(entrant=entrant, limit=RUNS_ON_A_PAGE))
    return _page("agent.html", entrant=found, rows=rows)


@router.get("/favicon.ico")
def favicon() -> RedirectResponse:
    """The mark of the arena."""
    return RedirectResponse(LINKS.asset("mark.svg"))
