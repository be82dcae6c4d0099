"""Draw runs as an SVG: a dot for each mean, a bar for its 95 % interval. Needs nothing but Python.

python plot_runs.py RUN… > runs.svg
"""

import json
import sys
from html import escape
from pathlib import Path

LEFT, WIDTH, ROW, TOP = 180, 420, 34, 30


def row(report: dict, number: int) -> str:
    """A run: its name, the interval, the mean; hollow where trials without a score leave it open."""
    y = TOP + ROW * number + ROW / 2
    name = " ".join(str(part) for part in (report["agent"], report["model"]) if part)
    label = f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
    if report["accuracy"] is None:
        return f'{label}<text x="{LEFT}" y="{y + 4}">no score</text>'
    low, high = report["spread"]["low"], report["spread"]["high"]
    fill = "black" if report["accuracy_low"] == report["accuracy_high"] else "white"
    return (
        f'{label}<line x1="{at(low)}" x2="{at(high)}" y1="{y}" y2="{y}" stroke="gray" stroke-width="4"/>'
        f'<circle cx="{at(report["accuracy"])}" cy="{y}" r="5" fill="{fill}" stroke="black"/>'
        f'<text x="{LEFT + WIDTH + 14}" y="{y + 4}">{100 * report["accuracy"]:.0f} %</text>'
    )


def at(share: float) -> float:
    """Where a share of 0 to 1 stands."""
    return round(LEFT + WIDTH * share, 1)


def plot(reports: list[dict]) -> str:
    """The whole picture, the best run first."""
    reports = sorted(reports, key=lambda report: -(report["accuracy"] or 0))
    bottom = TOP + ROW * len(reports)
    grid = "".join(
        f'<line x1="{at(x / 4)}" x2="{at(x / 4)}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>'
        f'<text x="{at(x / 4)}" y="{TOP - 10}" text-anchor="middle">{x * 25} %</text>'
        for x in range(5)
    )
    rows = "".join(row(report, number) for number, report in enumerate(reports))
    size = f'width="{LEFT + WIDTH + 70}" height="{bottom + 10}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">{grid}{rows}</svg>\n'
    )


if __name__ == "__main__":
    runs = sys.argv[1:] or sys.exit(__doc__)
    sys.stdout.write(plot([json.loads((Path(run) / "report.json").read_text()) for run in runs]))
