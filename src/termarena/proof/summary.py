"""The summary of a dataset's proofs: how many of which grade, and how the figures are spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from termarena.proof.card import plain
from termarena.proof.evidence import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.proof.report import Proof

__all__ = ["Histogram", "Row", "Summary", "summary_card", "summary_of"]

BINS: Final = 10
BAR: Final = 30


class Row(Frozen):
    """One task of a summary."""

    task_id: str
    letter: str
    faults: tuple[str, ...]
    flake_rate: float | None
    mutation_score: float | None
    hackability: float | None
    """Under sealed grading."""
    hackability_unguarded: float | None
    """In the agent's own sandbox with nobody looking, as Terminal-Bench grades."""
    seconds: float


class Histogram(Frozen):
    """How a figure between 0 and 1 is spread over ten bins, the last of which holds 1."""

    title: str
    counts: tuple[int, ...]
    unknown: int


class Summary(Frozen):
    """All proofs of one call."""

    tasks: int
    letters: Mapping[str, int]
    faults: Mapping[str, int]
    """How many tasks have each."""
    histograms: tuple[Histogram, ...]
    rows: tuple[Row, ...]


def summary_of(proofs: Sequence[Proof]) -> Summary:
    """The summary, its rows by task."""
    rows = tuple(sorted((_row(one) for one in proofs), key=lambda row: row.task_id))
    return Summary(
        tasks=len(rows),
        letters=dict(sorted(Counter(row.letter for row in rows).items())),
        faults=dict(Counter(rule for row in rows for rule in row.faults).most_common()),
        histograms=(
            _histogram("mutation score", [row.mutation_score for row in rows]),
            _histogram("hackability, sealed", [row.hackability for row in rows]),
            _histogram("hackability, live and unguarded", [row.hackability_unguarded for row in rows]),
            _histogram("flake rate", [row.flake_rate for row in rows]),
        ),
        rows=rows,
    )


def _row(proof: Proof) -> Row:
    hackable = proof.hackable
    return Row(
        task_id=proof.task_id,
        letter=proof.letter,
        faults=tuple(dict.fromkeys(fault.rule for fault in proof.faults)),
        flake_rate=proof.solvable.flake_rate if proof.solvable is not None else None,
        mutation_score=proof.discriminating.score if proof.discriminating is not None else None,
        hackability=hackable.sealed if hackable is not None else None,
        hackability_unguarded=hackable.live_raw if hackable is not None else None,
        seconds=proof.seconds,
    )


def _histogram(title: str, values: Sequence[float | None]) -> Histogram:
    known = [value for value in values if value is not None]
    placed = Counter(min(int(value * BINS), BINS - 1) for value in known)
    return Histogram(
        title=title, counts=tuple(placed[number] for number in range(BINS)), unknown=len(values) - len(known)
    )


def summary_card(summary: Summary) -> str:
    """The summary, as Markdown."""
    return "\n".join(_lines(summary)).rstrip() + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield f"# {summary.tasks} tasks proven"
    yield ""
    yield "Grades: " + ", ".join(f"{letter} {count}" for letter, count in summary.letters.items()) + "."
    if summary.faults:
        yield "Faults: " + ", ".join(f"{rule} {count}" for rule, count in summary.faults.items()) + "."
    yield ""
    yield "| task | grade | faults | flakes | mutation score | hackability | unguarded |"
    yield "|---|---|---|---|---|---|---|"
    for row in summary.rows:
        shares = (row.flake_rate, row.mutation_score, row.hackability, row.hackability_unguarded)
        cells = " | ".join("?" if share is None else f"{100 * share:.0f} %" for share in shares)
        yield f"| {plain(row.task_id)} | {row.letter} | {', '.join(row.faults)} | {cells} |"
    for histogram in summary.histograms:
        yield ""
        yield f"## {histogram.title}"
        yield ""
        yield "```"
        yield from _bars(histogram)
        yield "```"


def _bars(histogram: Histogram) -> Iterator[str]:
    most = max(*histogram.counts, 1)
    for number, count in enumerate(histogram.counts):
        yield f"{number / BINS:.1f} {'#' * round(count * BAR / most):<{BAR}} {count}"
    if histogram.unknown:
        yield f"unknown {histogram.unknown}"
