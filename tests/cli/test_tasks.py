"""`termarena tasks` as a user meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from running import termarena
from support.bare import reward_of
from support.folders import harbor, simple, terminal_bench_1, write_folder
from termarena.sandbox.namespace import NamespaceDriver
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    harbor(tmp_path / "set" / "alpha")
    terminal_bench_1(tmp_path / "set" / "beta")
    simple(tmp_path / "set" / "gamma")
    return tmp_path / "set"


def _json(*arguments: str, status: int = 0) -> Any:  # noqa: ANN401 - whatever the command printed
    done = termarena(*arguments, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_list_shows_the_samples_by_default() -> None:
    done = termarena("tasks", "list")
    assert done.returncode == 0
    assert "termarena/hello-world" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_list_selects(folder: Path) -> None:
    listed = _json("tasks", "list", str(folder), "-t", "*a", "-x", "beta")
    assert [task["id"] for task in listed["tasks"]] == ["alpha"]
    listed = _json("tasks", "list", str(folder), "--difficulty", "easy", "--sample", "2", "--seed", "3")
    assert len(listed["tasks"]) == 2


def test_a_name_that_names_nothing_is_a_usage_error(folder: Path) -> None:
    done = termarena("tasks", "list", str(folder), "-t", "alpa")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: no task is called alpa; there is: alpha, beta, write-one",
        "hint: did you mean alpha?",
    ]
    done = termarena("tasks", "list", "nowhere")
    assert done.returncode == 2
    assert "error: no folder and no dataset is called nowhere" in done.stderr


def test_a_broken_task_is_told_and_ends_with_a_task_fault(folder: Path) -> None:
    harbor(folder / "omega", task_toml="[agent\n")
    done = termarena("tasks", "list", str(folder))
    assert done.returncode == 1
    assert "alpha" in done.stdout
    assert f"error: {folder}/omega/task.toml: found TOML that does not parse" in done.stderr
    assert "1 tasks of set do not load" in done.stderr
    listed = _json("tasks", "list", str(folder), status=1)
    assert listed["broken"][0]["error"]["kind"] == "TaskFormatError"


@pytest.mark.parametrize("command", [["list"], ["convert", "-o", "out"], ["show", "omega", "-d"]])
def test_where_every_task_is_broken_its_own_error_is_told(tmp_path: Path, command: list[str]) -> None:
    harbor(tmp_path / "set" / "omega", task_toml="[agent]\ntimeout_sec = -1\n")
    done = termarena("tasks", *command, "set", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    message = f"error: {tmp_path}/set/omega/task.toml: agent.timeout_sec: found -1; expected a number above 0"
    assert done.stderr.splitlines()[0] == message
    done = termarena("tasks", *command, "set", "--json", cwd=tmp_path)
    assert json.loads(done.stderr)["error"]["field"] == "agent.timeout_sec"


def test_a_broken_task_that_is_asked_for_tells_its_own_error(folder: Path) -> None:
    harbor(folder / "omega", task_toml="[agent]\ntimeout_sec = -1\n")
    done = termarena("tasks", "list", str(folder), "-t", "omega")
    assert done.returncode == 1
    assert "agent.timeout_sec: found -1" in done.stderr


def test_folders_that_are_no_tasks_are_told(folder: Path, tmp_path: Path) -> None:
    for number in range(7):
        (folder / f"other-{number}").mkdir()
    told = "set: left out as no tasks (7): other-0, other-1, other-2, other-3, other-4, …"
    for command in (["list"], ["validate"], ["convert", "-o", str(tmp_path / "out")]):
        done = termarena("tasks", *command, str(folder))
        assert done.stderr.splitlines() == [told]
    for command in (["list"], ["validate"], ["convert", "-o", str(tmp_path / "again")]):
        assert _json("tasks", *command, str(folder))["others"] == [f"other-{number}" for number in range(7)]


@pytest.mark.parametrize(
    "command", [["list", ""], ["validate", ""], ["show", ""], ["digest", " "], ["convert", "", "-o", "out"]]
)
def test_an_empty_name_is_a_usage_error(folder: Path, command: list[str]) -> None:
    done = termarena("tasks", *command, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: an empty name names nothing\nhint: ")


def test_a_name_that_no_file_can_have_is_a_usage_error() -> None:
    done = termarena("tasks", "list", "x" * 5000)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no folder and no dataset is called xxx")


def test_a_name_cannot_forge_a_line_of_output(tmp_path: Path) -> None:
    harbor(tmp_path / "set" / "a\nerror: all is lost")
    for command in (["list"], ["validate"], ["show", "-d"]):
        name = ["*all is lost"] if command[0] == "show" else []
        done = termarena("tasks", *command, str(tmp_path / "set"), *name)
        assert r"a\nerror: all is lost" in done.stdout
        assert [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error: all")] == []


def test_show_tells_everything_about_one_task(folder: Path) -> None:
    done = termarena("tasks", "show", str(folder / "beta"))
    assert done.returncode == 0
    for line in ("terminal-bench-1 at", "agent 120 s, grading 30 s", "image (environment: a Dockerfile)"):
        assert line in done.stdout
    assert done.stdout.endswith("Write 1 to /app/one.txt.\n")
    shown = _json("tasks", "show", "beta", "--dataset", str(folder))
    assert shown["digest"].startswith("ta1:")
    assert shown["tests"]["verdict"] == "pytest"
    assert {need["capability"] for need in shown["needs"]} == {"image"}


def test_show_takes_the_current_folder(folder: Path) -> None:
    done = termarena("tasks", "show", ".", cwd=folder / "alpha")
    assert done.returncode == 0
    assert done.stdout.split()[:2] == ["task", "alpha"]
    done = termarena("tasks", "show", ".", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {folder}: found none of task.toml, ")
    assert "hint: 3 tasks lie below it, such as alpha" in done.stderr


def test_show_of_a_broken_task_tells_its_own_error(folder: Path) -> None:
    harbor(folder / "omega", task_toml="[agent]\ntimeout_sec = -1\n")
    done = termarena("tasks", "show", "omega", "-d", str(folder))
    assert done.returncode == 1
    assert "agent.timeout_sec: found -1; expected a number above 0" in done.stderr


def test_validate_names_rule_file_line_and_hint(folder: Path) -> None:
    write_folder(folder / "alpha", {"tests/test.sh": "#!/bin/sh\r\nexit 0\r\n"})
    done = termarena("tasks", "validate", str(folder))
    assert done.returncode == 1
    assert "error: alpha: tests/test.sh" in done.stdout
    assert "[crlf-line-endings]" in done.stdout
    checked = _json("tasks", "validate", str(folder / "alpha"), status=1)
    assert checked["errors"] >= 1
    finding = next(found for found in checked["tasks"][0]["findings"] if found["rule"] == "crlf-line-endings")
    assert finding["severity"] == "error"
    assert finding["hint"]


def test_validate_says_how_to_see_what_it_only_counts(tmp_path: Path) -> None:
    termarena("tasks", "init", "mine", "--out", str(tmp_path))
    counted = termarena("tasks", "validate", str(tmp_path / "mine")).stdout
    assert "notes (--notes shows them)\n" in counted
    shown = termarena("tasks", "validate", str(tmp_path / "mine"), "--notes").stdout
    assert "info: mine" in shown
    assert "--notes" not in shown


def test_validate_takes_unknown_fields_as_errors_only_when_strict(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t", task_toml='[metadata]\ndifficulty = "easy"\n[agent]\ntimout_sec = 5.0\n')
    done = termarena("tasks", "validate", str(folder))
    assert "did you mean timeout_sec? [unknown-field]" in done.stdout
    assert done.returncode == 0
    assert termarena("tasks", "validate", str(folder), "--fail-on-warnings").returncode == 1
    done = termarena("tasks", "validate", str(folder), "--strict")
    assert done.returncode == 1
    assert "[does-not-load]" in done.stdout


def test_digest_is_strict_when_asked(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t", task_toml="[agent]\ntimout_sec = 5.0\n")
    assert termarena("tasks", "digest", str(folder)).returncode == 0
    done = termarena("tasks", "digest", str(folder), "--strict")
    assert (done.returncode, done.stdout) == (1, "")
    assert "timout_sec" in done.stderr


def test_convert_writes_folders_that_load_to_the_same_digest(folder: Path, tmp_path: Path) -> None:
    written = _json("tasks", "convert", str(folder), "--out", str(tmp_path / "out"))["written"]
    assert [row["from"] for row in written] == ["harbor", "terminal-bench-1", "simple"]
    for row in written:
        assert _json("tasks", "digest", row["path"])["digest"] == row["digest"]
    again = termarena("tasks", "convert", str(folder), "--out", str(tmp_path / "out"))
    assert again.returncode == 2
    assert "hint: give --overwrite, or another --out" in again.stderr


def test_convert_takes_one_task_as_show_does(folder: Path, tmp_path: Path) -> None:
    commands = {
        "termarena/hello-world": ["hello-world"],
        "termarena/fibonacci-server": ["termarena/fibonacci-server"],
        "alpha": ["alpha", "--dataset", str(folder)],
        "beta": [str(folder / "beta")],
    }
    for number, (task, command) in enumerate(commands.items()):
        written = _json("tasks", "convert", *command, "-o", str(tmp_path / str(number)))["written"]
        assert [row["id"] for row in written] == [task]
    done = termarena("tasks", "convert", "helo-world", "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "error: no folder and no dataset is called helo-world" in done.stderr
    assert "hint: did you mean hello-world?" in done.stderr
    assert "a task of the samples (termarena tasks list)" in termarena("tasks", "convert", "zzz", "-o", "x").stderr


def test_convert_refuses_two_tasks_for_one_folder_before_it_writes(tmp_path: Path) -> None:
    for place, name in {"one": "acme/same", "two": "other/same"}.items():
        harbor(tmp_path / "set" / place, task_toml=f'[task]\nname = "{name}"\n')
    for flag in ([], ["--overwrite"]):
        done = termarena("tasks", "convert", str(tmp_path / "set"), "-o", str(tmp_path / "out"), *flag)
        assert done.returncode == 2
        assert "error: acme/same and other/same would be written to the same folder, same" in done.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("output", ["file", "file/below", "x" * 300])
@pytest.mark.parametrize("command", [["convert", "hello-world"], ["init", "mine"]])
def test_an_output_that_cannot_be_written_is_a_usage_error(tmp_path: Path, command: list[str], output: str) -> None:
    (tmp_path / "file").write_text("mine\n")
    done = termarena("tasks", *command, "--out", output, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot write ")
    assert "hint: choose another --out" in done.stderr
    assert (tmp_path / "file").read_text() == "mine\n"


def test_digest_explains_itself(folder: Path) -> None:
    explained = _json("tasks", "digest", str(folder / "alpha"), "--explain")
    assert explained["scored"]["instruction"] == "Write 1 to /app/one.txt.\n"
    assert "tests/test.sh" in explained["files"]
    done = termarena("tasks", "digest", str(folder / "alpha"))
    assert done.stdout == explained["digest"] + "\n"


def test_init_makes_a_task_that_is_clean(tmp_path: Path) -> None:
    made = termarena("tasks", "init", "my-task", "--org", "acme", "--out", str(tmp_path))
    assert made.returncode == 0
    folder = made.stdout.strip()
    assert folder == str(tmp_path / "my-task")
    checked = _json("tasks", "validate", folder)
    assert (checked["tasks"][0]["id"], checked["errors"], checked["warnings"]) == ("acme/my-task", 0, 0)
    again = termarena("tasks", "init", "my-task", "--out", str(tmp_path))
    assert again.returncode == 2
    assert "exists" in again.stderr


@pytest.mark.parametrize("arguments", [["my/task"], ["ok", "--difficulty", "brutal"], ["ok", "--org", "a b"]])
def test_init_refuses_what_cannot_be_a_task(tmp_path: Path, arguments: list[str]) -> None:
    done = termarena("tasks", "init", *arguments, "--out", str(tmp_path))
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("user-namespaces", "python3")
async def test_the_task_that_init_makes_is_proven(tmp_path: Path) -> None:
    termarena("tasks", "init", "mine", "--out", str(tmp_path))
    task = load_task(tmp_path / "mine")
    async with NamespaceDriver(home=tmp_path / "home") as driver:
        assert await reward_of(driver, task, None) == "0"
        assert await reward_of(driver, task, "solution/solve.sh") == "1"
        assert await reward_of(driver, task, "cheats/change-the-input.sh") == "0"


def test_convert_tells_each_null_that_it_leaves_out(tmp_path: Path) -> None:
    folder = simple(tmp_path / "t")
    table = json.loads((folder / "metadata.json").read_text())
    (folder / "metadata.json").write_text(json.dumps({**table, "metadata": {"owner": None}}))
    done = termarena("tasks", "convert", str(folder), "--out", str(tmp_path / "out"))
    assert done.returncode == 0
    assert "metadata.owner is null, which a Harbor folder cannot hold: left out [lost-null]" in done.stderr
    (row,) = _json("tasks", "convert", str(folder), "--out", str(tmp_path / "again"))["written"]
    assert row["lost"] == ["metadata.owner"]
