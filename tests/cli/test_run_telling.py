"""How a run is carried out and told, with real journals and folders and without sandboxes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.fake_trials import FACTS, FakeRunner, make_tasks
from support.folders import harbor
from termarena.cli.carrying import carry_out
from termarena.core.errors import RunNotWritable
from termarena.core.run_folder import RunFolder
from termarena.reports import read_report
from termarena.runs.config_lock import BrokenTaskFacts, RunFacts
from termarena.runs.opening import Resume, open_run, start_run
from termarena.runs.plan import RunOptions

if TYPE_CHECKING:
    from support.fake_trials import End
    from termarena.runs.opening import OpenRun
    from termarena.tasks import Task


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Task, ...]:
    monkeypatch.chdir(tmp_path)
    return make_tasks(tmp_path / "tasks", 4)


def begin(tasks: tuple[Task, ...], facts: RunFacts = FACTS, **options: Any) -> OpenRun:  # noqa: ANN401 - any option
    chosen = RunOptions.model_validate({"agent": "fake", "retries": 1, "retry_wait_s": 0, **options})
    return start_run(chosen, tasks, RunFolder(Path("runs/first").absolute()), facts)


def test_a_run_ends_with_a_table_a_headline_and_the_next_command(
    tasks: tuple[Task, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    ends: dict[str, list[End]] = {"task-001": ["unsolved"], "task-002": ["infra", "solved"], "task-003": ["test"]}
    status = carry_out(begin(tasks), FakeRunner(ends), json=False)
    told = capsys.readouterr()
    assert status == 0
    rows = [line.split() for line in told.out.splitlines()[:5]]
    assert rows[0][:4] == ["task", "outcome", "reward", "time"]
    assert [row[:2] for row in rows[1:]] == [
        ["task-000", "solved"],
        ["task-001", "unsolved"],
        ["task-002", "solved"],
        ["task-003", "unscored"],
    ]
    headline = "accuracy 66.7 % (between 50.0 % and 75.0 %): 2 solved, 1 unsolved, 1 unscored of 4 trials at 4 tasks"
    assert headline in told.out
    assert re.search(r"1/4  solved +task-000", told.err)
    assert re.search(r"/4  unscored +task-002 .*INFRA_FAULT: infra failed; trying again in 0 s", told.err)
    assert "unscored: task-003/1: TEST_FAULT: test failed" in told.err
    assert "results in runs/first" in told.err
    assert told.err.splitlines()[-1] == "next: termarena resume runs/first --retry-unscored"


def test_the_score_does_not_change_the_exit_status(tasks: tuple[Task, ...]) -> None:
    ends: dict[str, list[End]] = {task.id: ["unsolved"] for task in tasks}
    assert carry_out(begin(tasks), FakeRunner(ends), json=False) == 0


def test_a_run_in_which_nothing_could_be_scored_is_a_fault(
    tasks: tuple[Task, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    ends: dict[str, list[End]] = {task.id: ["infra"] for task in tasks}
    assert carry_out(begin(tasks, retries=0), FakeRunner(ends), json=False) == 1
    told = capsys.readouterr()
    assert "accuracy unknown (between 0.0 % and 100.0 %)" in told.out
    assert "no trial could be scored" in told.err
    assert "unscored: task-000/1 and 3 more: INFRA_FAULT: infra failed" in told.err


def test_json_is_the_report_and_where_it_lies(tasks: tuple[Task, ...], capsys: pytest.CaptureFixture[str]) -> None:
    opened = begin(tasks, attempts=2)
    assert carry_out(opened, FakeRunner({"task-000": ["solved", "unsolved"]}), json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["accuracy"], shown["total"]) == ("finished", 0.875, 8)
    assert read_report(opened.folder.report).accuracy == 0.875
    assert opened.folder.report_text.read_text().startswith("# fake on little")


def test_an_interrupted_run_says_how_to_go_on_and_then_does(
    tasks: tuple[Task, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    runner = FakeRunner({"task-002": ["hang"]})
    opened = begin(tasks, concurrency=1)

    class Interrupting(FakeRunner):
        async def run(self, *given: Any, **more: Any) -> Any:  # noqa: ANN401 - hands everything through
            trial = asyncio.create_task(runner.run(*given, **more))
            hanging = asyncio.create_task(runner.hanging.wait())
            await asyncio.wait({trial, hanging}, return_when=asyncio.FIRST_COMPLETED)
            if not trial.done():
                os.kill(os.getpid(), signal.SIGINT)
            hanging.cancel()
            try:
                return await trial
            except asyncio.CancelledError:
                trial.cancel()
                raise

    assert carry_out(opened, Interrupting(), json=False) == 130
    told = capsys.readouterr()
    assert "2 not run yet" in told.out
    assert told.err.splitlines()[-1] == "next: termarena resume runs/first"
    assert carry_out(open_run(opened.folder), FakeRunner(), json=False) == 0
    told = capsys.readouterr()
    assert "accuracy 100.0 %: 4 solved" in told.out
    assert "so far 2 of 4: 2 solved" in told.err
    assert told.err.splitlines()[-1] == "next: termarena report runs/first"


def test_a_full_disk_ends_the_run_with_a_hint(tasks: tuple[Task, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunNotWritable, match="No space left") as raised:
        carry_out(begin(tasks), FakeRunner({"task-001": ["disk full"]}), json=False)
    assert "termarena resume" in (raised.value.hint or "")
    assert raised.value.exit_status == 1
    assert "no further trial starts" in capsys.readouterr().err


BROKEN = FACTS.model_copy(
    update={"broken": (BrokenTaskFacts(id="bad", path="tasks/bad", problem="task.toml: found [[; expected TOML"),)}
)


def test_a_folder_that_does_not_load_is_an_unscored_trial_by_the_tasks_fault(
    tasks: tuple[Task, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """One task whose `task.toml` is broken among good ones neither stops the run nor vanishes from its score."""
    opened = begin(tasks, BROKEN, attempts=2)
    runner = FakeRunner()
    assert carry_out(opened, runner, json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["tasks"], report["total"], report["solved"], report["unscored"]) == (5, 10, 8, 2)
    assert (report["accuracy"], report["accuracy_low"], report["accuracy_high"]) == (1.0, 0.8, 1.0)
    assert report["by_fault"] == {"none": 8, "task": 2}
    assert {one["message"] for one in report["unscored_trials"]} == {"task.toml: found [[; expected TOML"}
    assert len(runner.seen) == 8


def test_a_mended_folder_is_scored_when_unscored_trials_are_tried_again(
    tasks: tuple[Task, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "tasks" / "bad"
    facts = FACTS.model_copy(update={"broken": (BrokenTaskFacts(id="bad", path=str(bad), problem="broken"),)})
    opened = begin(tasks, facts)
    assert carry_out(opened, FakeRunner(), json=False) == 0
    bad.mkdir()
    (bad / "task.toml").write_text("[[")
    assert carry_out(open_run(opened.folder, Resume(retry_unscored=True)), FakeRunner(), json=False) == 0
    assert "1 unscored" in capsys.readouterr().out
    harbor(bad)
    assert carry_out(open_run(opened.folder, Resume(retry_unscored=True)), FakeRunner(), json=False) == 0
    assert "accuracy 100.0 %: 5 solved" in capsys.readouterr().out
