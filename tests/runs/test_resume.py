"""Going on with a run: exactly what is left, whatever ended it and wherever it lies now."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from support.fake_trials import FACTS, FakeRunner, lines_of, make_tasks
from support.run_process import begin
from termarena.core.errors import DigestMismatch, JournalDamaged, NotFound, RunBusy, RunNotWritable
from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import read_config_lock, write_config_lock
from termarena.runs.machine import Budget
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.reading import read_run
from termarena.runs.running import Quiet, Resume, RunEnd, execute, open_run, start_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.fake_trials import End
    from termarena.tasks.model import Task

ROOM = Budget(cpus=100, memory_mb=1 << 20)
ONE_AT_A_TIME = RunOptions(concurrency=1, retry_wait_s=0.001)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def tasks(tmp_path: Path) -> tuple[Task, ...]:
    return make_tasks(tmp_path / "tasks", 4)


async def _interrupted(
    folder: RunFolder, tasks: Sequence[Task], *, at: str, ends: dict[str, list[End]] | None = None
) -> None:
    """A run that stopped while it was at a task."""
    runner = FakeRunner(ends={**(ends or {}), at: ["hang"]})
    with start_run(ONE_AT_A_TIME, tasks, folder, FACTS) as run:
        running = asyncio.ensure_future(execute(run, runner, budget=ROOM))
        await runner.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def _resume(folder: RunFolder, runner: FakeRunner | None = None, resume: Resume | None = None) -> RunEnd:
    with open_run(folder, resume) as run:
        return await execute(run, runner or FakeRunner(), budget=ROOM)


async def test_only_what_has_no_outcome_is_run_again(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _interrupted(folder, tasks, at="task-002", ends={"task-001": ["unsolved"]})
    runner = FakeRunner()
    end = await _resume(folder, runner)
    assert [key.task_id for key, _ in runner.seen] == ["task-002", "task-003"]
    assert (end.reason, end.progress.solved, end.progress.unsolved) == ("finished", 3, 1)
    assert read_run(folder).history.resumes == 1


async def test_a_trial_that_was_to_be_retried_still_is(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    """Stopped between two tries: what an uninterrupted run would have done is done."""
    runner = FakeRunner(ends={"task-000": ["infra"]})
    with start_run(RunOptions(retry_wait_s=3600), tasks[:1], folder, FACTS) as run:
        waiting = _Waiting()
        running = asyncio.ensure_future(execute(run, runner, waiting, budget=ROOM))
        await waiting.is_waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    again = FakeRunner()
    end = await _resume(folder, again)
    assert again.seen == [(TrialKey("task-000", 1), 1)]
    assert end.progress.solved == 1


class _Waiting(Quiet):
    def __init__(self) -> None:
        self.is_waiting = asyncio.Event()

    def trial_retrying(self, *_: object, **__: object) -> None:
        self.is_waiting.set()


async def test_a_partial_attempt_is_kept_under_another_name(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _interrupted(folder, tasks, at="task-000")
    for _ in range(2):
        runner = FakeRunner(ends={"task-000": ["hang"]})
        with open_run(folder) as run:
            running = asyncio.ensure_future(execute(run, runner, budget=ROOM))
            await runner.hanging.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    await _resume(folder)
    attempts = folder.trials / "task-000"
    assert sorted(path.name for path in attempts.iterdir()) == [
        "attempt-1",
        *(f"attempt-1-interrupted-{number}" for number in (1, 2, 3)),
    ]
    assert all((path / "trajectory.json").exists() for path in attempts.iterdir())
    assert [path.name for path in attempts.iterdir() if (path / "result.json").exists()] == ["attempt-1"]


async def test_a_moved_run_resumes(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _interrupted(folder, tasks, at="task-001")
    moved = RunFolder(folder.path.parent / "elsewhere" / "renamed")
    moved.path.parent.mkdir()
    folder.path.rename(moved.path)
    assert (await _resume(moved)).progress.solved == 4
    assert not folder.path.exists()


async def test_a_moved_dataset_is_named_once(folder: RunFolder, tasks: tuple[Task, ...], tmp_path: Path) -> None:
    await _interrupted(folder, tasks, at="task-001")
    (tmp_path / "tasks").rename(tmp_path / "moved")
    with pytest.raises(NotFound, match="task-001, task-002, task-003") as caught:
        open_run(folder)
    assert "--path" in str(caught.value.hint)
    runner = FakeRunner(ends={"task-002": ["hang"]})
    with open_run(folder, Resume(source=tmp_path / "moved")) as run:
        running = asyncio.ensure_future(execute(run, runner, budget=ROOM))
        await runner.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (await _resume(folder)).progress.solved == 4


async def test_changed_tasks_are_refused_by_name(folder: RunFolder, tasks: tuple[Task, ...], tmp_path: Path) -> None:
    await _interrupted(folder, tasks, at="task-001")
    for name in ("task-000", "task-001", "task-003"):
        (tmp_path / "tasks" / name / "instruction.md").write_text("Something else.\n")
    before = folder.journal.read_bytes()
    with pytest.raises(DigestMismatch) as caught:
        open_run(folder)
    # The first has its outcome: what becomes of its files now changes nothing.
    assert caught.value.files == ("task task-001 has changed", "task task-003 has changed")
    assert "--allow-changed" in str(caught.value.hint)
    assert folder.journal.read_bytes() == before


async def test_changed_tasks_can_be_accepted_and_are_recorded(
    folder: RunFolder, tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    await _interrupted(folder, tasks, at="task-001")
    (tmp_path / "tasks" / "task-003" / "instruction.md").write_text("Something else.\n")
    runner = FakeRunner(ends={"task-003": ["hang"]})
    with open_run(folder, Resume(allow_changed=True)) as run:
        running = asyncio.ensure_future(execute(run, runner, budget=ROOM))
        await runner.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    history = read_run(folder).history
    assert list(history.changed) == ["task-003"]
    assert history.changed["task-003"] != tasks[3].digest
    assert (await _resume(folder)).progress.solved == 4


async def test_another_version_is_told_and_not_refused(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _interrupted(folder, tasks, at="task-001")
    lock = read_config_lock(folder)
    older = lock.versions.model_copy(update={"termarena": "0.0.1"})
    write_config_lock(folder, lock.model_copy(update={"versions": older}))
    with open_run(folder) as run:
        assert len(run.notices) == 1
        assert "0.0.1" in run.notices[0]
        assert (await execute(run, FakeRunner(), budget=ROOM)).reason == "finished"


async def test_a_run_killed_before_its_first_line_begins(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    start_run(ONE_AT_A_TIME, tasks, folder, FACTS).close()
    folder.journal.unlink()
    assert (await _resume(folder)).progress.solved == 4
    assert lines_of(folder)[0] == "run_started"


async def _cut_before_the_end_of_task_2(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    with start_run(ONE_AT_A_TIME, tasks, folder, FACTS) as run:
        await execute(run, FakeRunner(), budget=ROOM)
    whole = folder.journal.read_bytes()
    folder.journal.write_bytes(whole[: whole.index(b'"event":"trial_finished"', whole.index(b"task-002"))])


async def test_a_truncated_journal_can_be_resumed(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _cut_before_the_end_of_task_2(folder, tasks)
    runner = FakeRunner()
    end = await _resume(folder, runner)
    assert [key.task_id for key, _ in runner.seen] == ["task-003"]
    assert (end.reason, end.progress.solved) == ("finished", 4)
    names = sorted(path.name for path in (folder.trials / "task-003").iterdir())
    assert names == ["attempt-1", "attempt-1-interrupted-1"]


async def test_a_whole_result_counts_though_the_journal_never_had_it(
    folder: RunFolder, tasks: tuple[Task, ...]
) -> None:
    """Killed, or out of space, between the two: hours of an agent's work are not thrown away."""
    await _cut_before_the_end_of_task_2(folder, tasks)
    with open_run(folder) as run:
        assert [summary.task_id for summary in run.adopted] == ["task-002"]
    runner = FakeRunner()
    await _resume(folder, runner)
    assert [key.task_id for key, _ in runner.seen] == ["task-003"]
    assert lines_of(folder).count("trial_finished task-002/1/0") == 1
    assert [path.name for path in (folder.trials / "task-002").iterdir()] == ["attempt-1"]


