"""Trying again: only what could not be scored, only where that may help, and not at once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from termarena.runs.engine import Job
    from termarena.runs.plan import RunOptions
    from termarena.runs.result import TrialSummary

__all__ = ["RetryPolicy", "may_retry"]

LONGEST_WAIT_S: Final = 60.0


def may_retry(summary: TrialSummary) -> bool:
    """Whether the same trial, tried again, could come to another end: unscored, and not because the task is bad."""
    return summary.outcome == "unscored" and summary.is_retriable and summary.fault != "task"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait before each retry: twice as long each time, at most a minute, less up to half of it by chance.

    The chance is the seed's, so that the same run waits the same.
    """

    wait_s: float
    seed: str

    @classmethod
    def of(cls, options: RunOptions, *, seed: str) -> RetryPolicy:
        """As the run's options say."""
        return cls(options.retry_wait_s, seed)

    def next(self, job: Job, summary: TrialSummary) -> Job | None:
        """The retry of a job that came to this; None where there is none."""
        if not may_retry(summary) or job.retry >= job.last_retry:
            return None
        return job._replace(retry=job.retry + 1)

    def wait_before(self, job: Job) -> float:
        """Seconds until the retry may start."""
        whole = min(self.wait_s * 2.0 ** min(job.retry - 1, 30), LONGEST_WAIT_S)
        chance = random.Random(f"{self.seed}/{job.plan.key.task_id}/{job.plan.key.attempt}/{job.retry}")  # noqa: S311 - no secret
        return whole * chance.uniform(0.5, 1.0)
