"""The progress bar that a terminal gets; rich lives here so that nothing else pays for it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bar"]


class _Bar:
    def __init__(self, drawing: Progress, line: TaskID) -> None:
        self._drawing, self._line = drawing, line

    def advance(self, amount: int = 1) -> None:
        self._drawing.advance(self._line, amount)

    def move_to(self, done: int, total: int | None) -> None:
        self._drawing.update(self._line, completed=done, total=total)


@contextmanager
def bar(what: str, *, total: int | None, unit: Literal["items", "bytes"]) -> Iterator[_Bar]:
    """A bar on stderr, gone when the block ends."""
    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    title = TextColumn("{task.description}", markup=False)
    with Progress(
        title, BarColumn(), count, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as drawing:
        yield _Bar(drawing, drawing.add_task(Text(what).plain, total=total))