@pytest.mark.parametrize("damage", ["{", '{"kind": "trial-result", "schema_version": 1}', "other"])
async def test_a_result_that_is_none_does_not(folder: RunFolder, tasks: tuple[Task, ...], damage: str) -> None:
    await _cut_before_the_end_of_task_2(folder, tasks)
    of_another = folder.attempt("task-001", 1).result.read_text()
    folder.attempt("task-002", 1).result.write_text(of_another if damage == "other" else damage)
    runner = FakeRunner()
    await _resume(folder, runner)
    assert [key.task_id for key, _ in runner.seen] == ["task-002", "task-003"]
    names = sorted(path.name for path in (folder.trials / "task-002").iterdir())
    assert names == ["attempt-1", "attempt-1-interrupted-1"]


async def test_a_damaged_journal_is_refused_and_left_as_it_is(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _interrupted(folder, tasks, at="task-002")
    damaged = folder.journal.read_bytes().replace(b"task-000", b"task-00X", 1)
    folder.journal.write_bytes(damaged)
    with pytest.raises(JournalDamaged, match="line 2"):
        open_run(folder)
    assert folder.journal.read_bytes() == damaged


async def test_another_number_at_once_can_be_asked_for(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    await _interrupted(folder, tasks, at="task-000")
    runner = FakeRunner(work=lambda: asyncio.sleep(0))
    await _resume(folder, runner, Resume(concurrency=3))
    assert runner.most_alive == 3


def test_a_folder_that_is_no_run_stays_untouched(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_run(RunFolder(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_second_of_two_processes_resuming_one_run_is_refused(
    folder: RunFolder, tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    assert len(tasks) == 4
    with begin("hang", tmp_path / "tasks", folder) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"hanging\n"
        try:
            assert read_run(folder).state == "running"
            with pytest.raises(RunBusy, match=f"process {first.pid} on ") as caught:
                open_run(folder)
            assert caught.value.exit_status == 2
        finally:
            first.kill()
    # The lock has gone with its holder.
    assert read_run(folder).state == "interrupted"
    with open_run(folder) as run:
        assert len(run.jobs) == 4


def test_looking_at_a_run_does_not_keep_it_from_being_resumed(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    start_run(ONE_AT_A_TIME, tasks, folder, FACTS).close()
    with read_run(folder).folder.lock.open() as looked_at:
        assert looked_at.readable()
        open_run(folder).close()


async def test_a_run_of_the_samples_finds_them_again(folder: RunFolder, tmp_path: Path) -> None:
    """They are part of the program, which may have been installed anew elsewhere."""
    from termarena.tasks import SAMPLES, load_dataset  # noqa: PLC0415 - only here

    samples = tmp_path / "site-packages" / "samples"
    shutil.copytree(load_dataset(SAMPLES).path, samples)
    chosen = load_dataset(samples).tasks[:2]
    facts = FACTS.model_copy(update={"dataset": SAMPLES})
    start_run(ONE_AT_A_TIME, chosen, folder, facts).close()
    shutil.rmtree(samples)
    assert (await _resume(folder)).progress.solved == 2


def test_a_run_that_cannot_be_held_is_told(folder: RunFolder, tasks: tuple[Task, ...]) -> None:
    start_run(ONE_AT_A_TIME, tasks, folder, FACTS).close()
    folder.lock.unlink()
    folder.lock.mkdir()
    with pytest.raises(RunNotWritable, match="Is a directory"):
        open_run(folder)
