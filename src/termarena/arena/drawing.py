"""Drawings as SVG: they need no script, and take their colours from the page."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from termarena.reports.telling import money, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Point", "Range", "interval_bar", "scatter"]

WIDTH: Final = 720
HEIGHT: Final = 340
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 14, 44
LEAST_USD: Final = 1e-6
LONGEST_LABEL: Final = 40
GAP: Final = 9
LETTER: Final = 6.6
LINE: Final = 13
"""About how wide and how high a letter is drawn."""


@dataclass(frozen=True, slots=True)
class Range:
    """An accuracy with its interval, and what it could still become; all from 0 to 1."""

    mean: float | None
    low: float | None
    high: float | None
    worst: float | None = None
    best: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One entry of the plot of cost against accuracy."""

    label: str
    cost_usd: float
    shown: Range
    href: str | None = None
    is_ours: bool = False


def interval_bar(shown: Range) -> Markup:
    """A bar from 0 to 100 %: the interval as a band, the mean as a dot, the bounds as a thin line."""
    if shown.mean is None:
        return Markup("")
    parts = [_line("axis", 0, 9, 200, 9)]
    if shown.worst is not None and shown.best is not None and shown.best > shown.worst:
        parts.append(_line("bounds", 200 * shown.worst, 9, 200 * shown.best, 9))
    if shown.low is not None and shown.high is not None:
        width = max(200 * (shown.high - shown.low), 1.0)
        parts.append(f'<rect class="band" x="{200 * shown.low:.1f}" y="4" width="{width:.1f}" height="10" rx="3"/>')
    parts.append(f'<circle class="dot" cx="{200 * shown.mean:.1f}" cy="9" r="4"/>')
    return Markup(  # noqa: S704 - numbers of ours only
        f'<svg class="bar" viewBox="-5 0 210 18" role="img" aria-label="{_told(shown)}">{"".join(parts)}</svg>'
    )


def scatter(points: Sequence[Point]) -> Markup:
    """Cost of a trial (logarithmic) against accuracy; empty where no cost is known."""
    drawn = [point for point in points if point.cost_usd >= LEAST_USD and point.shown.mean is not None]
    if not drawn:
        return Markup("")
    exponents = [log10(point.cost_usd) for point in drawn]
    low, high = floor(min(exponents)), ceil(max(exponents))
    high = max(high, low + 1)
    named = _named(drawn, low, high)
    marks = (_mark(point, low, high, is_named=number in named) for number, point in enumerate(drawn))
    parts = [*_grid(low, high), *marks]
    return Markup(  # noqa: S704 - what is not ours is escaped where it enters
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="Cost of a trial against accuracy, {len(drawn)} entries">{"".join(parts)}</svg>'
    )


def _told(shown: Range) -> str:
    if shown.low is None or shown.high is None:
        return percent(shown.mean)
    return f"{percent(shown.mean)}, 95 % interval {percent(shown.low)} to {percent(shown.high)}"


def _x(exponent: float, low: int, high: int) -> float:
    return LEFT + (exponent - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _grid(low: int, high: int) -> Iterable[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield _line("grid", LEFT, _y(share), WIDTH - RIGHT, _y(share))
        yield f'<text class="tick end" x="{LEFT - 8}" y="{_y(share) + 4:.1f}">{100 * share:.0f} %</text>'
    for exponent in range(low, high + 1):
        x = _x(exponent, low, high)
        yield _line("grid", x, TOP, x, HEIGHT - BOTTOM)
        yield f'<text class="tick mid" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}">${10.0**exponent:,.6g}</text>'
    yield f'<text class="tick mid" x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}">cost of a trial</text>'


def _named(points: Sequence[Point], low: int, high: int) -> set[int]:
    """Which of them have room for their name: ours, then in the order in which they come. The others tell it when they
    are pointed at."""
    found: set[int] = set()
    taken: list[tuple[float, float, float]] = []
    for number in sorted(range(len(points)), key=lambda one: not points[one].is_ours):
        x, y = _place(points[number], low, high)
        wide = LETTER * len(_short(points[number].label)) + GAP
        left, right = (x - wide, x) if _is_right(x) else (x, x + wide)
        if not any(left < end and begin < right and abs(y - at) < LINE for begin, end, at in taken):
            taken.append((left, right, y))
            found.add(number)
    return found


def _place(point: Point, low: int, high: int) -> tuple[float, float]:
    return _x(log10(point.cost_usd), low, high), _y(point.shown.mean or 0.0)


def _is_right(x: float) -> bool:
    """Whether a name stands to the left of its point, since there is no room beyond it."""
    return x > WIDTH * 0.7


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _mark(point: Point, low: int, high: int, *, is_named: bool) -> str:
    shown = point.shown
    x, y = _place(point, low, high)
    whisker = "" if shown.low is None or shown.high is None else _line("whisker", x, _y(shown.low), x, _y(shown.high))
    side, gap = (" end", -GAP) if _is_right(x) else ("", GAP)
    name = f'<text class="name{side}" x="{x + gap:.1f}" y="{y - 7:.1f}">{escape(_short(point.label))}</text>'
    text = name if is_named else ""
    title = escape(f"{point.label}: {_told(shown)}, {money(point.cost_usd)} a trial")
    kind = "point ours" if point.is_ours else "point"
    mark = f'<g class="{kind}" {_data(point)}><title>{title}</title>{whisker}'
    mark += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>{text}</g>'
    return f'<a href="{escape(point.href)}">{mark}</a>' if point.href else mark


def _data(point: Point) -> str:
    """What a script makes a closer look of."""
    shown = point.shown
    numbers = {"cost": point.cost_usd, "mean": shown.mean, "low": shown.low, "high": shown.high}
    told = " ".join(f'data-{name}="{value:.6g}"' for name, value in numbers.items() if value is not None)
    return f'data-label="{escape(point.label)}" {told}'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
