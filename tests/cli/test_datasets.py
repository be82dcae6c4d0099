"""`termarena datasets` as a user meets it."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.folders import harbor

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    harbor(tmp_path / "set" / "alpha")
    harbor(tmp_path / "set" / "beta")
    return tmp_path / "set"


def test_list_shows_what_is_here_and_what_can_be_had() -> None:
    done = termarena("datasets", "list")
    assert done.returncode == 0
    assert "samples" in done.stdout
    assert "can be pulled" in done.stdout
    assert json.loads(termarena("datasets", "list", "--json").stdout)["bundled"]["tasks"] >= 14


def test_lock_and_verify(folder: Path) -> None:
    locked = termarena("datasets", "lock", str(folder), "--version", "1.0", "--name", "mine")
    assert locked.stdout == f"{folder}/dataset.lock.json\n"
    verified = termarena("datasets", "verify", str(folder))
    assert (verified.returncode, verified.stdout) == (0, "mine 1.0: all 2 tasks are as locked\n")

    (folder / "beta" / "tests" / "test.sh").write_text("exit 0\n")
    verified = termarena("datasets", "verify", str(folder))
    assert verified.returncode == 1
    assert "beta/tests/test.sh changed" in verified.stderr
    error = json.loads(termarena("datasets", "verify", str(folder), "--json").stderr)["error"]
    assert error["files"] == ["beta/tests/test.sh changed"]


def test_verify_without_a_lock_says_how_to_make_one(folder: Path) -> None:
    done = termarena("datasets", "verify", str(folder))
    assert done.returncode == 2
    assert f"hint: make one with: termarena datasets lock {folder}" in done.stderr


def test_a_pulled_archive_is_listed_and_found_by_its_name(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "tasks.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "set")
    home = {"TERMARENA_HOME": str(tmp_path / "home")}
    source = f"{archive}#set"

    planned = termarena("datasets", "pull", source, "--dry-run", env=home)
    assert planned.stdout.startswith("would fetch the archive ")
    assert not (tmp_path / "home").exists()
    pulled = termarena("datasets", "pull", source, "--json", env=home)
    assert pulled.returncode == 0, pulled.stderr
    result = json.loads(pulled.stdout)
    assert (result["tasks"], result["is_from_cache"]) == (2, False)
    again = termarena("datasets", "pull", source, env=home)
    assert again.stdout.strip() == result["path"]
    assert "as pulled before" in again.stderr
    assert result["path"] in termarena("datasets", "list", env=home).stdout
    listed = json.loads(termarena("tasks", "list", source, "--json", env=home).stdout)
    assert [task["id"] for task in listed["tasks"]] == ["alpha", "beta"]


def test_a_known_dataset_that_is_not_here_says_how_to_fetch_it(tmp_path: Path) -> None:
    done = termarena("tasks", "list", "terminal-bench@2.0", env={"TERMARENA_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "hint: fetch it with: termarena datasets pull terminal-bench@2.0" in done.stderr
    done = termarena("datasets", "pull", "terminal-bench@2.0", "--offline", env={"TERMARENA_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "it would have come from" in done.stderr


def test_a_pull_of_the_folder_above_the_tasks_says_how_to_name_it(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "tasks.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "repository/set")
        tar.add(folder / "alpha" / "task.toml", "repository/README")
    done = termarena("datasets", "pull", str(archive), env={"TERMARENA_HOME": str(tmp_path / "home")})
    assert done.returncode == 2
    assert "pulled to" in done.stderr
    assert f"name the folder that holds them: {archive}#FOLDER" in done.stderr


def test_a_password_in_an_address_is_never_shown(tmp_path: Path) -> None:
    source = "https://me:hunter2@127.0.0.1:9/x.git"  # nothing listens there
    for flags in (["--dry-run"], ["--offline"], []):
        done = termarena("datasets", "pull", source, *flags, env={"TERMARENA_HOME": str(tmp_path)})
        assert "127.0.0.1" in done.stdout + done.stderr
        assert "hunter2" not in done.stdout + done.stderr


def test_a_token_in_a_query_is_in_no_plan(tmp_path: Path) -> None:
    source = "git+https://host.invalid/x?access_token=s3cret"
    done = termarena("datasets", "pull", source, "--dry-run", "--json", env={"TERMARENA_HOME": str(tmp_path)})
    assert json.loads(done.stdout)["name"] == "x"
    assert "s3cret" not in done.stdout + done.stderr


def test_a_pull_without_a_task_that_loads_tells_the_errors_and_ends_with_1(folder: Path, tmp_path: Path) -> None:
    home = {"TERMARENA_HOME": str(tmp_path / "home")}
    for name in ("alpha", "beta"):
        (folder / name / "task.toml").write_text("[[[")
    for again in ("", "as pulled before"):
        done = termarena("datasets", "pull", _packed(folder, tmp_path), env=home)
        assert done.returncode == 1
        assert again in done.stderr
        assert "alpha/task.toml: " in done.stderr
        assert "beta/task.toml: " in done.stderr
        assert "error: it was pulled, but none of its 2 tasks loads" in done.stderr
    done = termarena("datasets", "pull", _packed(folder, tmp_path), "--json", env=home)
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["tasks"] == 0
    assert [broken["error"]["kind"] for broken in result["broken"]] == ["TaskFormatError", "TaskFormatError"]


def test_a_pull_with_one_task_that_loads_is_done_and_says_how_many_do_not(folder: Path, tmp_path: Path) -> None:
    (folder / "beta" / "task.toml").write_text("[[[")
    done = termarena("datasets", "pull", _packed(folder, tmp_path), env={"TERMARENA_HOME": str(tmp_path / "home")})
    assert done.returncode == 0
    assert "1 more do not load" in done.stderr


def _packed(folder: Path, tmp_path: Path) -> str:
    archive = tmp_path / "broken.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, "set")
    return f"{archive}#set"
