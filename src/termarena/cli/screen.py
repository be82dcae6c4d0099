"""The picture of a run on a terminal: a bar, the counts, and what runs at this moment. rich lives here."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from termarena.cli.live import trial_line
from termarena.cli.output import on_one_line
from termarena.reports.telling import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from termarena.cli.live import Course
    from termarena.runs.plan import TrialKey
    from termarena.runs.result import TrialSummary

__all__ = ["screen"]

MOST_RUNNING: Final = 8
"""So many of those that run are shown, the longest first."""
MOST_FAULTS: Final = 20
BAR_WIDTH: Final = 30
FRAMES_PER_S: Final = 4


class _Screen:
    def __init__(self, course: Course, console: Console) -> None:
        self._course = course
        self._console = console
        self._faults_told = 0

    def started(self, key: TrialKey, retry: int) -> None:
        del retry
        self._course.started(key)

    def ended(self, summary: TrialSummary, *, is_retried: bool) -> None:
        self._course.ended(summary, is_retried=is_retried)
        if summary.outcome == "unscored" and self._faults_told < MOST_FAULTS:
            self._faults_told += 1
            again = "; trying again" if is_retried else ""
            self._console.print(Text(on_one_line(trial_line(summary) + again), style="yellow"))

    def stopped(self, key: TrialKey) -> None:
        self._course.stopped(key)

    def __rich__(self) -> RenderableType:
        """What is drawn, some times a second."""
        return Group(self._head(), *self._running())

    def _head(self) -> Table:
        course = self._course
        line = Table.grid(padding=(0, 2, 0, 0))
        left_s = course.left_s()
        ahead = f"about {duration(left_s)} left" if left_s is not None else ""
        cells: list[RenderableType] = [
            ProgressBar(total=max(course.total, 1), completed=course.done, width=BAR_WIDTH),
            Text(f"{course.done:,}/{course.total:,}"),
            Text(f"{course.solved:,} solved", style="green"),
            Text(f"{course.unsolved:,} unsolved", style="red" if course.unsolved else ""),
        ]
        if course.unscored or course.faults:
            cells.append(Text(f"{course.unscored:,} unscored, {course.faults:,} infra faults", style="yellow"))
        line.add_row(*cells, Text(f"{duration(course.elapsed_s())} {ahead}".strip(), style="dim"))
        return line

    def _running(self) -> Iterator[RenderableType]:
        longest = sorted(self._course.running.copy().items(), key=lambda item: item[1])
        for (task, attempt), since_s in longest[:MOST_RUNNING]:
            name = on_one_line(task) + (f" (attempt {attempt})" if attempt > 1 else "")
            yield Text(f"  {name}  {duration(monotonic() - since_s)}", style="dim", overflow="ellipsis", no_wrap=True)
        if len(longest) > MOST_RUNNING:
            yield Text(f"  and {len(longest) - MOST_RUNNING} more", style="dim")


@contextmanager
def screen(course: Course) -> Iterator[_Screen]:
    """Draw on stderr while the block runs; nothing of the picture stays."""
    console = Console(stderr=True, highlight=False)
    shown = _Screen(course, console)
    with Live(shown, console=console, refresh_per_second=FRAMES_PER_S, transient=True, redirect_stdout=False):
        yield shown
