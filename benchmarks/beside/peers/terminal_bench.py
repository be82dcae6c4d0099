"""Terminal-Bench 1's `tb`: one run folder per command, one `results.json` for all of its trials."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from peers.contract import Row, seconds_between

if TYPE_CHECKING:
    from peers.contract import Job

__all__ = ["TerminalBench"]

RUN = "run"
# What `tb` writes when Docker or it itself failed, and when it could not read the tests' output.
NOT_MEASURED = {"unknown_agent_error", "parse_error", "agent_installation_failed"}


class TerminalBench(NamedTuple):
    """`tb run` on folders with a `task.yaml`."""

    program: str
    name: str = "tb"

    def command(self, job: Job) -> list[str]:
        """One run; `tb` deletes its images afterwards, as it does by default."""
        what = ["--dataset-path", str(job.tasks), "--agent", job.agent, "--n-concurrent", str(job.concurrency)]
        return [
            *(self.program, "run", *what, "--n-attempts", str(job.attempts)),
            *("--output-path", str(job.out), "--run-id", RUN),
        ]

    def rows(self, job: Job) -> dict[str, Row]:
        """By folder, which is `tb`'s id of a task."""
        results = job.out / RUN / "results.json"
        if not results.is_file():
            return {}
        return {trial["task_id"]: _row(trial) for trial in json.loads(results.read_text())["results"]}


def _row(trial: dict[str, Any]) -> Row:
    seconds = seconds_between(trial.get("trial_started_at"), trial.get("trial_ended_at"))
    mode = str(trial.get("failure_mode") or "")
    note = "" if mode == "unset" else mode
    if trial.get("is_resolved"):
        return Row("solved", 1.0, note, seconds)
    if trial.get("is_resolved") is None or mode in NOT_MEASURED:
        return Row("unscored", None, note or "no result", seconds)
    return Row("unsolved", 0.0, note, seconds)
