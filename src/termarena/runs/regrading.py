"""Grading again from captured file states: the agent is not run, and nothing of the first grading is lost."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import (
    CapabilityMissing,
    ImageError,
    RunNotWritable,
    TaskFormatError,
    TermArenaError,
    UsageError,
)
from termarena.core.scrub import Scrubber
from termarena.grading.integrity import examine
from termarena.runs.changed_paths import read_changes
from termarena.runs.concluding import conclude
from termarena.runs.config_lock import check_digests, read_config_lock
from termarena.runs.journal import Journal, now
from termarena.runs.judging import Case
from termarena.runs.locking import hold
from termarena.runs.opening import tasks_again
from termarena.runs.plan import TrialKey
from termarena.runs.reading import history_of
from termarena.runs.recording import read_result, sayable, write_result
from termarena.runs.replacing import discard, has_later, make_place, settle
from termarena.runs.trials import Trials
from termarena.tasks.files import scan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder, RunFolder
    from termarena.grading.contract import Verdict
    from termarena.runs.outcome import Outcome
    from termarena.runs.reading import History
    from termarena.runs.result import TrialResult, TrialSummary
    from termarena.runs.setting import Setting
    from termarena.tasks.model import Task

__all__ = ["RegradeWish", "Regraded", "regrade"]


@dataclass(frozen=True, slots=True)
class RegradeWish:
    """What is to be graded again, and by which tests."""

    tests: Path | None = None
    """A folder of tests that stands in for the task's own; or one with a folder per task, which holds `tests`."""
    wants: Callable[[TrialKey], bool] = lambda _: True
    source: Path | str | None = None
    """The dataset, where it is no longer where the run found it."""


class Regraded(NamedTuple):
    """One trial that was looked at."""

    key: TrialKey
    before: Outcome
    after: Outcome | None
    """None: it was not graded again, `why` says why not."""
    reward: float | None = None
    why: str = ""


async def regrade(run: RunFolder, wish: RegradeWish | None = None, *, home: Path) -> AsyncIterator[Regraded]:
    """Grade every captured state of a run again, sealed, one after the other; the journal gets each new outcome.

    The first grading is kept in the attempt's folder. Whatever ends this process, every attempt has one grading, whole;
    the next call ends what this one had decided. Raises what opening a run raises, `RunNotWritable` when its folder
    takes no more, DigestMismatch where a task has changed and `tests` does not say by which it is to be graded, and
    UsageError where that holds nothing for a task, and for a run that was imported.
    """
    wish = wish or RegradeWish()
    lock = read_config_lock(run)
    if lock.origin is not None:
        raise UsageError(
            f"{run.path} was imported from {lock.origin.tool}: no file state was captured that could be graded again",
            hint=f"run the agent here, or grade again in {lock.origin.tool} and import that into a new folder",
        )
    options = lock.options.model_copy(update={"grading": "sealed", "agent": "nop"})
    with ExitStack() as stack:
        stack.enter_context(hold(run))
        history = history_of(run.journal)
        journal = stack.enter_context(Journal(run.journal, history.tail))
        with _on_disk(run):
            await asyncio.to_thread(_finish_earlier, run, history, journal)
        wanted = [summary for summary in history.summaries() if wish.wants(_key(summary))]
        tasks = tasks_again(lock, {summary.task_id for summary in wanted}, wish.source or history.source)
        if wish.tests is None:
            expected = {task.id: task.digest for task in lock.tasks} | history.changed
            check_digests(
                expected,
                [task for task in tasks.values() if expected[task.id]],
                hint="put the files back, or name the new tests with --tests",
            )
        tests = _TestsOf(wish.tests)
        chosen: Mapping[str, Task] = {name: tests.put_into(task, alone=len(tasks) == 1) for name, task in tasks.items()}
        async with Trials(options, home=home, run_id=run.id) as trials:
            for summary in wanted:
                folder = run.attempt(summary.task_id, summary.attempt, retry=summary.retry)
                with _on_disk(run):
                    regraded = await _regrade_one(folder, chosen[summary.task_id], summary, trials, journal)
                yield regraded


@contextmanager
def _on_disk(run: RunFolder) -> Iterator[None]:
    """Says of a disk that takes no more what to do; nothing is half-written then. Raises `RunNotWritable`."""
    try:
        yield
    except TermArenaError:
        raise
    except OSError as error:
        path, problem = str(error.filename or run.path), error.strerror or str(error)
        then = "termarena regrade RUN again"
        raise RunNotWritable(path, problem=problem, errno=error.errno, then=then) from error


