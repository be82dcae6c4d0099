from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tasks.pull.processes import start
from tasks.pull.repositories import IN_TASKS, commit, files_in, git
from tasks.pull.servers import Reply
from termarena.tasks.pull import PullError, find_pulled, pull
from termarena.tasks.pull.contract import Bench, Reporter, Step
from termarena.tasks.pull.git import Repository
from termarena.tasks.pull.source import read_source

if TYPE_CHECKING:
    from pathlib import Path

    from tasks.pull.servers import GitSite

pytestmark = [pytest.mark.needs("git")]


def fails(source: str, home: Path, *, offline: bool = False) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(source, home=home, offline=offline)
    return caught.value


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        ("@nowhere", "no branch or tag nowhere"),
        ("@deadbeef", "no branch, tag or commit deadbeef"),
        ("@" + "ab" * 20, "no commit abab"),
        ("#tasks/fourth", "no folder tasks/fourth"),
        ("#README.md", "no folder README.md"),
    ],
)
def test_what_is_not_in_the_repository_is_not_found(tail: str, problem: str, origin: Path, home: Path) -> None:
    error = fails(f"file://{origin}{tail}", home)
    assert error.reason == "not-found"
    assert problem in error.message
    assert not list(home.glob("datasets/*/.partial"))


def test_a_missing_folder_is_answered_with_those_that_are_there(origin: Path, home: Path) -> None:
    assert fails(f"file://{origin}#task", home).hint == "its folders are: docs, tasks"


def test_a_folder_that_is_a_link_in_the_repository_is_no_folder(origin: Path, home: Path) -> None:
    (origin / "elsewhere").symlink_to("/etc")
    commit(origin, {})
    assert fails(f"file://{origin}#elsewhere", home).reason == "not-found"


