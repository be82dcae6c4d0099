"""Whatever ends the harness, and whenever: nothing is lost, nothing is run twice, nothing is half there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_trials import lines_of, make_tasks
from support.run_process import begin, with_tests
from support.tasks import Made, make_task
from support.trials import try_task
from termarena.core.run_folder import AttemptFolder, RunFolder
from termarena.runs.reading import read_run

ROUNDS = (10, pytest.param(500, marks=[pytest.mark.soak, pytest.mark.timeout(2000)]))
SECRET = "correct-horse-battery"  # noqa: S105 - an example
REAL_ROUNDS = (10, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(2000)]))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", ROUNDS)
def test_killed_at_any_moment_a_run_resumes_without_loss_or_doubling(tmp_path: Path, rounds: int) -> None:
    seen = _kill("fake", tmp_path, rounds)
    assert seen["kills"] == rounds
    assert seen["interrupted"] > 0
    assert seen["trials"] == seen["runs"] * 24


@pytest.mark.slow
@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize("rounds", REAL_ROUNDS)
def test_killed_with_sandboxes_a_run_resumes_and_nothing_is_left(tmp_path: Path, rounds: int) -> None:
    seen = _kill("real", tmp_path, rounds)
    assert seen["kills"] == rounds
    assert seen["interrupted"] > 0
    assert seen["solved"] == seen["trials"] == seen["runs"] * 12
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
def test_killed_at_any_step_a_regrade_leaves_no_attempt_half_old_and_half_new(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "support.killed_regrades", str(tmp_path), str(tmp_path / "home")]
    done = subprocess.run(command, env=with_tests(os.environ), capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    *killed, whole = json.loads(done.stdout)
    old, new = ["solved", "old", "old"], ["unsolved", "new", "new"]
    for row in (*killed, whole):
        assert row["killed"]["attempt"] in (old, new)
        assert row["killed"]["journal"] == ["solved"] or row["killed"]["attempt"] == new
        again = row["again"]
        assert (again["journal"], again["attempt"], again["before"]) == (["unsolved"], new, old)
        assert set(again["files"]) - set(whole["again"]["files"]) == set()
    assert {row["status"] for row in killed} == {-signal.SIGKILL}
    assert (whole["status"], whole["killed"]["attempt"], whole["killed"]["before"]) == (0, new, old)
    assert "regrading" not in whole["killed"]["files"]
    assert {tuple(row["killed"]["attempt"]) for row in killed} == {tuple(old), tuple(new)}


@pytest.mark.needs("user-namespaces")
def test_a_killed_harness_leaves_nothing_in_the_temporary_folder(tmp_path: Path, home: Path) -> None:
    task = make_task(tmp_path / "task")
    _kill_trial(tmp_path, home, opening="test.sh")
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == []
    assert list((home / "staged").iterdir())
    asyncio.run(try_task(task, "nop", tmp_path / "next", home=home))
    assert list((home / "staged").iterdir()) == []


@pytest.mark.needs("user-namespaces")
def test_a_killed_harness_leaves_no_secret_in_what_the_tests_wrote(tmp_path: Path, home: Path) -> None:
    says = f"#!/bin/sh\necho {SECRET}\necho {SECRET} >/logs/verifier/said\necho 1 >/logs/verifier/reward.txt\n"
    make_task(tmp_path / "task", Made(tests=says))
    _kill_trial(tmp_path, home, opening=".metrics.json")
    attempt = AttemptFolder(tmp_path / "attempt")
    assert not attempt.result.exists()
    for path in (attempt.test_output, attempt.logs / "verifier/said"):
        assert path.read_text() == "[secret EXAMPLE_API_KEY]\n"


def _kill_trial(place: Path, home: Path, *, opening: str) -> None:
    """Try the task, in a process that is killed when it opens a file whose name begins so."""
    (place / "tmp").mkdir()
    environment = {**with_tests(os.environ), "TMPDIR": str(place / "tmp"), "EXAMPLE_API_KEY": SECRET}
    command = [sys.executable, "-m", "support.killed_trial"]
    command += [str(place / "task"), str(place / "attempt"), str(home), opening]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == -signal.SIGKILL, done.stderr


def _kill(mode: str, place: Path, rounds: int) -> dict[str, int]:
    command = [sys.executable, "-m", "support.kill_rounds", mode, str(place), str(rounds), "1"]
    done = subprocess.run(command, env=with_tests(os.environ), capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    seen: dict[str, int] = json.loads(done.stdout)
    return seen


@pytest.mark.needs("unshare", "mount", "user-namespaces")
@pytest.mark.parametrize("mode", ["journal", "files"])
def test_disk_full_in_the_run_folder_stops_the_run_and_resume_goes_on(tmp_path: Path, mode: str) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    command += [sys.executable, "-m", "support.full_disk", str(tmp_path), mode]
    done = subprocess.run(command, env=with_tests(os.environ), capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    full, resumed = seen["full"], seen["resumed"]
    assert "No space left on device" in full["message"]
    assert full["status"] == 1
    assert "termarena resume" in full["hint"]
    assert [text for text in full["notices"] if "no further trial starts" in text] == full["notices"]
    assert len(full["notices"]) == 1
    assert full["ends_with_a_line"]
    assert full["lines"] == full["good_lines"]
    assert 0 < full["finished"] < 40
    assert full["begun"] - full["finished"] <= 4
    assert (resumed["reason"], resumed["solved"]) == ("finished", 40)
    assert resumed["again"] == 40 - full["finished"] - resumed["adopted"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    make_tasks(tmp_path / "tasks", 3)
    folder = RunFolder(tmp_path / "run")
    with begin("hang", tmp_path / "tasks", folder) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"hanging\n"] * 3
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, b"")
    lines = lines_of(folder)
    assert sorted(lines[-4:-1]) == [f"trial_interrupted task-00{n}/1/0" for n in range(3)]
    assert lines[-1] == "run_interrupted"
    assert read_run(folder).history.stopped_by == number.name
    with begin("quick", tmp_path / "tasks", folder) as process:
        assert process.wait(timeout=120) == 0
    assert read_run(folder).counts == (3, 3, 0, 0, 0)


def test_the_second_signal_stops_at_once(tmp_path: Path) -> None:
    make_tasks(tmp_path / "tasks", 1)
    folder = RunFolder(tmp_path / "run")
    with begin("stubborn", tmp_path / "tasks", folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hanging\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"asked to stop\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert lines_of(folder) == ["run_started", "trial_started task-000/1/0"]
    with begin("quick", tmp_path / "tasks", folder) as process:
        assert process.wait(timeout=120) == 0
    assert read_run(folder).counts == (1, 1, 0, 0, 0)
    assert sorted(path.name for path in (folder.trials / "task-000").iterdir()) == [
        "attempt-1",
        "attempt-1-interrupted-1",
    ]
