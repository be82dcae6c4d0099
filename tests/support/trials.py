"""Ended trials and runs to report on, with whatever a test does not care for filled in."""

from __future__ import annotations

from typing import Any

from termarena.reports import RunFacts, TaskFacts
from termarena.runs.plan import RunOptions
from termarena.runs.result import TrialSummary

MODES = {"solved": "NONE", "unsolved": "TEST_FAILED", "unscored": "INFRA_FAULT"}
REWARDS = {"solved": 1.0, "unsolved": 0.0, "unscored": None}


def trial(task: str, outcome: str, attempt: int = 1, **more: Any) -> TrialSummary:  # noqa: ANN401 - any field
    fields = {
        "task_id": task,
        "attempt": attempt,
        "outcome": outcome,
        "failure_mode": MODES[outcome],
        "fault": "infra" if outcome == "unscored" else None,
        "agent_end": None if outcome == "unscored" else "submitted",
        "reward": REWARDS[outcome],
        "graded_in": None if outcome == "unscored" else "sealed",
        "duration_s": 2.0,
        "work_s": 1.0,
        "commands": 3,
    }
    return TrialSummary.model_validate(fields | more)


def facts(*tasks: str, **options: Any) -> RunFacts:  # noqa: ANN401 - any option
    known = {name: TaskFacts(category=name[0], difficulty="easy") for name in tasks}
    return RunFacts("r", RunOptions.model_validate({"agent": "script:a.sh", **options}), "set", known)
