"""`termarena replay` as a person meets it: on a terminal of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.fake_trials import FACTS
from support.folders import harbor
from support.person import PATIENCE_S, Person
from termarena.cli.main import main
from termarena.core.run_folder import RunFolder
from termarena.runs.opening import start_run
from termarena.runs.plan import RunOptions
from termarena.sandbox.terminal import CastWriter
from termarena.tasks import load_task


def _cast(path: Path, *events: tuple[float, str], cols: int = 80, version: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    times = iter([0.0, *(at for at, _ in events)])
    writer = CastWriter(path, version=version, clock=lambda: next(times))  # type: ignore[arg-type]
    writer.begin(cols, 24)
    for _, text in events:
        writer.output(text.encode())
    writer.close()
    return path


def test_it_is_played_and_the_terminal_is_put_back(tmp_path: Path) -> None:
    path = _cast(tmp_path / "a.cast", (0.01, "\x1b[?1049hfirst\r\n"), (0.02, "\x1b]52;c;eA==\x07\x1b[31msecond"))
    with Person("replay", str(path), home=tmp_path) as person:
        person.until(r"q: leave")
        assert "52;c" not in person.until(r"first[^é]*?second")
        person.until(r"\x1b\[\?1049l")
        person.until(r"end of the recording")
        assert person.process.wait(PATIENCE_S) == 0
        assert person.modes_now() == person.modes


def test_silences_are_shortened_and_speed_divides_them(tmp_path: Path) -> None:
    path = _cast(tmp_path / "a.cast", (3600, "late"), (7200, "later"), (7201, "latest"), version=3)
    with Person("replay", str(path), "--idle-limit", "0.5", "--speed", "1000", home=tmp_path) as person:
        person.until(r"late.*later.*latest")
        assert person.process.wait(PATIENCE_S) == 0


def test_keys_pause_step_hurry_and_leave(tmp_path: Path) -> None:
    path = _cast(tmp_path / "a.cast", (0.0, "one"), (1000.0, "two"), (2000.0, "three"), (9000.0, "four"))
    with Person("replay", str(path), home=tmp_path) as person:
        person.until(r"one")
        person.type(" .")
        person.until(r"two")
        person.type(".")
        assert "four" not in person.until(r"three")
        person.type("q")
        assert "four" not in person.until(r"left before the end")
        assert person.process.wait(PATIENCE_S) == 0
        assert person.modes_now() == person.modes


def test_faster_until_it_is_over(tmp_path: Path) -> None:
    path = _cast(tmp_path / "a.cast", (0.0, "one"), (1000.0, "two"))
    with Person("replay", str(path), home=tmp_path) as person:
        person.until(r"one")
        person.type("+" * 60)
        person.until(r"two")
        assert person.process.wait(PATIENCE_S) == 0


def test_the_terminal_is_put_back_when_the_program_is_ended(tmp_path: Path) -> None:
    path = _cast(tmp_path / "a.cast", (0.0, "\x1b[?1049hone"), (1000.0, "two"))
    with Person("replay", str(path), home=tmp_path) as person:
        person.until(r"one")
        person.process.terminate()
        person.until(r"\x1b\[\?1049l")
        assert person.process.wait(PATIENCE_S) == 130
        assert person.modes_now() == person.modes


def test_a_smaller_window_is_told(tmp_path: Path) -> None:
    path = _cast(tmp_path / "a.cast", (0.0, "x"), cols=200)
    with Person("replay", str(path), home=tmp_path) as person:
        person.until(r"recorded at 200x24; here are 90x30")
        assert person.process.wait(PATIENCE_S) == 0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts at two tasks, the second of one with a retry."""
    harbor(tmp_path / "a", task_toml='schema_version = "1.4"\n[task]\nname = "org/fix"\n')
    tasks = (load_task(tmp_path / "a"), load_task(harbor(tmp_path / "other")), load_task(harbor(tmp_path / "untried")))
    run = RunFolder(tmp_path / "runs" / "2026-01-01-oracle")
    start_run(RunOptions(attempts=2), tasks, run, FACTS).close()
    for task, attempt, retry in (("org/fix", 1, 0), ("org/fix", 2, 0), ("org/fix", 2, 1), ("other", 1, 0)):
        _cast(run.attempt(task, attempt, retry=retry).cast(), (0.0, f"{task} {attempt} {retry}"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["2026-01-01-oracle/org/fix"], "attempt-2-retry-1"),
        (["2026-01-01-oracle/org/fix/1"], "attempt-1"),
        (["2026-01-01-oracle", "org/fix", "2"], "attempt-2-retry-1"),
        (["runs/2026-01-01-oracle/other"], "attempt-1"),
        (["runs/2026-01-01-oracle/trials/other/attempt-1"], "attempt-1"),
        (["2026", "other"], "attempt-1"),
        (["2026/other"], "attempt-1"),
        (["2026/fix/1"], "attempt-1"),
        (["2026", "fix"], "attempt-2-retry-1"),
    ],
)
@pytest.mark.usefixtures("project")
def test_trials_are_found_by_run_task_and_attempt(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert main(["replay", *words, "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["path"]).parent.name == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is: 2026-01-01-oracle"),
        (["2026-01-01-oracle"], "which task"),
        (["2026-01-01-oracle/none"], "no task of 2026-01-01-oracle is called none; there is: org/fix, other, untried"),
        (["2026-01-01-oracle/untried"], "untried has not been tried"),
        (["2026-01-01-oracle/other/7"], "other has no attempt 7"),
        (["2026-01-01-oracle/other", "--terminal", "2"], "there is: terminal.cast"),
        (["runs/2026-01-01-oracle/journal.jsonl"], "is not an asciicast"),
        (["2026-01-01-oracle/other"], "needs a terminal"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_played_says_what_there_is(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["replay", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err


def test_a_recording_that_was_cut_off_is_still_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _cast(tmp_path / "a.cast", (0.5, "whole"))
    path.write_text(path.read_text() + '[1.0, "o", "cut')
    assert main(["replay", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["is_cut"], facts["events"], facts["duration_s"]) == (True, 1, 0.5)
