"""The card and the summary as pages: one file each, with no script and nothing from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

from termarena.proof.card import details_of, rows_of
from termarena.proof.faults import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from termarena.proof.report import Proof
    from termarena.proof.summary import Histogram, Summary

__all__ = ["card_page", "summary_page"]

_STYLE: Final = """
:root{color-scheme:light dark;--text:#1c2430;--soft:#5a6676;--page:#fff;--line:#d5dae1;--bar:#3b6ea8}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ee;--soft:#9aa7b8;--page:#151a21;--line:#36404d;--bar:#6d9fd6}}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--text);
background:var(--page);overflow-wrap:anywhere}
h1{display:flex;gap:.8rem;align-items:center;justify-content:space-between;line-height:1.2;
font-size:clamp(1.3rem,5vw,2rem)}
h2{font-size:1.15rem;margin:1.8rem 0 .4rem}
p.made,small{color:var(--soft)}
.letter{flex:none;min-width:1.6em;text-align:center;border-radius:.3rem;color:#fff;background:#5a6676;padding:.1em .2em}
.A{background:#23763d}.B{background:#4c6b10}.C{background:#8a5a00}.D{background:#a8470b}.F{background:#b3261e}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid var(--line);padding:.4rem .6rem;text-align:left;vertical-align:top}
.answers th{width:36%;font-weight:600}
.rows td{white-space:nowrap}.rows td:nth-child(3){white-space:normal;min-width:11rem;overflow-wrap:normal}
.rows th{vertical-align:bottom;overflow-wrap:normal}
.bars th{width:2.5rem;font-weight:400;border:0;padding:.1rem .6rem}.bars td{border:0;padding:.1rem 0}
.bar{background:var(--bar);height:.8rem;display:inline-block}
@media(max-width:40rem){.answers th,.answers td{display:block;width:auto}.answers th{border:0;padding-bottom:0}
.answers td{padding-top:.1rem}}
"""


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
    name = escape(proof.task_id).replace("/", "/<wbr>")
    yield f"<h1><span>{name}</span> {_badge(proof.letter)}</h1>"
    made = f"{proof.trials} trials on the {proof.driver} driver, {_moment(proof.made_at)}; battery {proof.battery}."
    yield f'<p class="made">{escape(made)}</p>'
    if proof.faults:
        told = (
            f"<li><b>{escape(one.rule)}</b>: {escape(RULES.get(one.rule, ''))}. {escape(one.message)}</li>"
            for one in proof.faults
        )
        yield f"<ul>{''.join(told)}</ul>"
    else:
        yield "<p>Nothing is held against it.</p>"
    rows = (f'<tr><th scope="row">{escape(asked)}</th><td>{escape(told)}</td></tr>' for asked, told in rows_of(proof))
    yield f'<table class="answers">{"".join(rows)}</table>'
    for title, items in details_of(proof):
        yield f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
    yield f"<p><small>Task {escape(proof.task_digest)}, solution {escape(proof.solution_digest[:16])}</small></p>"


def _moment(made_at: str) -> str:
    """A time for people; what is none is shown as it is, since a proof may come from elsewhere."""
    try:
        return f"{datetime.fromisoformat(made_at).astimezone(UTC):%d %B %Y, %H:%M} UTC"
    except (ValueError, OverflowError):
        return made_at


def _badge(letter: str) -> str:
    return f'<span class="letter {escape(letter)}">{escape(letter)}</span>'


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
    return "?" if share is None else f"{100 * share:.0f} %"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _bars(histogram: Histogram) -> Iterator[str]:
    most = max(*histogram.counts, 1)
    yield f'<h2>{escape(histogram.title)}</h2><table class="bars">'
    for number, count in enumerate(histogram.counts):
        bar = f'<span class="bar" style="width:{85 * count / most:.1f}%"></span>'
        yield f'<tr><th scope="row">{number / 10:.1f}</th><td>{bar} {count}</td></tr>'
    yield "</table>" + (f"<p>unknown: {histogram.unknown}</p>" if histogram.unknown else "")
