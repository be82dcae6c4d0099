from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from tasks.pull.repositories import TWO_TASKS, commit, files_in, git, make_repository
from tasks.pull.servers import GitSite, Reply
from termarena.core.errors import NotFound, TaskFormatError
from termarena.tasks.pull import PullError, find_pulled, pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tasks.pull.servers import Site

pytestmark = [pytest.mark.needs("git"), pytest.mark.slow]

Row = dict[str, object]


@pytest.fixture
def git_site(tmp_path: Path) -> Iterator[GitSite]:
    """Two repositories, `one` with two commits."""
    for name in ("one", "two"):
        make_repository(tmp_path / name, TWO_TASKS)
    commit(tmp_path / "one", {"tasks/first/instruction.md": b"Do the first better.\n"})
    for name in ("one", "two"):
        git(tmp_path, "clone", "--quiet", "--bare", name, f"served/{name}.git")
        git(tmp_path / f"served/{name}.git", "config", "uploadpack.allowFilter", "true")
    site = GitSite(tmp_path / "served")
    with site.running():
        yield site


def commits(site: GitSite, name: str) -> list[str]:
    """Newest first."""
    return git(site.root / f"{name}.git", "rev-list", "main").splitlines()


def harbor(site: GitSite) -> Row:
    def task(name: str, repository: str, revision: str | None, path: str) -> Row:
        return {"name": name, "git_url": f"{site.url}/{repository}.git", "git_commit_id": revision, "path": path}

    new, old = commits(site, "one")
    two = commits(site, "two")[0]
    return {
        "name": "mixed",
        "version": "1.0",
        "description": "Tasks from everywhere.",
        "tasks": [
            task("first-old", "one", old, "tasks/first"),
            task("first-new", "one", new, "./tasks/first"),
            task("second", "one", old, "tasks/second"),
            task("org/other", "two", two, "tasks/second"),
        ],
    }


def terminal_bench_1(site: GitSite, **changes: object) -> Row:
    row: Row = {
        "name": "core",
        "version": "0.1.1",
        "description": None,
        "terminal_bench_version": ">=0.2.4",
        "github_url": f"{site.url}/one.git",
        "dataset_path": "./tasks",
        "branch": "main",
        "commit_hash": commits(site, "one")[1],
        "task_id_subset": ["second"],
    }
    return row | changes


def write(folder: Path, *rows: object) -> str:
    (folder / "registry.json").write_text(json.dumps(rows))
    return f"registry:{folder}/registry.json"


def fails(source: str, home: Path) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(source, home=home)
    return caught.value


def test_a_dataset_of_several_repositories_comes_together_each_commit_fetched_once(
    git_site: GitSite, tmp_path: Path, home: Path
) -> None:
    pulled = pull(f"{write(tmp_path, harbor(git_site))}#mixed@1.0", home=home)
    assert sorted(entry.name for entry in pulled.path.iterdir()) == ["first-new", "first-old", "org__other", "second"]
    assert (pulled.path / "first-old/instruction.md").read_bytes() == b"Do the first.\n"
    assert (pulled.path / "first-new/instruction.md").read_bytes() == b"Do the first better.\n"
    assert pulled.path.name == "mixed"
    # A fetch of a commit asks for references, for the commit and for the files of it.
    asked = [path for path in git_site.paths() if path.endswith("git-upload-pack") and path.startswith("/one.git/")]
    assert 0 < len([path for path in asked if "info/refs" in path]) <= 4


def test_rows_with_commits_need_no_network_the_second_time(git_site: GitSite, tmp_path: Path, home: Path) -> None:
    source = f"{write(tmp_path, harbor(git_site))}#mixed"
    first = pull(source, home=home)
    asked = len(git_site.requests)
    assert pull(source, home=home, refresh=True).path == first.path
    assert pull(source, home=home, offline=True).is_from_cache
    assert len(git_site.requests) == asked


def test_a_row_that_changed_is_another_revision(git_site: GitSite, tmp_path: Path, home: Path) -> None:
    row = harbor(git_site)
    first = pull(f"{write(tmp_path, row)}#mixed", home=home)
    tasks = row["tasks"]
    assert isinstance(tasks, list)
    source = f"{write(tmp_path, row | {'tasks': tasks[:1]})}#mixed"
    assert find_pulled(source, home=home) is None
    second = pull(source, home=home)
    assert second.revision != first.revision
    assert [entry.name for entry in second.path.iterdir()] == ["first-old"]