def _finish_earlier(run: RunFolder, history: History, journal: Journal) -> None:
    """What a call that was killed had decided counts, in the journal too; what it had only begun is thrown away."""
    scrubber = Scrubber.from_environment(os.environ)
    for summary in [*history.summaries()]:
        folder = run.attempt(summary.task_id, summary.attempt, retry=summary.retry)
        if not folder.regrading.is_dir():
            continue
        if not has_later(folder):
            discard(folder)
            continue
        decided = sayable(read_result(folder).summary(), scrubber)
        if decided != summary:
            fields = decided.model_dump(mode="json")
            journal.append("trial_regraded", fields)
            journal.sync()
            history.keep(fields)
        settle(folder)


def _key(summary: TrialSummary) -> TrialKey:
    return TrialKey(summary.task_id, summary.attempt)


async def _regrade_one(
    folder: AttemptFolder, task: Task, summary: TrialSummary, trials: Trials, journal: Journal
) -> Regraded:
    why = _why_not(folder, task, summary)
    if why:
        return Regraded(_key(summary), summary.outcome, None, why=why)
    try:
        result = await asyncio.to_thread(read_result, folder)
        regraded = await _grade_again(folder, task, result, trials)
    except (ImageError, CapabilityMissing, TaskFormatError) as error:
        return Regraded(_key(summary), summary.outcome, None, why=error.message)
    journal.append("trial_regraded", sayable(regraded.summary(), trials.scrubber).model_dump(mode="json"))
    journal.sync()
    await asyncio.to_thread(settle, folder)
    return Regraded(_key(summary), summary.outcome, regraded.outcome, regraded.reward)


def _why_not(folder: AttemptFolder, task: Task, summary: TrialSummary) -> str:
    if not folder.state.is_file():
        return "its file state was not captured"
    if summary.graded_in == "live":
        return "its verdict came from processes that were running, which no file state holds"
    return "only the state after its last step was captured" if task.steps else ""


async def _grade_again(folder: AttemptFolder, task: Task, result: TrialResult, trials: Trials) -> TrialResult:
    """The result of a later grading, which counts from now on and has its place beside the earlier one."""
    place = await asyncio.to_thread(make_place, folder)
    try:
        verdict = await _judged_again(folder, place, task, result, trials.setting_on(result.sandbox.driver))
        again = _with(result, verdict, task)
        await asyncio.to_thread(write_result, place, again, trials.scrubber)
    except BaseException:
        discard(folder)
        raise
    return again


def _with(result: TrialResult, verdict: Verdict, task: Task) -> TrialResult:
    found = conclude(result.agent_end, verdict, None)
    return result.model_copy(
        update={
            "outcome": found.outcome,
            "fault": found.fault,
            "failure_mode": found.failure_mode,
            "fault_detail": found.detail,
            "reward": verdict.reward,
            "verdict": verdict,
            "task_digest": task.digest,
            "regraded_at": now(),
        }
    )


async def _judged_again(
    folder: AttemptFolder, place: AttemptFolder, task: Task, result: TrialResult, setting: Setting
) -> Verdict:
    changes = await asyncio.to_thread(read_changes, folder)
    async with AsyncExitStack() as stack:
        snapshot = await asyncio.to_thread(setting.driver.load, folder.state)
        stack.callback(snapshot.close)
        box = await stack.enter_async_context(setting.driver.start(snapshot))
        case = Case(
            task=task,
            tests=task.tests,
            grading=task.grading,
            artifacts=task.artifacts,
            box=box,
            start=None,
            snapshot=snapshot,
            changes=changes,
            findings=await examine(box, changes, task),
            processes_left=0,
            agent_end=result.agent_end or "error",
            terminal=None,
            output=place.test_output,
            logs=place.logs,
            is_last=True,
        )
        return await setting.judge.judge(case)


class _TestsOf:
    """The tests that stand in for those of a task."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def put_into(self, task: Task, *, alone: bool) -> Task:
        if self._folder is None or task.tests is None:
            return task
        found = next((path for path in self._places(task, alone=alone) if path.is_dir()), None)
        if found is None:
            raise UsageError(
                f"{self._folder} holds no tests for {task.id}",
                hint="give the tests' folder of one task with --task ID, or a folder with ID/tests for each",
            )
        files = scan(str(found), boundary=str(found))
        if task.tests.entry is not None and files.get(task.tests.entry) is None:
            raise UsageError(f"{found} has no {task.tests.entry}", hint="tests keep the name of the task's own script")
        changed = task.model_copy(update={"tests": task.tests.model_copy(update={"files": files})})
        changed.__dict__.pop("digest", None)  # the old one's, if it was asked for
        return changed

    def _places(self, task: Task, *, alone: bool) -> tuple[Path, ...]:
        if self._folder is None:
            return ()
        own = self._folder / task.id.rpartition("/")[2]
        return (own / "tests", own, *((self._folder,) if alone else ()))
