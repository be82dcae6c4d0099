"""The yield as a picture: how many recordings are left after each gate, in Markdown and in HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from termarena.core.markdown import plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.forge.yields import Yields

__all__ = ["funnel_html", "funnel_markdown"]

BAR_CELLS: Final = 30
BAR_PIXELS: Final = 520
ROW_PIXELS: Final = 34
LABEL_PIXELS: Final = 130
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>What came of the recordings</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
body {{ color: #1d2329; background: #fff }} td, th {{ padding: .2rem .8rem .2rem 0; text-align: left }}
svg {{ width: 100%; height: auto }} text {{ font: 13px system-ui, sans-serif; fill: currentColor }}
.bar {{ fill: #3b7dd8 }} .last {{ fill: #2f9e6e }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e6e9ec; background: #14181c }} }}
</style></head><body>
<h1>What came of the recordings</h1>
<p>{summary}</p>
<svg viewBox="0 0 {width} {height}" role="img" aria-label="{summary}">
{bars}
</svg>
<table><tr><th>gate</th><th>came</th><th>refused</th><th>most often because</th></tr>
{rows}
</table>
</body></html>
"""


def _stages(yields: Yields) -> Iterator[tuple[str, int]]:
    """What is left before the first gate and after each that refused some, and what is admitted."""
    judged = yields.recordings - yields.failed
    yield "recordings", judged
    for gate in yields.gates:
        if gate.refused:
            yield f"after {gate.name}", gate.came - gate.refused
    yield "admitted", yields.admitted


def _summary(yields: Yields) -> str:
    failed = f", {yields.failed} to be tried again" if yields.failed else ""
    return f"{yields.admitted} admitted of {yields.recordings} recordings{failed}"


def funnel_markdown(yields: Yields) -> str:
    """Bars of signs, and the gates as a table."""
    stages = list(_stages(yields))
    most = max((count for _, count in stages), default=0)
    bars = [
        f"{name:18} {'█' * (round(BAR_CELLS * count / most) if most else 0):{BAR_CELLS}} {count:>7}"
        for name, count in stages
    ]
    rows = [(gate.name, str(gate.came), str(gate.refused), plain(gate.example)) for gate in yields.gates]
    gates = table(("gate", "came", "refused", "most often because"), rows)
    return "\n".join([f"{_summary(yields)}.", "", "```", *bars, "```", "", gates])


def funnel_html(yields: Yields) -> str:
    """One page that needs nothing else."""
    stages = list(_stages(yields))
    most = max((count for _, count in stages), default=0)
    bars = []
    for row, (name, count) in enumerate(stages):
        width = round(BAR_PIXELS * count / most) if most else 0
        kind = "bar last" if name == "admitted" else "bar"
        # Each bar is centred, so that they narrow as a funnel does.
        left, top = LABEL_PIXELS + (BAR_PIXELS - width) // 2, ROW_PIXELS * row
        bars.append(f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{ROW_PIXELS - 8}" rx="3"/>')
        bars.append(f'<text x="0" y="{top + 18}">{escape(name)}</text>')
        bars.append(f'<text x="{LABEL_PIXELS + BAR_PIXELS + 10}" y="{top + 18}">{count}</text>')
    rows = "\n".join(
        f"<tr><td>{escape(g.name)}</td><td>{g.came}</td><td>{g.refused}</td><td>{escape(g.example)}</td></tr>"
        for g in yields.gates
    )
    return _PAGE.format(
        summary=escape(_summary(yields)),
        width=LABEL_PIXELS + BAR_PIXELS + 80,
        height=ROW_PIXELS * len(stages),
        bars="\n".join(bars),
        rows=rows,
    )
