from __future__ import annotations

import json
from typing import TYPE_CHECKING

from running import termarena

if TYPE_CHECKING:
    from pathlib import Path


def test_each_value_is_shown_with_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "termarena.toml"
    file.write_text('[tasks]\nstrict = true\n[datasets.sources]\nmine = "https://me:secret@host/x.git"\n')
    done = termarena("settings", "--json", cwd=tmp_path, env={"TERMARENA_HOME": "/cache"})
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "schema_version": 1,
        "kind": "settings",
        "settings": {
            "paths.home": {"value": "/cache", "from": "environment", "where": "TERMARENA_HOME"},
            "tasks.strict": {"value": True, "from": "project", "where": str(file)},
            "datasets.sources.mine": {"value": "https://host/x.git", "from": "project", "where": str(file)},
        },
    }
    rows = [line.split() for line in termarena("settings", cwd=tmp_path).stdout.splitlines()]
    assert ["tasks.strict", "true", "project", str(file)] in rows


def test_no_credential_of_a_source_is_shown(tmp_path: Path) -> None:
    sources = 'a = "https://me:s3cret@host/x"\nb = "https://host/x.zip?token=s3cret"\n'
    (tmp_path / "termarena.toml").write_text(f"[datasets.sources]\n{sources}")
    for command in (["settings"], ["settings", "--json"], ["datasets", "list"], ["datasets", "list", "--json"]):
        done = termarena(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "https://host/x.zip" in done.stdout
        assert "s3cret" not in done.stdout + done.stderr


def test_the_files_are_listed_whether_they_are_there_or_not(tmp_path: Path) -> None:
    (tmp_path / "termarena.toml").write_text("")
    done = termarena("settings", "path", cwd=tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path / "c")})
    assert done.stdout.splitlines() == [
        f"{tmp_path}/termarena.toml  (project)",
        f"{tmp_path}/c/termarena/termarena.toml  (user, not there)",
    ]
    listed = json.loads(termarena("settings", "path", "--json", cwd=tmp_path).stdout)
    assert [(file["of"], file["is_there"]) for file in listed["files"]] == [("project", True), ("user", False)]


def test_a_slip_in_a_variables_name_is_pointed_out(tmp_path: Path) -> None:
    done = termarena("settings", cwd=tmp_path, env={"TERMARENA_TASK_STRICT": "1"})
    assert done.returncode == 0
    assert done.stderr == "warning: TERMARENA_TASK_STRICT names no setting; did you mean TERMARENA_TASKS_STRICT?\n"


def test_a_bad_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "termarena.toml").write_text("[tasks]\nstrikt = true\n")
    done = termarena("settings", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"error: {tmp_path}/termarena.toml: tasks.strikt: no such setting",
        "hint: did you mean tasks.strict?",
    ]
