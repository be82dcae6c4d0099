"""How commands speak: results on stdout, talk on stderr; tables for people, JSON for programs.

No colour unless stdout is a terminal, none with NO_COLOR. Text that came from outside is shown with its control
characters spelled out, so that no task's name can move the cursor or forge a line. rich is imported only where a table
or a progress bar is really drawn.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol, TypedDict

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from termarena.core.errors import TermArenaError

__all__ = [
    "Column",
    "ExitStatus",
    "Failure",
    "JsonOption",
    "Progress",
    "failure_of",
    "on_one_line",
    "print_json",
    "print_line",
    "print_table",
    "print_text",
    "progress",
    "report_failure",
    "say",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


class ExitStatus(IntEnum):
    """What `termarena` answers to its caller."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    INTERRUPTED = 130
    READER_GONE = 141


class Failure(TypedDict, total=False):
    """An error as it is shown; an error of ours adds the fields that it carries."""

    kind: str
    message: str
    hint: str | None


def print_line(text: str = "") -> None:
    """One line of result, on stdout, whatever the text holds."""
    sys.stdout.write(on_one_line(text) + "\n")


def print_text(text: str) -> None:
    """Result of several lines, on stdout: an instruction, say. Every line is taken as the caller's own."""
    sys.stdout.write(text.translate(_SPELLED_OUT) + "\n")


def say(text: str) -> None:
    """One line that is not the result, on stderr, whatever the text holds."""
    sys.stdout.flush()
    sys.stderr.write(on_one_line(text) + "\n")
    sys.stderr.flush()


def print_json(value: object, *, is_line: bool = False) -> None:
    """A result as JSON on stdout, or as one line of several. NaN and unknown types are refused by the encoder."""
    sys.stdout.write(_json_text(value, indent=None if is_line else 2) + "\n")


def _json_text(value: object, *, indent: int | None = None) -> str:
    """JSON in printable ASCII, so that it is the same in every encoding and harmless on every terminal."""
    import json

    return json.dumps(value, indent=indent, ensure_ascii=True, allow_nan=False)


def failure_of(error: TermArenaError) -> Failure:
    """An error of ours with every field it carries, in a form that JSON can hold."""
    import json

    plain: Failure = json.loads(json.dumps(error.as_dict(), default=str))
    return plain


def report_failure(failure: Failure, *, as_json: bool) -> None:
    """Tell an error on stderr: "error: …" and "hint: …", or one JSON object on one line."""
    if as_json:
        say(_json_text({"error": failure}))
        return
    say(f"error: {failure['message']}")
    hint = failure.get("hint")
    if hint:
        say(f"hint: {hint}")


# C0 and C1 controls except newline and tab, the other line separators, and the marks that turn the direction of text.
_CONTROLS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_CONTROLS += [0x061C, 0x200E, 0x200F]
_SPELLED_OUT = {code: f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" for code in _CONTROLS}  # noqa: PLR2004 - one byte
_ON_ONE_LINE = {**_SPELLED_OUT, ord("\n"): "\\n", ord("\t"): "\\t"}


def on_one_line(text: str) -> str:
    """The text with everything that could end the line or move the cursor spelled out, newlines and tabs too."""
    return text.translate(_ON_ONE_LINE)


@dataclass(frozen=True)
class Column:
    """A column of a table; `styles` maps a cell's text to a rich style such as "green"."""

    title: str
    align: Literal["left", "right"] = "left"
    styles: Mapping[str, str] = field(default_factory=dict)


def print_table(columns: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout: fitted to the terminal, or, where stdout is not one, one unbroken line per row.

    A cell that is None is empty. Raises ValueError when a row is not as long as `columns`.
    """
    named = [Column(c) if isinstance(c, str) else c for c in columns]
    cells = [["" if cell is None else on_one_line(str(cell)) for cell in row] for row in rows]
    for line in _drawn(named, cells) if sys.stdout.isatty() else _unbroken(named, cells):
        sys.stdout.write(line.rstrip() + "\n")


_GAP: Final = "  "


def _unbroken(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line per row, each column as wide as its widest cell."""
    texts = [[column.title for column in columns], *rows]
    widths = [max(map(_width, cells)) for cells in zip(*texts, strict=True)]
    for row in texts:
        spaces = [" " * (width - _width(text)) for width, text in zip(widths, row, strict=True)]
        aligned = zip(columns, spaces, row, strict=True)
        yield _GAP.join(space + text if column.align == "right" else text + space for column, space, text in aligned)


def _width(text: str) -> int:
    """Columns on a screen, of which some characters take two and some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _drawn(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """As wide as the terminal, with its colours; cells that are too wide are folded."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, len(_GAP), 0, 0))
    for column in columns:
        table.add_column(Text(column.title), justify=column.align, overflow="fold")
    for row in rows:
        table.add_row(*(Text(t, style=c.styles.get(t, "")) for t, c in zip(row, columns, strict=True)))
    console = Console(file=sys.stdout, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


class Progress(Protocol):
    """How far a long piece of work has come."""

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""

    def move_to(self, done: int, total: int | None) -> None:
        """So much is done of so much; a total of None is one that nobody knows."""


@contextmanager
def progress(what: str, *, total: int | None = None, unit: Literal["items", "bytes"] = "items") -> Iterator[Progress]:
    """Show progress on stderr while the block runs: a bar on a terminal, else a few lines, none if it is quick."""
    if not sys.stderr.isatty():
        yield _Quarters(what, total)
        return
    from termarena.cli.bar import bar

    with bar(what, total=total, unit=unit) as drawn:
        yield drawn


# What is over sooner needs no word in a log.
QUICK_S = 2.0


class _Quarters:
    """Progress for logs: a line per quarter of a known total, at most four however long the work."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._done, self._total, self._told = what, 0, total, 0
        self._start_s = monotonic()

    def advance(self, amount: int = 1) -> None:
        self.move_to(self._done + amount, self._total)

    def move_to(self, done: int, total: int | None) -> None:
        self._done, self._total = done, total
        quarter = 4 * done // total if total else 0
        if quarter > self._told and monotonic() - self._start_s > QUICK_S:
            self._told = quarter
            say(f"{self._what}: {done} of {total}")