def test_a_repository_that_is_damaged_is_broken_not_offline(origin: Path, home: Path) -> None:
    git(origin, "config", "uploadpack.allowFilter", "false")
    blob = git(origin, "rev-parse", "HEAD:docs/large.bin")
    (origin / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert fails(f"file://{origin}", home).reason == "broken"


def test_a_repository_that_is_not_there_is_not_found(git_site: GitSite, home: Path) -> None:
    assert fails(f"{git_site.url}/other.git", home).reason == "not-found"


def test_a_repository_that_wants_a_login_is_unauthorised_and_asks_nobody(git_site: GitSite, home: Path) -> None:
    git_site.login = ("someone", "s3cret")
    error = fails(f"{git_site.url}/tasks.git", home)
    assert error.reason == "unauthorised"
    assert "private" in str(error.hint)


@pytest.mark.parametrize("way", ["GIT_ASKPASS", "SSH_ASKPASS", "core.askPass"])
def test_no_program_is_started_to_ask_for_a_password(
    way: str, git_site: GitSite, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git_site.login = ("someone", "s3cret")
    program = tmp_path / "ask"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho s3cret\n")
    program.chmod(0o755)
    if way == "core.askPass":
        (tmp_path / "gitconfig").write_text(f"[core]\naskPass = {program}\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    else:
        monkeypatch.setenv(way, str(program))
    assert fails(f"{git_site.url}/tasks.git", home).reason == "unauthorised"
    assert not (tmp_path / "asked").exists()


@pytest.mark.slow
def test_a_password_in_the_address_is_used_and_never_shown(git_site: GitSite, home: Path) -> None:
    git_site.login = ("someone", "s3cret")
    address = f"{git_site.url}/tasks.git".replace("//", "//someone:s3cret@")
    pulled = pull(f"{address}#tasks", home=home)
    assert files_in(pulled.path) == IN_TASKS
    git_site.login = ("someone", "another")
    error = fails(f"{address}@other", home)
    everything = [str(pulled), repr(pulled.as_dict()), str(error), repr(error.as_dict())]
    everything += [file.read_text(errors="replace") for file in home.rglob("*") if file.is_file()]
    everything += [str(file) for file in home.rglob("*")]
    assert not [text for text in everything if "s3cret" in text]
    assert error.reason == "unauthorised"


def test_a_password_in_the_address_is_not_written_into_what_an_interrupted_pull_leaves(
    git_site: GitSite, tmp_path: Path
) -> None:
    git_site.login = ("someone", "s3cret")
    address = f"{git_site.url}/tasks.git".replace("//", "//someone:s3cret@")
    with (tmp_path / "lock").open("wb") as lock:
        bench = Bench(tmp_path, Reporter(), lock.fileno())
        repository = Repository(tmp_path / "clone", address, read_source(address, {}).plan(), bench)
        repository.get(repository.resolve("main"), "main")
    left = [file for file in (tmp_path / "clone").rglob("*") if file.is_file()]
    assert left
    assert not [file for file in left if b"s3cret" in file.read_bytes()]


def test_a_server_that_is_not_there_is_a_network_problem_with_a_way_out(home: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/tasks.git"
        error = fails(f"{address}@v1#tasks", home)
    assert error.reason == "network"
    assert f"it would have come from the git repository {address} at v1, folder tasks" in error.message
    assert f"git clone {address} and check out v1" in str(error.hint)
    assert "termarena datasets pull PATH/tasks" in str(error.hint)


def test_a_name_that_does_not_resolve_is_a_network_problem(home: Path) -> None:
    assert fails("https://nowhere.invalid/tasks.git", home).reason == "network"


def test_a_server_that_says_nothing_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.tasks.pull.git_command.STALL_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = fails(f"git://127.0.0.1:{silent.getsockname()[1]}/tasks", home)
    assert error.reason == "network"
    assert "said nothing" in error.message


def test_offline_says_what_it_would_have_fetched_and_touches_nothing(home: Path) -> None:
    error = fails("github:owner/name@v1#tasks", home, offline=True)
    assert error.reason == "offline"
    assert "https://github.com/owner/name at v1, folder tasks" in error.message
    assert "git clone https://github.com/owner/name" in str(error.hint)
    assert not home.exists()


def test_offline_gives_what_is_in_the_cache(git_site: GitSite, home: Path) -> None:
    source = f"{git_site.url}/tasks.git#tasks"
    there = pull(source, home=home)
    assert pull(source, home=home, offline=True, refresh=True).path == there.path


def test_without_git_the_hint_is_to_install_it(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = fails("github:owner/name", home)
    assert error.reason == "no-git"
    assert "install git" in str(error.hint)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


def test_a_pointer_inside_a_task_is_refused_by_name(origin: Path, home: Path) -> None:
    commit(origin, {"tasks/first/environment/model.bin": POINTER, "docs/picture.png": POINTER})
    error = fails(f"file://{origin}#tasks", home)
    assert error.reason == "lfs"
    assert "1 files of its tasks" in error.message
    assert "first/environment/model.bin" in error.message
    assert "git-lfs" in str(error.hint)


def test_a_pointer_beside_the_tasks_is_only_noted(origin: Path, home: Path) -> None:
    commit(origin, {"docs/picture.png": POINTER})
    notes = pull(f"file://{origin}", home=home).notes
    assert notes == ("1 files beside the tasks are Git LFS pointers without their content",)
    assert pull(f"file://{origin}", home=home).notes == notes


def test_the_locks_of_a_killed_git_do_not_stop_the_next_pull(origin: Path, home: Path) -> None:
    fails(f"file://{origin}.gone#tasks", home)
    source = read_source(f"file://{origin}#tasks", {})
    left = home / "datasets" / source.shelf / ".partial" / "git"
    left.mkdir(parents=True)
    git(left, "init", "--quiet")
    (left / ".git/info").mkdir(exist_ok=True)
    (left / ".git/info/attributes").write_text("* -text\n")
    for name in ("index.lock", "shallow.lock", "config.lock", "info/sparse-checkout.lock"):
        (left / ".git" / name).touch()
    assert files_in(pull(f"file://{origin}#tasks", home=home).path) == IN_TASKS


@pytest.mark.slow
def test_a_git_that_outlives_a_killed_pull_is_waited_for_and_what_it_got_is_used(
    git_site: GitSite, origin: Path, home: Path
) -> None:
    source = f"{git_site.url}/tasks.git@{git(origin, 'rev-parse', 'HEAD')}#tasks"
    git_site.faults["/tasks.git/git-upload-pack"] = [Reply(cut_after=0, body=b"x", held=True)]
    with start(source, home) as victim:
        assert git_site.reached.wait(30)
        victim.kill()
        victim.communicate()
    assert find_pulled(source, home=home) is None
    steps: list[str] = []

    def release(step: Step) -> None:
        steps.append(step.what)
        git_site.released.set()

    assert files_in(pull(source, home=home, progress=release).path) == IN_TASKS
    assert steps[0] == "waiting for another pull of the same dataset"
