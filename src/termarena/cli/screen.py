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

from termarena.cli.live import left_words, retry_line, trial_line
from termarena.cli.output import on_one_line
from termarena.reports.telling import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from termarena.runs.engine import Job
    from termarena.runs.listening import Progress
    from termarena.runs.plan import TrialKey
    from termarena.runs.result import TrialSummary

__all__ = ["screen"]

MOST_RUNNING: Final = 8
"""So many of those that run are shown, the longest first."""
MOST_FAULTS: Final = 20
"""So many faults are told as they happen."""
BAR_WIDTH: Final = 30
FRAMES_PER_S: Final = 4


class _Screen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._began_s = monotonic()
        self._running: dict[TrialKey, float] = {}
        self._infra_faults = 0
        self._faults_told = 0

    def run_opened(self, progress: Progress) -> None:
        self._progress = progress

    def trial_started(self, job: Job, progress: Progress) -> None:
        self._running[job.plan.key] = monotonic()
        self._progress = progress

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        self._ended(summary, progress)
        if summary.outcome == "unscored":
            self._tell(trial_line(summary))

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        self._ended(summary, progress)
        self._tell(retry_line(summary, wait_s))

    def trial_interrupted(self, job: Job, progress: Progress) -> None:
        self._running.pop(job.plan.key, None)
        self._progress = progress

    def notice(self, text: str) -> None:
        self._console.print(Text(on_one_line(text)))

    def _ended(self, summary: TrialSummary, progress: Progress) -> None:
        for key in [key for key in self._running if key == (summary.task_id, summary.attempt)]:
            del self._running[key]
        self._infra_faults += summary.fault == "infra"
        self._progress = progress

    def _tell(self, line: str) -> None:
        if self._faults_told < MOST_FAULTS:
            self._faults_told += 1
            self._console.print(Text(on_one_line(line), style="yellow"))

    def __rich__(self) -> RenderableType:
        """What is drawn, some times a second."""
        if self._progress is None:
            return Text("opening …")
        return Group(self._head(self._progress), *self._rows())

    def _head(self, progress: Progress) -> Table:
        line = Table.grid(padding=(0, 2, 0, 0))
        cells: list[RenderableType] = [
            ProgressBar(total=max(progress.total, 1), completed=progress.done, width=BAR_WIDTH),
            Text(f"{progress.done:,}/{progress.total:,}"),
            Text(f"{progress.solved:,} solved", style="green"),
            Text(f"{progress.unsolved:,} unsolved", style="red" if progress.unsolved else ""),
        ]
        if progress.unscored or progress.retrying:
            told = f"{progress.unscored:,} unscored" + (f" (+{progress.retrying:,} again)" if progress.retrying else "")
            cells.append(Text(told, style="yellow"))
        if self._infra_faults:
            cells.append(Text(f"{self._infra_faults:,} infra faults", style="yellow"))
        clock = f"{duration(monotonic() - self._began_s)}  {left_words(progress)}"
        line.add_row(*cells, Text(clock.strip(), style="dim"))
        return line

    def _rows(self) -> Iterator[RenderableType]:
        longest = sorted(self._running.copy().items(), key=lambda item: item[1])
        for key, since_s in longest[:MOST_RUNNING]:
            name = on_one_line(key.task_id) + (f" (attempt {key.attempt})" if key.attempt > 1 else "")
            yield Text(f"  {name}  {duration(monotonic() - since_s)}", style="dim", overflow="ellipsis", no_wrap=True)
        if len(longest) > MOST_RUNNING:
            yield Text(f"  and {len(longest) - MOST_RUNNING} more", style="dim")


@contextmanager
def screen() -> Iterator[_Screen]:
    """Draw on stderr while the block runs; nothing of the picture stays, what was told does."""
    console = Console(stderr=True, highlight=False)
    shown = _Screen(console)
    with Live(shown, console=console, refresh_per_second=FRAMES_PER_S, transient=True, redirect_stdout=False):
        yield shown
