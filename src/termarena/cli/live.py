"""How far a run has come, while it runs: a picture on a terminal, lines in a log; always on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

from termarena.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.runs.engine import Job
    from termarena.runs.listening import Listener, Progress
    from termarena.runs.result import TrialSummary

__all__ = ["counts_words", "left_words", "listening", "trial_line"]

MOST_LINES: Final = 1_000
"""A run of more trials tells how far it is every few seconds, instead of every trial."""
MOST_FAULT_LINES: Final = 20
SUMMARY_EVERY_S: Final = 5.0
FEW: Final = 3
"""Before so many trials have ended, nobody can say how long the rest will take."""


@contextmanager
def listening() -> Iterator[Listener]:
    """Show a run while the block runs; what it gives is to be told what happens."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from termarena.cli.screen import screen

    with screen() as shown:
        yield shown


def trial_line(summary: TrialSummary) -> str:
    """One trial on one line: outcome, task, tests, time, and what went wrong."""
    from termarena.reports.telling import duration, tests_words

    name = summary.task_id + (f" (attempt {summary.attempt})" if summary.attempt > 1 else "")
    tests = tests_words(summary.tests_passed, summary.tests_total)
    parts = [f"{summary.outcome:<8}", name, f"{tests} tests" if tests else "", duration(summary.duration_s)]
    if summary.outcome != "solved":
        parts.append(f"{summary.failure_mode}: {summary.message}" if summary.message else summary.failure_mode)
    return "  ".join(part for part in parts if part)


def counts_words(progress: Progress) -> str:
    """`12 of 80: 7 solved, 4 unsolved, 1 unscored`."""
    parts = [f"{progress.solved:,} solved", f"{progress.unsolved:,} unsolved"]
    parts += [f"{progress.unscored:,} unscored"] if progress.unscored else []
    parts += [f"{progress.retrying:,} to be tried again"] if progress.retrying else []
    return f"{progress.done:,} of {progress.total:,}: {', '.join(parts)}"


def left_words(progress: Progress) -> str:
    """`about 3 min 10 s left`, or nothing while that is a guess."""
    from termarena.reports.telling import duration

    is_known = progress.eta_s is not None and progress.finished_here >= FEW and progress.left
    return f"about {duration(progress.eta_s)} left" if is_known else ""


class _Lines:
    """For logs: a line per ended trial, or one every few seconds where there are very many."""

    def __init__(self) -> None:
        self._told_at_s = monotonic()
        self._faults_told = 0

    def run_opened(self, progress: Progress) -> None:
        if progress.done:
            say(f"so far {counts_words(progress)}")

    def trial_started(self, job: Job, progress: Progress) -> None:
        """Its end is told."""

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        if progress.total > MOST_LINES:
            self._tell_many(summary, progress)
        else:
            say(f"{progress.done:>{len(str(progress.total))}}/{progress.total}  {trial_line(summary)}")

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        if progress.total > MOST_LINES:
            self._tell_many(summary, progress)
        else:
            say(f"{' ' * len(str(progress.total))}/{progress.total}  {retry_line(summary, wait_s)}")

    def trial_interrupted(self, job: Job, progress: Progress) -> None:
        """The end of the run tells how many have no outcome."""

    def notice(self, text: str) -> None:
        say(text)

    def _tell_many(self, summary: TrialSummary, progress: Progress) -> None:
        if summary.outcome == "unscored" and self._faults_told < MOST_FAULT_LINES:
            self._faults_told += 1
            last = "; further ones are only counted" if self._faults_told == MOST_FAULT_LINES else ""
            say(trial_line(summary) + last)
        if monotonic() - self._told_at_s >= SUMMARY_EVERY_S:
            self._told_at_s = monotonic()
            say(", ".join(part for part in (counts_words(progress), left_words(progress)) if part))


def retry_line(summary: TrialSummary, wait_s: float) -> str:
    """A try that does not count, on one line."""
    return f"{trial_line(summary)}; trying again in {wait_s:.0f} s"
