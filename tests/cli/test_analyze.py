"""`termarena analyze` as a user meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.tasks import make_task

if TYPE_CHECKING:
    from pathlib import Path

REPLIES = [
    {"content": "First a look.", "tool_calls": [{"name": "EXECUTE", "arguments": {"command": "ls /nowhere"}}]},
    {"tool_calls": [{"name": "EXECUTE", "arguments": {"command": "echo 1 > /app/one.txt"}}]},
    {"tool_calls": [{"name": "TASK_COMPLETE"}]},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run in it."""
    folder = tmp_path_factory.mktemp("analyze")
    make_task(folder / "tasks" / "one")
    (folder / "model.json").write_text(json.dumps({"replies": REPLIES}))
    done = termarena(
        *("run", "--path", "tasks", "--agent", "tools", "--model", "scripted:model.json"),
        *("--driver", "namespace", "--out", "run"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_timeline_is_shown_where_it_is_asked_for(place: Path) -> None:
    done = termarena("analyze", "run", "--task", "one", cwd=place)
    assert "says: First a look." in done.stdout
    assert "`ls /nowhere` → exit 2" in done.stdout
    assert "`echo 1 > /app/one.txt` → exit 0" in done.stdout
    assert "says: (TASK_COMPLETE)" in done.stdout
    plain = termarena("analyze", "run", cwd=place)
    assert "1 trial read (1 solved); a flaw shows in 0" in plain.stdout
    assert "ls /nowhere" not in plain.stdout


@pytest.mark.parametrize(("name", "start"), [("a.html", "<!doctype html>"), ("a.json", "{"), ("a.md", "# What")])
def test_a_file_is_written_in_the_form_of_its_ending(place: Path, tmp_path: Path, name: str, start: str) -> None:
    done = termarena("analyze", "run", "--out", str(tmp_path / name), cwd=place)
    assert (done.returncode, done.stdout) == (0, "")
    written = (tmp_path / name).read_text()
    assert written.startswith(start)
    assert "ls /nowhere" in written


def test_a_model_adds_prose_that_is_marked_as_its_own(place: Path, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"replies": [{"content": "It looked\nin the wrong place."}]}))
    done = termarena("analyze", "run", "--model", f"scripted:{tmp_path / 'm.json'}", cwd=place)
    assert "## In a model's words\n\n> It looked\n> in the wrong place." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["analyze", "run", "--task", "two"], "no trial of a task called two"),
        (["analyze", "none"], "no run is at none"),
        (["analyze", "run", "--out", "no/where.md"], "no/where.md"),
        (["analyze", "run", "--out", "where.pdf"], "end it with .md, .json or .html"),
        (["analyze", "run", "--model", "nonsense"], "nonsense"),
    ],
)
def test_what_is_not_there_is_told(place: Path, arguments: list[str], told: str) -> None:
    done = termarena(*arguments, cwd=place)
    assert done.returncode in (1, 2)
    assert told in done.stderr
