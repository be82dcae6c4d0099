"""Ended trials and runs to report on, with whatever a test does not care for filled in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import LockedTask, RunFacts, lock_of
from termarena.runs.plan import RunOptions
from termarena.runs.reading import History, RunView
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def view(tasks: Iterable[str], trials: Iterable[TrialSummary], **options: Any) -> RunView:  # noqa: ANN401 - any option
    """A run of these tasks, each of the category of its first letter, in which these trials have ended."""
    chosen = RunOptions.model_validate({"agent": "script:a.sh", **options})
    facts = RunFacts(agent_name=chosen.agent, agent_version="1", driver="namespace", dataset="set")
    lock = lock_of(chosen, (), facts)
    known = tuple(LockedTask(id=name, digest="d", path="/", format="harbor", category=name[0]) for name in tasks)
    history = History()
    for one in trials:
        history.keep(one.model_dump())
    return RunView(RunFolder(Path("r")), lock.model_copy(update={"tasks": known}), history, "finished")
