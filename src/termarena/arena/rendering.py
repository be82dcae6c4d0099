"""Pages from templates. Everything that is put into one is escaped; nothing of an agent's is ever markup."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from termarena import __version__
from termarena.arena.drawing import Point, Range, interval_bar, scatter
from termarena.core.run_folder import folder_name
from termarena.reports.telling import count, duration, money, percent, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.arena.links import Links
    from termarena.arena.views import Cell, EntrantRow, Entry, Leaderboard, MatrixRow, Rival, RunRow

__all__ = ["render"]

TEMPLATES: Final = Path(__file__).with_name("templates")
KIB: Final = 1024
SIGNS: Final = {"solved": "✓", "unsolved": "✗", "unscored": "?", "pending": "·"}


def render(template: str, links: Links, **values: Any) -> str:  # noqa: ANN401 - what the template asks for
    """The page. Raises jinja2's UndefinedError where a value is missing."""
    page = _environment().get_template(template).render(links=links, version=__version__, **values)
    # A name of a file need not be UTF-8: what records hold of it then is no character, and no page can hold it.
    return page.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = {"percent": percent, "duration": duration, "money": money, "tokens": tokens, "day": day, "size": size}
    environment.filters.update(
        filters, who=who, ranks=ranks, bar=bar, words=words, clock=clock, slug=folder_name, cells=cells
    )
    environment.globals.update(count=count, cost_plot=cost_plot)
    return environment


def who(entrant: EntrantRow | Rival) -> str:
    """`terminus with acme/large`."""
    return f"{entrant.agent} with {entrant.model}" if entrant.model else entrant.agent


def ranks(entry: Entry) -> str:
    """`1`, or from `2` to `4`; a dash where it was not compared."""
    if entry.best_rank is None:
        return "-"
    return str(entry.best_rank) if entry.best_rank == entry.worst_rank else f"{entry.best_rank}\u2013{entry.worst_rank}"


def day(moment: str | None) -> str:
    """`2026-11-15 18:47`, UTC."""
    return "-" if moment is None else moment[:16].replace("T", " ")


def clock(seconds: float | None) -> str:
    """`1:05.3`: a place in a recording."""
    if seconds is None:
        return ""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}:{rest:04.1f}"


def size(size_bytes: int | None) -> str:
    """`512 B`, `1.4 KiB`."""
    if size_bytes is None:
        return "-"
    amount, units = float(size_bytes), ["B", "KiB", "MiB", "GiB"]
    while amount >= KIB and len(units) > 1:
        amount, units = amount / KIB, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def words(name: str) -> str:
    """`AGENT_TIMEOUT` as `agent timeout`."""
    return name.replace("_", " ").lower()


def cells(row: MatrixRow, run: str, links: Links) -> Markup:
    """The trials of a task in the matrix of a run. Not in the template: a page has up to two thousand, and there each
    takes ten times as long."""
    task = escape(row.task)
    shown = (_cell(cell, task, links.trial(run, row.slug, cell.attempt)) for cell in row.cells)
    return Markup("".join(shown))  # noqa: S704 - what is not ours is escaped where it enters


def _cell(cell: Cell, task: Markup, href: str | None) -> str:
    sign, number = "!" if cell.is_tampered else SIGNS[cell.outcome], cell.attempt
    if cell.outcome == "pending":
        return f'<span class="cell pending" title="attempt {number}: not run yet">{sign}</span>'
    told = cell.outcome if cell.outcome == "solved" else escape(f"{cell.outcome}, {words(cell.failure_mode)}")
    tries = f", try {cell.tries}" if cell.tries > 1 else ""
    label = f'aria-label="Attempt {number} at {task}: {told}" title="attempt {number}: {told}{tries}"'
    return f'<a class="cell {cell.outcome}" href="{escape(href)}" {label}>{sign}</a>'


def bar(shown: Entry | RunRow) -> Markup:
    """The accuracy as a drawing."""
    return interval_bar(_range(shown))


def _range(shown: Entry | RunRow) -> Range:
    return Range(shown.accuracy, shown.interval_low, shown.interval_high, shown.accuracy_low, shown.accuracy_high)


def cost_plot(board: Leaderboard, links: Links, run: RunRow | None = None) -> Markup:
    """What a trial costs against how often it is solved, for every entry that tells, and for this run."""
    return scatter([*_entries(board, links), *([] if run is None else _ours(run))])


def _entries(board: Leaderboard, links: Links) -> Iterable[Point]:
    for entry in board.entries:
        if entry.cost_usd_per_trial is not None:
            yield Point(who(entry.entrant), entry.cost_usd_per_trial, _range(entry), links.agent(entry.entrant.id))


def _ours(run: RunRow) -> Iterable[Point]:
    ended = run.total - run.pending
    if run.cost_usd is not None and ended:
        yield Point("this run", run.cost_usd / ended, _range(run), is_ours=True)
