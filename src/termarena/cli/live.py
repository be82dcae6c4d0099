"""How far a run has come, while it runs: a picture on a terminal, lines in a log; always on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from termarena.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.runs.plan import TrialKey
    from termarena.runs.result import TrialSummary

__all__ = ["Course", "Watcher", "trial_line", "watching"]

MOST_LINES: Final = 1_000
"""A run of more trials tells its course every few seconds, instead of every trial."""
MOST_FAULT_LINES: Final = 20
SUMMARY_EVERY_S: Final = 5.0
FEW: Final = 3
"""Before so many trials have ended, nobody can say how long the rest will take."""


class Watcher(Protocol):
    """Is told what happens in a run."""

    def started(self, key: TrialKey, retry: int) -> None:
        """A trial begins, or begins again."""

    def ended(self, summary: TrialSummary, *, is_retried: bool) -> None:
        """A trial has come to an outcome; with `is_retried` it will be tried again, and this one does not count."""

    def stopped(self, key: TrialKey) -> None:
        """A trial was stopped before it came to one."""


class Course:
    """The counts of a run, and when it may end."""

    def __init__(self, total: int, *, solved: int = 0, unsolved: int = 0, unscored: int = 0) -> None:
        """`total` trials are planned; those that an earlier session ended are told here."""
        self.total = total
        self.solved, self.unsolved, self.unscored = solved, unsolved, unscored
        self.faults = 0
        """Of our machinery, retried ones too."""
        self.running: dict[tuple[str, int], float] = {}
        """When each began, by the monotonic clock."""
        self._began_s = monotonic()
        self._done_before = self.done

    @property
    def done(self) -> int:
        """Trials with an outcome."""
        return self.solved + self.unsolved + self.unscored

    def started(self, key: tuple[str, int]) -> None:
        """A trial begins."""
        self.running[key] = monotonic()

    def ended(self, summary: TrialSummary, *, is_retried: bool) -> None:
        """A trial ended, or is to be tried again."""
        self.stopped((summary.task_id, summary.attempt))
        self.faults += summary.fault == "infra"
        if is_retried:
            return
        self.solved += summary.outcome == "solved"
        self.unsolved += summary.outcome == "unsolved"
        self.unscored += summary.outcome == "unscored"

    def stopped(self, key: tuple[str, int]) -> None:
        """A trial does not run any more."""
        self.running.pop(key, None)

    def left_s(self) -> float | None:
        """About how long it will take, at the pace so far; None while that is a guess."""
        ended = self.done - self._done_before
        if ended < FEW or self.done >= self.total:
            return None
        return (monotonic() - self._began_s) / ended * (self.total - self.done)

    def elapsed_s(self) -> float:
        """Since this session began."""
        return monotonic() - self._began_s

    def words(self) -> str:
        """`12 of 80: 7 solved, 4 unsolved, 1 unscored; about 3 min 10 s left`."""
        from termarena.reports.telling import duration

        parts = [f"{self.solved:,} solved", f"{self.unsolved:,} unsolved"]
        parts += [f"{self.unscored:,} unscored"] if self.unscored else []
        left_s = self.left_s()
        ahead = f"; about {duration(left_s)} left" if left_s is not None else ""
        return f"{self.done:,} of {self.total:,}: {', '.join(parts)}{ahead}"


def trial_line(summary: TrialSummary) -> str:
    """One trial on one line: outcome, task, tests, time, and what went wrong."""
    from termarena.reports.telling import duration, tests_words

    name = summary.task_id + (f" (attempt {summary.attempt})" if summary.attempt > 1 else "")
    tests = tests_words(summary.tests_passed, summary.tests_total)
    parts = [f"{summary.outcome:<9}", name, f"{tests} tests" if tests else "", duration(summary.duration_s)]
    if summary.outcome != "solved":
        parts.append(f"{summary.failure_mode}: {summary.message}" if summary.message else summary.failure_mode)
    return "  ".join(part for part in parts if part)


class _Lines:
    """For logs: a line per ended trial, or every few seconds where there are very many."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._has_many = course.total > MOST_LINES
        self._told_at_s = monotonic()
        self._faults_told = 0

    def started(self, key: TrialKey, retry: int) -> None:
        del retry
        self._course.started(key)

    def ended(self, summary: TrialSummary, *, is_retried: bool) -> None:
        self._course.ended(summary, is_retried=is_retried)
        if self._has_many:
            self._summarise(summary)
            return
        width = len(f"{self._course.total}")
        done = " " * width if is_retried else f"{self._course.done:>{width}}"
        say(f"{done}/{self._course.total}  {trial_line(summary)}{'; trying again' if is_retried else ''}")

    def stopped(self, key: TrialKey) -> None:
        self._course.stopped(key)

    def _summarise(self, summary: TrialSummary) -> None:
        if summary.outcome == "unscored" and self._faults_told < MOST_FAULT_LINES:
            self._faults_told += 1
            last = "; further ones are only counted" if self._faults_told == MOST_FAULT_LINES else ""
            say(trial_line(summary) + last)
        if monotonic() - self._told_at_s >= SUMMARY_EVERY_S:
            self._told_at_s = monotonic()
            say(self._course.words())


@contextmanager
def watching(course: Course) -> Iterator[Watcher]:
    """Show the course of a run while the block runs."""
    if not sys.stderr.isatty():
        yield _Lines(course)
        return
    from termarena.cli.screen import screen

    with screen(course) as shown:
        yield shown
