"""`termarena forge`, from transcripts to tasks that the rest of the program takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.sessions import COUNTING, EDITING

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    lines = [one.model_dump_json() for one in (COUNTING, EDITING)]
    (folder / "mine.transcript.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "mine.transcript.jsonl"


def test_synthesize_shows_the_solution_and_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "one.transcript.jsonl").write_text(COUNTING.model_dump_json())
    done = termarena("forge", "synthesize", "one.transcript.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "grep -c ERROR app.log" in done.stdout
    assert "its output is the result" in done.stderr


def test_a_refused_recording_is_told_with_the_command_that_explains_it(tmp_path: Path) -> None:
    (tmp_path / "short one.txt").write_text("$ ls\nnotes.txt\n")
    done = termarena("forge", "run", "short one.txt", "--out", "tasks", cwd=tmp_path)
    assert "0 of 1 recordings became tasks" in done.stdout
    assert done.stderr.endswith("next: termarena forge explain 'short one.txt'\n")
    told = termarena("forge", "explain", "short one.txt", cwd=tmp_path)
    assert "refused at screen" in told.stdout


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
@pytest.mark.timeout(600)
def test_from_a_recording_to_a_run_and_back_out_of_the_world(recordings: Path, tmp_path: Path) -> None:
    env = {"TERMARENA_HOME": str(tmp_path / "home")}
    made = ("forge", "run", str(recordings), "--out", "tasks", "--json")
    done = termarena(*made, cwd=tmp_path, env=env, patience_s=240)
    assert done.returncode == 0, done.stderr
    states = {row["title"]: row["state"] for row in json.loads(done.stdout)}
    assert states == {COUNTING.title: "admitted", EDITING.title: "refused"}

    for agent, solved in (("oracle", 1), ("nop", 0)):
        ran = termarena("run", "--path", "tasks", "--agent", agent, "-o", agent, "--json", cwd=tmp_path, env=env)
        assert ran.returncode == 0, ran.stderr
        report = json.loads((tmp_path / agent / "report.json").read_text())
        assert report["solved"] == solved

    (tmp_path / "broken.cast").write_bytes(b"")
    again = termarena("forge", "run", "broken.cast", str(recordings), "--out", "tasks", cwd=tmp_path, env=env)
    assert again.stderr.count("(known)") == 2
    assert again.returncode == 0
    assert "refused: broken.cast: read: broken.cast: it is empty" in again.stderr
    alone = termarena("forge", "run", "broken.cast", "--out", "tasks", cwd=tmp_path, env=env)
    assert alone.returncode == 2
    assert "nothing that was given is a recording" in alone.stderr

    told = termarena("forge", "explain", "edit-a-file.cast", cwd=tmp_path, env=env)
    assert "refused at synthesize: `vim notes.txt` was worked in by hand" in told.stdout

    status = json.loads(termarena("forge", "status", "--json", cwd=tmp_path, env=env).stdout)
    assert (status["recordings"], status["admitted"]) == (3, 1)
    refused = {gate["name"]: gate["refused"] for gate in status["gates"]}
    assert (refused["read"], refused["synthesize"]) == (1, 1)

    assert termarena("forge", "takedown", COUNTING.source, cwd=tmp_path, env=env).returncode == 0
    assert list((tmp_path / "tasks").iterdir()) == []
    blocked = termarena("forge", "run", str(recordings), "--out", "tasks", cwd=tmp_path, env=env)
    assert "taken down" in blocked.stderr
    assert list((tmp_path / "tasks").iterdir()) == []


def test_settings_that_are_wrong_are_told(recordings: Path, tmp_path: Path) -> None:
    assert termarena("forge", "init", "mine", cwd=tmp_path).returncode == 0
    settings = tmp_path / "mine" / "forge.toml"
    settings.write_text(settings.read_text().replace("0.6", "7"))
    done = termarena("forge", "run", str(recordings), "--forge", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "least_fidelity" in done.stderr


def test_a_forge_that_was_only_begun_says_how_to_go_on(tmp_path: Path) -> None:
    assert termarena("forge", "init", "desk", cwd=tmp_path).returncode == 0
    done = termarena("forge", "status", "--forge", "desk", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing was made in the forge at desk yet" in done.stderr
    assert "hint: begin: termarena forge run RECORDINGS --forge desk" in done.stderr
