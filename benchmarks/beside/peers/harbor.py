"""Harbor: one job folder per command, `result.json` in the folder of every trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from peers.contract import Row, seconds_between

if TYPE_CHECKING:
    from peers.contract import Job

__all__ = ["Harbor"]

JOB = "job"
WHOLE = 1.0


class Harbor(NamedTuple):
    """`harbor run` on folders with a `task.toml`."""

    program: str
    name: str = "harbor"

    def command(self, job: Job) -> list[str]:
        """One job; Harbor deletes its images afterwards, as it does by default."""
        what = ["-p", str(job.tasks), "-a", job.agent, "-n", str(job.concurrency), "-k", str(job.attempts)]
        return [self.program, "run", "-q", "-y", *what, "-o", str(job.out), "--job-name", JOB]

    def rows(self, job: Job) -> dict[str, Row]:
        """By folder; a trial without a reward is unscored, although Harbor's own mean takes it for zero."""
        trials = (json.loads(path.read_text()) for path in sorted(job.out.glob(f"{JOB}/*/result.json")))
        return {Path(trial["task_id"]["path"]).name: _row(trial) for trial in trials}


def _row(trial: dict[str, Any]) -> Row:
    seconds = seconds_between(trial.get("started_at"), trial.get("finished_at"))
    exception = (trial.get("exception_info") or {}).get("exception_type") or ""
    rewards = (trial.get("verifier_result") or {}).get("rewards") or {}
    reward = rewards.get("reward", next(iter(rewards.values()), None))
    if reward is None:
        return Row("unscored", None, exception or "no reward", seconds)
    return Row("solved" if reward >= WHOLE else "unsolved", float(reward), exception, seconds)