@pytest.mark.parametrize("revision", [None, "HEAD", "main"])
def test_a_row_without_a_commit_means_the_newest_and_says_which_it_was(
    revision: str | None, git_site: GitSite, tmp_path: Path, home: Path
) -> None:
    task = {"name": "first", "git_url": f"{git_site.url}/one.git", "git_commit_id": revision, "path": "tasks/first"}
    source = f"{write(tmp_path, {'name': 'set', 'version': 'head', 'description': '', 'tasks': [task]})}#set"
    before = pull(source, home=home)
    assert (before.path / "first/instruction.md").read_bytes() == b"Do the first better.\n"
    commit(tmp_path / "one", {"tasks/first/instruction.md": b"Best.\n"})
    git(git_site.root / "one.git", "fetch", "--quiet", str(tmp_path / "one"), "main:main")
    assert pull(source, home=home).revision == before.revision
    after = pull(source, home=home, refresh=True)
    assert after.revision != before.revision
    assert (after.path / "first/instruction.md").read_bytes() == b"Best.\n"


def test_a_row_of_terminal_bench_1_takes_its_subset(git_site: GitSite, tmp_path: Path, home: Path) -> None:
    pulled = pull(f"{write(tmp_path, terminal_bench_1(git_site))}#core@0.1.1", home=home)
    assert files_in(pulled.path) == {
        name.removeprefix("tasks/"): data for name, data in TWO_TASKS.items() if name.startswith("tasks/second")
    }


def test_a_row_of_terminal_bench_1_without_a_subset_takes_the_newest_of_all(
    git_site: GitSite, tmp_path: Path, home: Path
) -> None:
    row = terminal_bench_1(git_site, version="head", commit_hash="head", task_id_subset=None)
    pulled = pull(f"{write(tmp_path, row)}#core", home=home)
    assert sorted(entry.name for entry in pulled.path.iterdir()) == ["first", "second"]
    assert (pulled.path / "first/instruction.md").read_bytes() == b"Do the first better.\n"


# `zip -P TERMINAL-BENCH-ADAPTED-DATASET` of hidden/task.yaml, which holds "instruction: x\n".
HIDDEN = base64.b64decode(
    "UEsDBAoACQAAANRMb122nxceGwAAAA8AAAAQAAAAaGlkZGVuL3Rhc2sueWFtbJXae7x6kdOjN1Saj1vZlOKf91VL13LuQ4WfelBL"
    "Bwi2nxceGwAAAA8AAABQSwECHgMKAAkAAADUTG9dtp8XHhsAAAAPAAAAEAAAAAAAAAABAAAApIEAAAAAaGlkZGVuL3Rhc2sueWFt"
    "bFBLBQYAAAAAAQABAD4AAABZAAAAAAA="
)


def test_the_hidden_archives_of_an_adapted_dataset_are_opened(git_site: GitSite, tmp_path: Path, home: Path) -> None:
    commit(tmp_path / "one", {"datasets/adapted/hidden.zip": HIDDEN})
    git(git_site.root / "one.git", "fetch", "--quiet", str(tmp_path / "one"), "main:main")
    row = terminal_bench_1(git_site, commit_hash="head", dataset_path="datasets/adapted", task_id_subset=None)
    pulled = pull(f"{write(tmp_path, row)}#core", home=home)
    assert files_in(pulled.path) == {"hidden/task.yaml": b"instruction: x\n"}


def test_tasks_beside_the_registry_are_copied(tmp_path: Path, home: Path) -> None:
    (tmp_path / "mine/first").mkdir(parents=True)
    (tmp_path / "mine/first/task.toml").write_bytes(b"x")
    (tmp_path / "mine/first/link").symlink_to("task.toml")
    row = {"name": "set", "version": "1", "tasks": [{"name": "first", "path": "mine/first"}]}
    pulled = pull(write(tmp_path, row), home=home)
    assert (pulled.path / "first/task.toml").read_bytes() == b"x"
    assert (pulled.path / "first/link").is_symlink()


def test_a_registry_behind_a_url_is_read(git_site: GitSite, site: Site, home: Path) -> None:
    site.pages["/registry.json"] = Reply(body=json.dumps([terminal_bench_1(git_site)]).encode())
    pulled = pull(f"registry:{site.url}/registry.json#core@0.1.1", home=home)
    assert sorted(entry.name for entry in pulled.path.iterdir()) == ["second"]


