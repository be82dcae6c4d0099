"""A run as a folder of pages that open without a server: the same pages, their recordings inside them."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.arena import queries
from termarena.arena.attempt import read_attempt
from termarena.arena.database import Database
from termarena.arena.filters import MatrixFilter
from termarena.arena.ingest import take_in
from termarena.arena.rendering import render
from termarena.arena.rows import trial_of, trials_query
from termarena.arena.schema import Run, Trial
from termarena.core.errors import RunNotWritable, UsageError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from termarena.arena.views import RunDetail, TrialRow
    from termarena.core.run_folder import RunFolder

__all__ = ["Exported", "FolderLinks", "export_run"]

ASSETS: Final = Path(__file__).with_name("assets")
LARGEST_CAST_BYTES: Final = 16 << 20
"""A larger recording stays out of its page, which says so."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    index: Path
    pages: int


class FolderLinks:
    """Of pages that lie beside each other: `index.html`, and a page for every trial in `trials/`."""

    def __init__(self, *, up: str) -> None:
        """`up` leads to the folder that holds `index.html`."""
        self._up = up

    def asset(self, name: str) -> str:
        """In assets/."""
        return f"{self._up}assets/{name}"

    def home(self) -> None:
        """There is none."""

    def dataset(self, digest: str) -> None:
        """There is none."""

    def run(self, slug: str, **filters: str | int | None) -> str:
        """Its tasks are on numbered pages."""
        del slug
        page = filters.get("page") or 1
        return f"{self._up}index.html" if page == 1 else f"{self._up}index-{page}.html"

    def trial(self, run: str, task: str, attempt: int, **chosen: int) -> str:
        """The try that counts."""
        del run, chosen
        return f"{self._up}trials/{task}-{attempt}.html"

    def task(self, slug: str) -> None:
        """There is none."""

    def agent(self, entrant: str) -> None:
        """There is none."""

    def file(self, run: str, task: str, place: str, name: str) -> None:
        """They stay in the run's folder."""


def export_run(folder: RunFolder, out: Path) -> Exported:
    """Write the pages into `out`, which is new, empty, or an earlier export that is replaced.

    Raises what reading a run raises, UsageError where something else is in `out`, RunNotWritable.
    """
    if out.exists() and not _is_ours(out):
        raise UsageError(f"{out} holds something else", hint="name a new folder with --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=out.parent) as made:
            pages = _write(folder, Path(made) / "pages", db=Path(made) / "run.db")
            if out.exists():
                shutil.rmtree(out)
            (Path(made) / "pages").rename(out)
    except OSError as error:
        problem = error.strerror or str(error)
        raise RunNotWritable(str(out), problem=problem, errno=error.errno, then="the same command again") from error
    return Exported(out / "index.html", pages)


def _is_ours(out: Path) -> bool:
    return out.is_dir() and (not any(out.iterdir()) or (out / "assets" / "arena.css").is_file())


def _write(folder: RunFolder, out: Path, *, db: Path) -> int:
    shutil.copytree(ASSETS, out / "assets")
    (out / "trials").mkdir()
    database = Database(f"sqlite:///{db}")
    database.migrate()
    try:
        slug = take_in(database, folder).slug
        with database.reading() as session:
            detail = queries.run_detail(session, slug)
            return _write_index(session, detail, out) + _write_trials(session, detail, folder, out)
    finally:
        database.close()


def _write_index(session: Session, detail: RunDetail, out: Path) -> int:
    links, page, pages = FolderLinks(up=""), 1, 1
    while page <= pages:
        chosen = MatrixFilter(page=page)
        matrix = queries.matrix(session, detail.run.slug, chosen)
        pages = matrix.pages
        text = render(
            "run.html",
            links,
            run=detail.run,
            report=detail.report,
            verified=detail.verified,
            matrix=matrix,
            chosen=chosen,
            board=None,
            others=(),
            is_live=False,
        )
        (out / links.run(detail.run.slug, page=page)).write_text(text, encoding="utf-8")
        page += 1
    return pages


def _write_trials(session: Session, detail: RunDetail, folder: RunFolder, out: Path) -> int:
    links, number = FolderLinks(up="../"), 0
    chosen = trials_query().join(Run, Trial.run_id == Run.id).where(Run.slug == detail.run.slug, Trial.is_counted)
    for trial, task in session.execute(chosen.execution_options(yield_per=500)):
        shown = trial_of(trial, task)
        path = out / "trials" / f"{shown.task_slug}-{shown.attempt}.html"
        path.write_text(_trial_page(detail, shown, folder, links), encoding="utf-8")
        number += 1
    return number


def _trial_page(detail: RunDetail, trial: TrialRow, folder: RunFolder, links: FolderLinks) -> str:
    attempt = folder.attempt_in(trial.task_slug, trial.attempt, retry=trial.retry)
    seen = read_attempt(attempt)
    cast = None
    if seen.casts and seen.casts[0].size_bytes <= LARGEST_CAST_BYTES:
        cast = attempt.cast().read_text(encoding="utf-8", errors="replace")
    return render(
        "trial.html",
        links,
        run=detail.run,
        trial=trial,
        tries=(trial,),
        seen=seen,
        place="",
        first_step=0,
        cast_text=cast,
        has_replay=cast is not None,
        cast_problem=None,
        is_large=False,
        is_live=False,
    )
