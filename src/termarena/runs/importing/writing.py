"""A peer's run as a run folder of ours: its lock, and a journal with one line for each trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena import __version__
from termarena.runs.config_lock import ConfigLock, LockedDataset, Versions, digest_of_all
from termarena.runs.journal import now
from termarena.runs.opening import begin_run
from termarena.runs.plan import RunOptions

if TYPE_CHECKING:
    from termarena.core.run_folder import RunFolder
    from termarena.runs.importing.foreign import ForeignRun

__all__ = ["write_foreign"]


def write_foreign(run: ForeignRun, folder: RunFolder) -> None:
    """Write the run into a new or empty folder, durable. Nothing is made up: what the peer did not record is unknown.

    The journal says that the run finished only where every trial that was planned came to an outcome. Raises UsageError
    where the folder is not empty, `RunBusy`, `RunNotWritable`.
    """
    lock = _lock_of(run)
    origin = run.origin
    with begin_run(folder, lock, at=origin.started_at) as journal:
        for ended in sorted(run.trials, key=lambda one: one.ended_at or ""):
            journal.append("trial_finished", ended.summary.model_dump(mode="json"), at=ended.ended_at)
        for key in run.stopped:
            journal.append("trial_interrupted", {"task_id": key.task_id, "attempt": key.attempt, "retry": 0})
        if len(run.trials) == lock.trials:
            journal.append("run_finished", at=origin.finished_at)
        journal.sync()


def _lock_of(run: ForeignRun) -> ConfigLock:
    return ConfigLock(
        created_at=now(),
        options=RunOptions(
            agent=run.agent,
            model=run.model,
            driver=run.driver,
            attempts=run.attempts,
            timeout_multiplier=run.timeout_multiplier,
            grading="live",
            integrity="report",
            retries=0,
            keep_state=False,
        ),
        agent=run.agent,
        driver=run.driver,
        versions=Versions(
            termarena=__version__, python="unknown", kernel="unknown", agent=run.agent_version, driver=None
        ),
        dataset=LockedDataset(name=run.dataset, digest=digest_of_all(run.tasks)),
        tasks=run.tasks,
        machine=None,
        argv=(),
        origin=run.origin,
    )
