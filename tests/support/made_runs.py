"""Run folders with given outcomes: a real lock and a real journal, and no trial behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import ConfigLock, LockedDataset, LockedTask, Origin, Versions, digest_of_all
from termarena.runs.journal import now
from termarena.runs.opening import begin_run
from termarena.runs.outcome import failure_mode_of
from termarena.runs.plan import RunOptions
from termarena.runs.reading import RunView, read_run
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.runs.outcome import Outcome

_OUTCOMES: Final[dict[str, Outcome]] = {"1": "solved", "0": "unsolved", "?": "unscored", "h": "unsolved"}
_REWARDS: Final = {"1": 1.0, "0": 0.0, "h": 0.5}


@dataclass(frozen=True)
class Made:
    """How a run is made, beyond its outcomes."""

    agent: str = "mine"
    model: str | None = None
    dataset: str = "little"
    digests: Mapping[str, str] = field(default_factory=dict)
    """By task; `task1:same` where not given."""
    options: RunOptions | None = None
    origin: Origin | None = None
    cost_usd: float | None = None
    """Of each trial."""


def made_run(path: Path, outcomes: Mapping[str, str], made: Made | None = None) -> RunView:
    """A run; `outcomes` has a letter for each attempt at a task.

    1 is solved, 0 unsolved, h unsolved with half the reward, ? unscored, and - has not run.
    """
    made = made or Made()
    folder = RunFolder(path)
    lock = _lock(outcomes, made)
    with begin_run(folder, lock) as journal:
        for task, letters in outcomes.items():
            for number, letter in enumerate(letters, start=1):
                if letter != "-":
                    summary = _summary(task, number, letter).model_copy(update={"cost_usd": made.cost_usd})
                    journal.append("trial_finished", summary.model_dump(mode="json"))
        if not any("-" in letters for letters in outcomes.values()):
            journal.append("run_finished")
    return read_run(folder)


def _lock(outcomes: Mapping[str, str], made: Made) -> ConfigLock:
    tasks = tuple(
        LockedTask(id=name, digest=made.digests.get(name, "task1:same"), path=f"/tasks/{name}", format="harbor")
        for name in outcomes
    )
    attempts = max(map(len, outcomes.values()))
    options = (made.options or RunOptions()).model_copy(
        update={"agent": made.agent, "model": made.model, "attempts": attempts}
    )
    return ConfigLock(
        created_at=now(),
        options=options,
        agent=made.agent,
        driver="none",
        versions=Versions(termarena="0", python="3", kernel="6", agent="1", driver=None),
        dataset=LockedDataset(name=made.dataset, digest=digest_of_all(tasks)),
        tasks=tasks,
        machine=None,
        argv=(),
        origin=made.origin,
    )


def _summary(task: str, attempt: int, letter: str) -> TrialSummary:
    outcome = _OUTCOMES[letter]
    fault = "infra" if outcome == "unscored" else None
    return TrialSummary(
        task_id=task,
        attempt=attempt,
        outcome=outcome,
        agent_end=None if fault else "submitted",
        fault="infra" if fault else None,
        failure_mode=failure_mode_of(
            outcome, None, "infra" if fault else None, is_tampered=False, tests_timed_out=False
        ),
        reward=_REWARDS.get(letter),
        duration_s=1.0,
        work_s=0.5,
        commands=3,
    )
