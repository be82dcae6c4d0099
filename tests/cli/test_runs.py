"""`termarena runs`, `report`: looking at what was run; the runs are real folders with real journals."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.fake_trials import FACTS, FakeRunner, make_tasks
from termarena.cli.inspecting import trial_log_text
from termarena.cli.main import main
from termarena.core.run_folder import RunFolder
from termarena.runs.opening import start_run
from termarena.runs.plan import RunOptions
from termarena.runs.running import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from support.fake_trials import End


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run of three tasks, and one that has only begun."""
    place = tmp_path_factory.mktemp("project")
    tasks = make_tasks(place / "tasks", 3)

    def run(name: str, ends: Mapping[str, Sequence[End]]) -> None:
        options = RunOptions(agent="fake", retries=1, retry_wait_s=0, concurrency=1)
        opened = start_run(options, tasks, RunFolder(place / "runs" / name), FACTS)
        with opened:
            if ends:
                asyncio.run(execute(opened, FakeRunner(ends)))

    run("2026-01-01-fake", {"task-001": ["unsolved"], "task-002": ["infra"]})
    run("2026-01-02-fake", {})
    return place


class Done(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str


@pytest.fixture
def termarena(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs a command in this process, in the folder of the project or in another."""

    def run(*words: str, cwd: Path = project) -> Done:
        monkeypatch.chdir(cwd)
        status = main(words)
        told = capsys.readouterr()
        return Done(status, told.out, told.err)

    return run


def test_runs_are_listed_with_how_far_and_how_good(termarena: Callable[..., Done]) -> None:
    done = termarena("runs", "list")
    assert (done.status, done.err) == (0, "")
    assert [line.split()[:4] for line in done.out.splitlines()] == [
        ["run", "state", "agent", "dataset"],
        ["2026-01-01-fake", "finished", "fake", "little"],
        ["2026-01-02-fake", "interrupted", "fake", "little"],
    ]
    assert "3 of 3       1         1    50.0 %" in done.out
    rows = json.loads(termarena("runs", "list", "--json").out)["runs"]
    assert [(row["done"], row["accuracy"], row["accuracy_low"]) for row in rows] == [(3, 0.5, 1 / 3), (0, None, 0.0)]


@pytest.mark.parametrize(
    ("files", "then"),
    [
        (["config.json", "lock.json", "result.json"], "termarena import harbor"),
        (["tb.lock", "results.json"], "termarena import tb"),
        (["task.toml", "instruction.md"], "termarena run --path"),
        (["2026-01-01/journal.jsonl"], "termarena runs list"),
        (["notes.txt"], "start one with: termarena run"),
    ],
)
def test_a_folder_that_is_something_else_says_what_to_do_with_it(
    termarena: Callable[..., Done], tmp_path: Path, files: list[str], then: str
) -> None:
    for name in files:
        path = tmp_path / "it is" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    done = termarena("report", "it is", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert then in done.err
    assert "'it is'" in done.err or then.startswith("start")


def test_a_damaged_run_does_not_hide_the_others(termarena: Callable[..., Done], project: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "odd").mkdir(parents=True)
    (tmp_path / "runs" / "odd" / "config.lock.json").write_text("{")
    (tmp_path / "runs" / "whole").symlink_to(project / "runs" / "2026-01-01-fake")
    done = termarena("runs", "list", cwd=tmp_path)
    assert done.status == 0
    assert "whole" in done.out
    assert "damaged" in done.out
    assert "config.lock.json" in done.err


def test_no_runs(termarena: Callable[..., Done], tmp_path: Path) -> None:
    done = termarena("runs", "list", cwd=tmp_path)
    assert (done.status, done.out) == (0, "")
    assert "termarena run" in done.err


def test_a_run_is_shown_with_its_facts_and_table(termarena: Callable[..., Done]) -> None:
    done = termarena("runs", "show", "2026-01-01")
    assert done.status == 0, done.err
    assert "run          2026-01-01-fake (finished)" in done.out
    assert "dataset      little: 3 tasks, 1 attempt each" in done.out
    assert "also         tried again once" in done.out
    assert "accuracy 50.0 % (between 33.3 % and 66.7 %)" in done.out
    assert "next: termarena resume runs/2026-01-01-fake --retry-unscored" in done.err
    assert json.loads(termarena("runs", "show", "2026-01-01", "--json").out)["accuracy"] == 0.5
    assert " to now" not in termarena("runs", "show", "2026-01-02").out  # nobody carries it on


def test_a_trial_is_shown_with_verdict_clocks_and_files(termarena: Callable[..., Done]) -> None:
    done = termarena("runs", "show", "2026-01-01", "task-002")
    assert done.status == 0, done.err
    assert "trial         task-002, attempt 1, retry 1 of run" in done.out
    assert "outcome       unscored (INFRA_FAULT)" in done.out
    assert "fault         infra, in prepare: SandboxError: infra failed" in done.out
    assert "attempt-1-retry-1: result.json, trajectory.json" in done.out
    shown = json.loads(termarena("runs", "show", "2026-01-01", "task-000/1", "--json").out)
    assert (shown["outcome"], shown["reward"]) == ("solved", 1.0)


def test_a_trial_whose_result_lacks_a_field_says_which(termarena: Callable[..., Done], project: Path) -> None:
    path = project / "runs" / "2026-01-01-fake" / "trials" / "task-001" / "attempt-1" / "result.json"
    whole = path.read_text()
    path.write_text(json.dumps({name: value for name, value in json.loads(whole).items() if name != "outcome"}))
    done = termarena("runs", "show", "2026-01-01", "task-001")
    path.write_text(whole)
    assert (done.status, done.out) == (1, "")
    assert "result.json: outcome: found" in done.err
    assert "found nothing; expected a value" in done.err


def test_the_log_of_a_run_is_its_journal(termarena: Callable[..., Done]) -> None:
    lines = termarena("runs", "logs", "2026-01-01").out.splitlines()
    assert len(lines) == 1 + 2 * 4 + 1
    assert "trial_finished  task-001/1  unsolved  TEST_FAILED  0.2 s" in lines[4]
    assert "trial_started  task-002/1 retry 1" in lines[7]
    events = [json.loads(line) for line in termarena("runs", "logs", "2026-01-01", "--json").out.splitlines()]
    assert [event["seq"] for event in events] == [*range(1, 11)]


def test_the_log_of_a_trial_is_what_it_left_to_read(termarena: Callable[..., Done], project: Path) -> None:
    attempt = project / "runs" / "2026-01-01-fake" / "trials" / "task-000" / "attempt-1"
    (attempt / "test_output.txt").write_text("\x1b[31mFAILED\x1b[0m test_one \x07\n" + "x" * 300_000 + "\nthe end\n")
    call = {"name": "exec", "arguments": {"argv": ["ls", "-l"]}, "exit_status": 2, "duration_s": 0.5}
    script = "cd /app\n\n\tmake \x1b]2;title\x07\n" + "".join(f"echo {number}\n" for number in range(20))
    longer = {"name": "exec", "arguments": {"script": script}, "exit_status": 0, "duration_s": 0.5}
    (attempt / "tool_calls.json").write_text(json.dumps({"calls": [call, longer]}))
    done = termarena("runs", "logs", "2026-01-01", "task-000")
    assert done.status == 0, done.err
    assert "exec  ls -l  (status 2, 0.5 s)\nexec  cd /app  (status 0, 0.5 s)\n        make \\x1b]2;" in done.out
    assert "    echo 10\n    … 9 more lines\n==" in done.out
    assert "bytes before this: see" in done.out
    assert "the end" in done.out
    assert "\x1b" not in done.out
    assert len(done.out) < 270_000
    fault = termarena("runs", "logs", "2026-01-01", "task-002").out
    assert "== the fault, in prepare\nSandboxError: infra failed\n== the tests wrote nothing" in fault


def test_a_report_is_made_again_from_the_journal(termarena: Callable[..., Done], project: Path) -> None:
    folder = RunFolder(project / "runs" / "2026-01-01-fake")
    folder.report.unlink(missing_ok=True)
    done = termarena("report", "2026-01-01")
    assert done.status == 0
    assert done.out == folder.report_text.read_text()
    assert done.out.startswith("# fake on little\n")
    shown = termarena("report", "2026-01-01", "--format", "json").out
    assert json.loads(shown) == json.loads(folder.report.read_text())
    assert json.loads(shown)["accuracy"] == 0.5


def test_a_report_can_be_written_elsewhere(termarena: Callable[..., Done], project: Path, tmp_path: Path) -> None:
    done = termarena("report", str(project / "runs" / "2026-01-02-fake"), "-o", str(tmp_path / "r.md"), cwd=tmp_path)
    assert (done.status, done.out) == (0, "")
    assert "3 not run yet" in (tmp_path / "r.md").read_text()
    done = termarena("report", str(project / "runs" / "2026-01-02-fake"), "-o", str(tmp_path / "no" / "r.md"))
    assert done.status == 1
    assert "No such file" in done.err


def test_a_run_whose_agent_is_gone_is_not_resumed(termarena: Callable[..., Done], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    tasks = make_tasks(tmp_path / "tasks", 1)
    start_run(RunOptions(agent="gone_for_good:Agent"), tasks, folder, FACTS).close()
    before = folder.journal.read_bytes()
    done = termarena("resume", "run", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "gone_for_good" in done.err
    assert folder.journal.read_bytes() == before


def test_the_log_tells_a_call_in_words_without_limits_and_sizes() -> None:
    calls = [
        {"name": "terminal", "arguments": {"cols": 80, "rows": 24, "shell_argv": ["/bin/bash"]}, "duration_s": 0.3},
        {"name": "terminal.run", "arguments": {"terminal": 1, "command": "ls", "timeout_s": 120.0}, "exit_status": 0},
        {"name": "terminal.run", "arguments": {"terminal": 2, "command": "pwd", "timeout_s": 120.0}, "exit_status": 0},
    ]
    parts = {"folder": "here", "tool_calls": calls, "agent_error": None, "fault_detail": None, "test_output": None}
    told = trial_log_text(parts).splitlines()
    assert told[2] == "terminal  /bin/bash  (0.3 s)"
    assert told[3].startswith("terminal.run  ls  (status 0")
    assert told[4].startswith("terminal.run  in terminal 2: pwd  (status 0")
