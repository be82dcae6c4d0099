"""Carrying out a run: what the journal says, what is tried again, and how it stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from support.fake_trials import FACTS, FakeRunner, lines_of, make_tasks
from termarena.core.errors import AgentGone, BudgetLost, ClusterLost, HeadLost, RunNotWritable, UsageError
from termarena.core.run_folder import RunFolder
from termarena.runs.machine import Budget
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.reading import read_run
from termarena.runs.running import Progress, Quiet, Resume, execute, open_run, start_run

if TYPE_CHECKING:
    from pathlib import Path

    from support.fake_trials import End
    from termarena.runs.engine import Job
    from termarena.runs.result import TrialSummary
    from termarena.runs.running import RunEnd
    from termarena.tasks.model import Task

ROOM = Budget(cpus=100, memory_mb=1 << 20)
QUICK = RunOptions(retry_wait_s=0.001)


class Heard(Quiet):
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.last: Progress | None = None

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        self.told.append(f"finished {summary.task_id} {summary.outcome}")
        self.last = progress

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        self.told.append(f"retrying {summary.task_id} after {summary.fault}")
        assert 0 < wait_s < 1
        assert progress.retrying >= 1

    def trial_interrupted(self, job: Job, progress: Progress) -> None:
        self.told.append(f"interrupted {job.plan.key.task_id}")
        self.last = progress

    def notice(self, text: str) -> None:
        self.told.append(text)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def tasks(tmp_path: Path) -> tuple[Task, ...]:
    return make_tasks(tmp_path / "tasks", 3)


async def _run(folder: RunFolder, tasks: tuple[Task, ...], runner: FakeRunner, options: RunOptions = QUICK) -> RunEnd:
    with start_run(options, tasks, folder, FACTS) as run:
        return await execute(run, runner, budget=ROOM)


async def _resume(folder: RunFolder, runner: FakeRunner, resume: Resume | None = None) -> RunEnd:
    with open_run(folder, resume) as run:
        return await execute(run, runner, budget=ROOM)


async def test_a_run_comes_to_its_end(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    runner = FakeRunner(ends={"task-001": ["unsolved"]})
    end = await _run(folder, tasks, runner, RunOptions(attempts=2))
    assert (end.reason, end.progress.solved, end.progress.unsolved, end.progress.left) == ("finished", 4, 2, 0)
    assert runner.is_closed
    lines = lines_of(folder)
    assert (lines[0], lines[-1], len(lines)) == ("run_started", "run_finished", 14)
    assert [key for key, _ in runner.seen] == [TrialKey(f"task-00{n}", attempt) for attempt in (1, 2) for n in range(3)]
    view = read_run(folder)
    assert view.state == "finished"
    assert view.counts == (6, 4, 2, 0, 0)
    assert all(folder.attempt(key.task_id, key.attempt).result.exists() for key in view.lock.trial_keys())


async def test_only_unscored_trials_are_tried_again_and_every_try_is_kept(
    folder: RunFolder, tasks: tuple[Task, ...]
) -> None:
    ends: dict[str, list[End]] = {
        "task-000": ["infra", "test", "solved"],
        "task-001": ["unsolved"],
        "task-002": ["task"],
    }
    heard = Heard()
    with start_run(QUICK, tasks, folder, FACTS) as run:
        end = await execute(run, FakeRunner(ends=ends), heard, budget=ROOM)
    assert (end.progress.retries, end.progress.retrying, end.progress.unscored) == (2, 0, 1)
    assert [text for text in heard.told if text.startswith("retrying")] == [
        "retrying task-000 after infra",
        "retrying task-000 after test",
    ]
    view = read_run(folder)
    tries = view.history.tries(TrialKey("task-000", 1))
    assert [(summary.retry, summary.outcome) for summary in tries] == [(0, "unscored"), (1, "unscored"), (2, "solved")]
    assert [summary.task_id for summary in view.unscored()] == ["task-002"]
    names = sorted(path.name for path in (folder.trials / "task-000").iterdir())
    assert names == ["attempt-1", "attempt-1-retry-1", "attempt-1-retry-2"]


async def test_retries_end(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    runner = FakeRunner(ends={"task-001": ["infra"]})
    end = await _run(folder, tasks, runner)
    assert (end.reason, end.progress.unscored, end.progress.retries) == ("finished", 1, 2)
    assert [retry for key, retry in runner.seen if key.task_id == "task-001"] == [0, 1, 2]


async def test_a_finished_run_has_nothing_to_do(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _run(folder, tasks, FakeRunner(ends={"task-001": ["infra"]}))
    before = folder.journal.read_bytes()
    runner = FakeRunner()
    with open_run(folder) as run:
        assert run.is_finished
        assert run.jobs == ()
        end = await execute(run, runner, budget=ROOM)
    assert (end.reason, end.progress.left, runner.seen) == ("finished", 0, [])
    assert folder.journal.read_bytes() == before


async def test_unscored_trials_are_tried_again_when_asked_for(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _run(folder, tasks, FakeRunner(ends={"task-001": ["infra"], "task-002": ["task"]}))
    runner = FakeRunner()
    end = await _resume(folder, runner, Resume(retry_unscored=True))
    assert sorted(runner.seen) == [(TrialKey("task-001", 1), 3), (TrialKey("task-002", 1), 1)]
    assert (end.reason, end.progress.solved, end.progress.unscored) == ("finished", 3, 0)
    assert read_run(folder).counts == (3, 3, 0, 0, 0)


async def test_interruption_stops_the_running_trials_and_resume_goes_on(
    folder: RunFolder, tasks: tuple[Task, ...]
) -> None:
    runner = FakeRunner(ends={"task-001": ["hang"]})
    with start_run(RunOptions(concurrency=1), tasks, folder, FACTS) as run:
        running = asyncio.ensure_future(execute(run, runner, budget=ROOM))
        await runner.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert runner.cleaned == [TrialKey("task-001", 1)]
    assert runner.is_closed
    assert lines_of(folder)[-2:] == ["trial_interrupted task-001/1/0", "run_interrupted"]
    assert read_run(folder).state == "interrupted"
    again = FakeRunner()
    assert (await _resume(folder, again)).reason == "finished"
    assert [key.task_id for key, _ in again.seen] == ["task-001", "task-002"]
    assert sorted(path.name for path in (folder.trials / "task-001").iterdir()) == [
        "attempt-1",
        "attempt-1-interrupted-1",
    ]


async def test_secrets_in_a_fault_s_message_do_not_reach_the_journal(
    folder: RunFolder, tasks: tuple[Task, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "infra failed")
    await _run(folder, tasks, FakeRunner(ends={"task-001": ["infra"]}))
    assert b"infra failed" not in folder.journal.read_bytes()
    assert [summary.message for summary in read_run(folder).unscored()] == ["[secret SOME_TOKEN]"]


async def test_a_defect_of_the_runner_ends_the_run_and_loses_nothing(
    folder: RunFolder, tasks: tuple[Task, ...]
) -> None:
    runner = FakeRunner(ends={"task-000": ["hang"], "task-001": ["defect"]})
    with pytest.raises(RuntimeError, match="a defect of the runner"):
        await _run(folder, tasks, runner)
    assert runner.cleaned == [TrialKey("task-000", 1)]
    assert lines_of(folder)[-1] == "run_interrupted"
    again = FakeRunner()
    await _resume(folder, again)
    assert [key.task_id for key, _ in again.seen] == ["task-000", "task-001"]


async def test_a_full_disk_under_a_result_stops_the_run(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    heard = Heard()
    runner = FakeRunner(ends={"task-001": ["disk full"]})
    with (
        start_run(RunOptions(concurrency=1), tasks, folder, FACTS) as run,
        pytest.raises(RunNotWritable, match="No space left") as caught,
    ):
        await execute(run, runner, heard, budget=ROOM)
    assert caught.value.exit_status == 1
    assert "termarena resume" in str(caught.value.hint)
    assert [key.task_id for key, _ in runner.seen] == ["task-000", "task-001"]
    assert sum("no further trial starts" in text for text in heard.told) == 1
    assert (await _resume(folder, FakeRunner())).progress.solved == 3


async def test_a_task_larger_than_the_machine_is_told_once_and_runs_alone(folder: RunFolder, tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "large", 2, cpus=64)
    heard = Heard()
    runner = FakeRunner(work=lambda: asyncio.sleep(0))
    with start_run(RunOptions(attempts=2), tasks, folder, FACTS) as run:
        await execute(run, runner, heard, budget=Budget(2, 4096))
    assert [text for text in heard.told if "more than there is" in text] == [
        f"task-00{n} asks for 64 processors and 1024 MB, more than there is: it runs alone" for n in range(2)
    ]
    assert runner.most_alive == 1


def test_a_run_needs_a_folder_of_its_own(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    start_run(QUICK, tasks, folder, FACTS).close()
    with pytest.raises(UsageError, match="holds a run already") as caught:
        start_run(QUICK, tasks, folder, FACTS)
    assert str(caught.value.hint).startswith("for another run name another folder")
    assert f"termarena resume {folder.path}" in str(caught.value.hint)
    other = RunFolder(folder.path.parent / "other")
    other.path.mkdir()
    (other.path / "notes.txt").touch()
    with pytest.raises(UsageError, match="is not empty"):
        start_run(QUICK, tasks, other, FACTS)
    with pytest.raises(UsageError, match="no task to run"):
        start_run(QUICK, (), other, FACTS)
    with pytest.raises(UsageError, match="two of the tasks are called task-000"):
        start_run(QUICK, (tasks[0], tasks[0]), other, FACTS)


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_run_whose_agent_is_gone_stops_and_measures_it_when_it_is_back(
    folder: RunFolder, tmp_path: Path, retries: int
) -> None:
    tasks = make_tasks(tmp_path / "tasks", 8)
    gone: dict[str, list[End]] = {f"task-00{number}": ["gone"] for number in (0, 2, 3, 4)}  # task-001 was there
    options = RunOptions(agent="a2a:http://127.0.0.1:9", concurrency=1, retries=retries)
    with pytest.raises(AgentGone, match="nobody was there for 3 trials in a row") as raised:
        await _run(folder, tasks, FakeRunner(ends=gone), options)
    assert (raised.value.address, raised.value.exit_status) == ("http://127.0.0.1:9", 1)
    assert raised.value.hint == f"start it again, then go on: termarena resume {folder.path}"
    view = read_run(folder)
    assert (view.state, view.counts.unscored, view.history.stopped_by) == ("interrupted", 4, "AgentGone")
    assert view.counts.unsolved == 0

    async def break_off() -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError):
        await _resume(folder, FakeRunner(work=break_off))
    again = FakeRunner()
    end = await _resume(folder, again)
    assert (end.reason, end.progress.solved, end.progress.left) == ("finished", 8, 0)
    assert len(again.seen) == 7  # all but the one that was there


@pytest.mark.parametrize(
    ("lost", "words"), [(HeadLost("10.0.0.1:6379", silent_s=20), " --address"), (BudgetLost(), "")]
)
async def test_a_lost_cluster_interrupts_every_trial_and_the_run_goes_on_elsewhere(
    folder: RunFolder, tasks: tuple[Task, ...], lost: ClusterLost, words: str
) -> None:
    async def lose() -> None:
        raise lost

    with pytest.raises(type(lost), match="is lost") as raised:
        await _run(folder, tasks, FakeRunner(work=lose), QUICK)
    assert f"termarena resume {folder.path}{words}" in str(raised.value.hint)
    view = read_run(folder)
    assert (view.state, view.counts.unscored, view.history.stopped_by) == ("interrupted", 0, type(lost).__name__)
    assert not view.history.open, "every trial has its line"
    end = await _resume(folder, FakeRunner())
    assert (end.reason, end.progress.solved) == ("finished", 3)


async def test_a_run_at_its_end_is_finished_though_its_agent_is_gone(
    folder: RunFolder, tasks: tuple[Task, ...]
) -> None:
    ends: dict[str, list[End]] = {task.id: ["gone"] for task in tasks}
    end = await _run(folder, tasks, FakeRunner(ends=ends), RunOptions(concurrency=1, retries=0))
    assert (end.reason, end.progress.unscored) == ("finished", 3)