def test_a_dataset_that_is_not_listed_is_answered_with_those_that_are(tmp_path: Path, home: Path) -> None:
    rows: list[Row] = [{"name": "set", "version": version} for version in ("1", "2")]
    for wanted in ("#other", "#set", "#set@3", ""):
        with pytest.raises(NotFound) as caught:
            pull(f"{write(tmp_path, *rows)}{wanted}", home=home)
        assert caught.value.known == ("set@1", "set@2")


def test_a_folder_that_the_commit_does_not_have_is_not_found(git_site: GitSite, tmp_path: Path, home: Path) -> None:
    row = terminal_bench_1(git_site, task_id_subset=["second", "third"])
    error = fails(f"{write(tmp_path, row)}#core", home)
    assert error.reason == "not-found"
    assert "tasks/third" in error.message


def test_a_registry_cannot_make_git_run_a_command(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text("[protocol]\nallow = always\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    task = {"name": "a", "git_url": f"ext::touch {tmp_path}/ran", "git_commit_id": "ab" * 20, "path": "a"}
    fails(write(tmp_path, {"name": "set", "version": "1", "tasks": [task]}), home)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", ["{}", "file://{}", "FILE://{}", "file:{}", "../../{}", "."])
def test_a_registry_behind_a_url_cannot_name_a_repository_of_this_machine(
    form: str, site: Site, tmp_path: Path, home: Path
) -> None:
    make_repository(tmp_path / "mine", TWO_TASKS)
    url = form.format(tmp_path / "mine")
    task = {"name": "first", "git_url": url, "git_commit_id": "main", "path": "tasks/first"}
    core = {"github_url": url, "dataset_path": "tasks", "branch": "main", "commit_hash": "head"}
    for row, place in (({"tasks": [task]}, "[0].tasks[0].git_url"), (core, "[0].github_url")):
        site.pages["/registry.json"] = Reply(body=json.dumps([{"name": "set", "version": "1", **row}]).encode())
        with pytest.raises(TaskFormatError, match="expected a repository elsewhere") as caught:
            pull(f"registry:{site.url}/registry.json#set", home=home)
        assert caught.value.field == place


def test_a_registry_on_this_machine_can_name_a_repository_of_it(tmp_path: Path, home: Path) -> None:
    make_repository(tmp_path / "mine", TWO_TASKS)
    task = {"name": "first", "git_url": f"file://{tmp_path}/mine", "git_commit_id": "main", "path": "tasks/first"}
    pulled = pull(write(tmp_path, {"name": "set", "version": "1", "tasks": [task]}), home=home)
    assert (pulled.path / "first/task.toml").is_file()


TASK = {"name": "a", "git_url": "https://host.invalid/x.git", "git_commit_id": "ab" * 20, "path": "a"}


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"tasks": None}, "[0].tasks"),
        ({"tasks": []}, "[0].tasks"),
        ({"tasks": ["a"]}, "[0].tasks[0]"),
        ({"tasks": [TASK, TASK]}, "[0].tasks[1].name"),
        ({"tasks": [TASK | {"name": 7}]}, "[0].tasks[0].name"),
        ({"tasks": [TASK | {"name": ".."}]}, "[0].tasks[0]"),
        ({"tasks": [TASK | {"path": "../up"}]}, "[0].tasks[0].path"),
        ({"tasks": [TASK | {"path": "."}]}, "[0].tasks[0]"),
        ({"tasks": [TASK | {"git_url": "--upload-pack=x"}]}, "[0].tasks[0].git_url"),
        ({"tasks": [TASK | {"git_commit_id": "-x"}]}, "[0].tasks[0].git_commit_id"),
        ({"github_url": "https://host.invalid/x"}, "[0].commit_hash"),
    ],
)
def test_a_row_that_is_wrong_is_refused_by_its_place(row: Row, place: str, tmp_path: Path, home: Path) -> None:
    with pytest.raises(TaskFormatError) as caught:
        pull(write(tmp_path, {"name": "set", "version": "1", **row}), home=home)
    assert caught.value.field == place


@pytest.mark.parametrize("content", ["", "[", "{}", "[1]", "[" * 100_000])
def test_a_file_that_is_no_registry_is_refused(content: str, tmp_path: Path, home: Path) -> None:
    (tmp_path / "registry.json").write_text(content)
    with pytest.raises(TaskFormatError):
        pull(f"registry:{tmp_path}/registry.json#a", home=home)
