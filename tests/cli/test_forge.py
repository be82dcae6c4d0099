"""`termarena forge read` and `termarena forge screen`."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from support.own_recordings import FOLDER
from termarena.cli.main import main
from termarena.core.records import read_record_as
from termarena.forge.intake import transcripts_in
from termarena.forge.transcript import Transcript

if TYPE_CHECKING:
    from pathlib import Path


def test_read_shows_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forge", "read", str(FOLDER / "gcc-broken-fixed.cast")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "Find and mend a compile error (asciicast 2, 100x30" in told[0]
    assert told[1].split() == ["at", "evidence", "sure", "status", "command"]
    assert told[3].split()[1:] == ["marks", "1.00", "1", "gcc", "tiny.c", "-o", "tiny"]


def test_read_shows_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forge", "read", "--output", str(FOLDER / "grep-errors.cast")]) == 0
    assert "$ grep -n WARN app.log\n3:WARN slow\n" in capsys.readouterr().out


def test_read_as_json_is_a_line_for_each_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forge", "read", "--json", str(FOLDER / "links.cast"), str(FOLDER / "checksums.json")]) == 0
    found = [Transcript.model_validate_json(line) for line in capsys.readouterr().out.splitlines()]
    assert [transcript.version for transcript in found] == ["2", "1"]
    assert found[0].commands[0].text == "mkdir -p releases/1.0 releases/1.1"


def test_a_folder_gives_its_recordings_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("links.cast", "checksums.json", "typescript-timed.typescript", "typescript-timed.typescript.timing"):
        shutil.copy(FOLDER / name, tmp_path / name)
    shutil.copy(FOLDER / "links.cast", tmp_path / ".git" / "hidden.cast")
    (tmp_path / "package.json").write_text('{"version": 1, "name": "x"}')
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert main(["forge", "read", "--json", str(tmp_path)]) == 0
    found = [json.loads(line)["source"].rpartition("/")[2] for line in capsys.readouterr().out.splitlines()]
    assert found == ["checksums.json", "links.cast", "typescript-timed.typescript"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\0\0\0", "neither a recording nor text"), (b"", "it is empty"), (None, "no file and no folder")],
)
def test_what_is_no_recording_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    path = tmp_path / "a.cast"
    if content is not None:
        path.write_bytes(content)
    assert main(["forge", "read", str(path)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "hint: " in told


def test_one_file_that_is_no_recording_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cast").write_bytes(b"\0\0")
    shutil.copy(FOLDER / "links.cast", tmp_path / "b.cast")
    assert main(["forge", "read", "--json", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "a.cast: it is neither a recording nor text" in told.err
    assert [json.loads(line)["title"] for line in told.out.splitlines()] == ["Arrange releases with links"]


def test_damage_is_told_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.cast"
    path.write_text('{"version": 2, "width": null, "height": 24}\nnonsense\n[1, "o", "$ ls\\r\\n"]\n')
    assert main(["forge", "read", str(path)]) == 0
    told = capsys.readouterr().err
    assert "taken as 80 x 24" in told
    assert "1 of its lines are no events (line 2)" in told


def test_screen_tells_kept_and_refused_and_writes_the_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.cast"
    bad.write_text('{"version": 2, "width": 80, "height": 24}\n[1, "o", "$ ls\\r\\n"]\n')
    out = tmp_path / "out"
    words = ["forge", "screen", str(bad), str(FOLDER / "links.cast"), "--concurrency", "1", "--out", str(out)]
    assert main(words) == 0
    told = capsys.readouterr()
    refused, kept = told.out.splitlines()
    assert refused.startswith("refused")
    assert "it has 1 command; 3 are the least" in refused
    assert kept.startswith("kept    10/12")
    assert "1 of 2 recordings kept; refused by length 1" in told.err
    (written,) = out.iterdir()
    assert read_record_as(Transcript, written, "transcript").commands[2].text == "ln -s releases/1.0 current"


def test_screen_remembers_what_it_kept_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.cast", tmp_path / "second.cast"
    first.write_text((FOLDER / "links.cast").read_text())
    header, _, body = first.read_text().partition("\n")
    second.write_text(header.replace('"title"', '"named"') + "\n" + body)
    out = ["--concurrency", "1", "--out", str(tmp_path / "kept")]
    for path, told in ((first, "1 of 1 recordings kept"), (second, "refused by duplicates 1"), (first, "1 of 1 ")):
        assert main(["forge", "screen", str(path), *out]) == 0
        assert told in capsys.readouterr().err
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_screen_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.cast"
    text = "$ rm -rf /\\r\\n$ echo ada@gmail.com\\r\\n"
    path.write_text('{"version": 2, "width": 80, "height": 24}\n[1, "o", "' + text + '"]\n')
    assert main(["forge", "screen", str(path), "--explain"]) == 0
    told = capsys.readouterr().out
    assert "email replaced by person1@example.org" in told
    assert "drop safety/removes: it removes / with everything in it\n        command 1: rm -rf /" in told
    assert "gmail" not in told
    assert main(["forge", "screen", str(path), "--json"]) == 0
    screening = json.loads(capsys.readouterr().out)
    assert screening["kept"] is False
    assert "transcript" not in screening
    assert "gmail" not in json.dumps(screening)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("least_comands = 3\n", "least_comands: Extra"),
        ("least_commands = 0\n", "least_commands: "),
        ("=\n", "is no TOML"),
    ],
)
def test_thresholds_that_cannot_be_used_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tmp_path / "rules.toml").write_text(text)
    assert main(["forge", "screen", "--rules", str(tmp_path / "rules.toml"), str(FOLDER / "links.cast")]) == 2
    assert message in capsys.readouterr().err


def test_thresholds_and_known_tasks_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.toml").write_text("least_commands = 50\n")
    assert main(["forge", "screen", "--rules", str(tmp_path / "rules.toml"), str(FOLDER / "links.cast")]) == 0
    assert "50 are the least" in capsys.readouterr().out
    task = tmp_path / "tasks" / "one" / "solution"
    task.mkdir(parents=True)
    lines = ["mkdir -p releases/1.0 releases/1.1", "echo one > releases/1.0/app && echo two > releases/1.1/app"]
    lines += ["ln -s releases/1.0 current", "cat current/app", "ln -sfn releases/1.1 current"]
    (task / "solve.sh").write_text("\n".join(lines))
    assert main(["forge", "screen", "--against", str(tmp_path / "tasks"), str(FOLDER / "links.cast")]) == 0
    assert "stands in a known task" in capsys.readouterr().out
    assert main(["forge", "screen", "--against", str(tmp_path / "none"), str(FOLDER / "links.cast")]) == 2


@pytest.mark.parametrize("command", ["read", "screen", "run"])
def test_a_folder_without_recordings_is_told(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.md").write_text("$ ls\n")
    assert main(["forge", command, "notes"]) == 2
    told = capsys.readouterr()
    assert "no recording is in notes" in told.err
    assert ".cast" in told.err
    assert told.out == ""


def test_a_recording_without_commands_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    assert main(["forge", "read", str(tmp_path / "notes.txt")]) == 0
    assert "no command was found in it" in capsys.readouterr().err


def test_what_screening_kept_can_be_made_tasks_of(tmp_path: Path) -> None:
    assert main(["forge", "screen", str(FOLDER / "sort-uniq.cast"), "--out", str(tmp_path)]) == 0
    (transcript,) = transcripts_in(tmp_path.iterdir())
    assert transcript.source.endswith("sort-uniq.cast")
    assert len(transcript.commands) >= 3
