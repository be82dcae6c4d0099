"""The card and the summary as pages: one file each, with no script and nothing from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from termarena.proof.card import details_of, rows_of
from termarena.proof.faults import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from termarena.proof.report import Proof
    from termarena.proof.summary import Histogram, Summary

__all__ = ["card_page", "summary_page"]

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1c2430;background:#fff}"
    "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #d5dae1;padding:.4rem .6rem;"
    "text-align:left;vertical-align:top}.letter{font-size:2rem;font-weight:700}.bar{background:#3b6ea8;height:.8rem;display:inline-block}"
    "small{color:#5a6676}@media(prefers-color-scheme:dark){body{color:#e4e8ee;background:#151a21}td,th{border-color:#36404d}"
    "small{color:#9aa7b8}}"
)


def card_page(proof: Proof) -> str:
    """The card of one task."""
    return _page(f"{proof.task_id}: {proof.letter}", _card(proof))


def summary_page(summary: Summary) -> str:
    """The summary of a dataset."""
    return _page(f"{summary.tasks} tasks proven", _summary(summary))


def _page(title: str, body: Iterable[str]) -> str:
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"{head}{view}<style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"


def _card(proof: Proof) -> Iterator[str]:
    yield f'<h1>{escape(proof.task_id)} <span class="letter">{proof.letter}</span></h1>'
    yield f"<p>{proof.trials} trials on the {escape(proof.driver)} driver, {escape(proof.made_at)}.</p>"
    if proof.faults:
        told = (
            f"<li><b>{escape(one.rule)}</b>: {escape(RULES.get(one.rule, ''))}. {escape(one.message)}</li>"
            for one in proof.faults
        )
        yield f"<ul>{''.join(told)}</ul>"
    else:
        yield "<p>Nothing is held against it.</p>"
    yield _table(("question", "answer"), rows_of(proof))
    for title, items in details_of(proof):
        yield f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
    yield f"<p><small>Task {escape(proof.task_digest)}, solution {escape(proof.solution_digest[:16])}</small></p>"


def _summary(summary: Summary) -> Iterator[str]:
    yield f"<h1>{summary.tasks} tasks proven</h1>"
    yield "<p>" + ", ".join(f"{escape(letter)}: {count}" for letter, count in summary.letters.items()) + "</p>"
    titles = ("task", "grade", "faults", "flakes", "mutation score", "hackability", "unguarded")
    rows = [
        (row.task_id, row.letter, ", ".join(row.faults), *map(_percent, (row.flake_rate, row.mutation_score)),
         *map(_percent, (row.hackability, row.hackability_unguarded)))
        for row in summary.rows
    ]  # fmt: skip
    yield _table(titles, rows)
    for histogram in summary.histograms:
        yield from _bars(histogram)


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.0%}"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _bars(histogram: Histogram) -> Iterator[str]:
    most = max(*histogram.counts, 1)
    yield f"<h2>{escape(histogram.title)}</h2><table>"
    for number, count in enumerate(histogram.counts):
        bar = f'<span class="bar" style="width:{20 * count / most:.1f}rem"></span>'
        yield f"<tr><td>{number / 10:.1f}</td><td>{bar} {count}</td></tr>"
    yield "</table>" + (f"<p>unknown: {histogram.unknown}</p>" if histogram.unknown else "")
