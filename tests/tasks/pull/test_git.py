from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tasks.pull.processes import start
from tasks.pull.repositories import TWO_TASKS, commit, files_in, git, make_repository
from tasks.pull.servers import GitSite, Reply
from termarena.tasks.pull import PullError, find_pulled, pull
from termarena.tasks.pull.contract import Bench, Reporter, Step
from termarena.tasks.pull.git import Repository
from termarena.tasks.pull.source import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.pull.servers import Site

pytestmark = [pytest.mark.needs("git")]

IN_TASKS = {name.removeprefix("tasks/"): data for name, data in TWO_TASKS.items() if name.startswith("tasks/")}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    make_repository(folder, TWO_TASKS)
    return folder


@pytest.fixture
def git_site(tmp_path: Path, origin: Path) -> Iterator[GitSite]:
    git(tmp_path, "clone", "--quiet", "--bare", str(origin), "served/tasks.git")
    git(tmp_path / "served/tasks.git", "config", "uploadpack.allowFilter", "true")
    site = GitSite(tmp_path / "served")
    with site.running():
        yield site


@pytest.fixture
def daemon(tmp_path: Path, origin: Path) -> Iterator[str]:
    """A `git daemon` with the repository; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["git", "daemon", "--verbose", "--listen=127.0.0.1", f"--port={port}", "--export-all", "--reuseaddr"]
    command.append(f"--base-path={origin.parent}")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:  # noqa: S603
        assert server.stderr is not None
        said = server.stderr.readline()
        assert "Ready to rumble" in said, said
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield f"git://127.0.0.1:{port}/origin"
        server.terminate()


def fails(source: str, home: Path, *, offline: bool = False, refresh: bool = False) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(source, home=home, offline=offline, refresh=refresh)
    return caught.value


def test_the_whole_repository_comes_byte_for_byte_from_a_git_server(daemon: str, origin: Path, home: Path) -> None:
    pulled = pull(daemon, home=home)
    assert files_in(pulled.path) == TWO_TASKS
    assert pulled.revision == git(origin, "rev-parse", "HEAD")
    assert (pulled.files, pulled.size_bytes) == (len(TWO_TASKS), sum(map(len, TWO_TASKS.values())))
    assert not pulled.is_from_cache
    assert pulled.path.name == "origin"


def test_only_the_folder_asked_for_comes(daemon: str, home: Path) -> None:
    assert files_in(pull(f"{daemon}#tasks", home=home).path) == IN_TASKS


def test_what_other_folders_hold_is_never_transferred(daemon: str, origin: Path, tmp_path: Path) -> None:
    plan = read_source(daemon, {}).plan()
    with (tmp_path / "lock").open("wb") as lock:
        repository = Repository(tmp_path / "clone", daemon, plan, Bench(tmp_path, Reporter(), lock.fileno()))
        tip = repository.resolve("main")
        repository.get(tip, "main")
        repository.check_out(tip, ["tasks"])
    listing = git(tmp_path / "clone", "rev-list", "--objects", "--missing=print", "HEAD").splitlines()
    assert f"?{git(origin, 'rev-parse', 'HEAD:docs/large.bin')}" in listing
    assert not (tmp_path / "clone" / "docs").exists()


@pytest.mark.parametrize("spelled", ["main", "v1", "commit", "short", "refs/heads/main"])
def test_a_revision_can_be_a_branch_a_tag_or_a_commit(spelled: str, origin: Path, home: Path) -> None:
    first = git(origin, "rev-parse", "HEAD")
    git(origin, "tag", "--annotate", "--message", "one", "v1")
    wanted = {"commit": first, "short": first[:9]}.get(spelled, spelled)
    pulled = pull(f"file://{origin}@{wanted}#tasks", home=home)
    assert pulled.revision == first
    assert files_in(pulled.path) == IN_TASKS


def test_a_tag_wins_over_a_branch_of_the_same_name(origin: Path, home: Path) -> None:
    first = git(origin, "rev-parse", "HEAD")
    git(origin, "tag", "same")
    commit(origin, {"more": b"more"})
    git(origin, "branch", "same")
    assert pull(f"file://{origin}@same", home=home).revision == first


def test_a_commit_that_is_not_the_newest_comes_from_a_server_that_gives_single_commits(
    git_site: GitSite, origin: Path, home: Path
) -> None:
    first = git(origin, "rev-parse", "HEAD")
    commit(origin, {"tasks/third/task.toml": b""})
    git(git_site.root / "tasks.git", "fetch", "--quiet", str(origin), "main:main")
    assert files_in(pull(f"{git_site.url}/tasks.git@{first}#tasks", home=home).path) == IN_TASKS


@pytest.mark.parametrize("revision", ["main", "v1", "commit"])
def test_an_old_server_that_gives_neither_single_commits_nor_partial_ones_still_works(
    revision: str, git_site: GitSite, origin: Path, home: Path
) -> None:
    served = git_site.root / "tasks.git"
    git(served, "config", "uploadpack.allowFilter", "false")
    git(served, "tag", "v1", "main")
    first = git(origin, "rev-parse", "HEAD")
    commit(origin, {"tasks/third/task.toml": b""})
    git(served, "fetch", "--quiet", str(origin), "main:main")
    git_site.speaks_version_2 = False
    wanted = first if revision == "commit" else revision
    pulled = pull(f"{git_site.url}/tasks.git@{wanted}#tasks", home=home)
    assert pulled.revision == (git(origin, "rev-parse", "HEAD") if revision == "main" else first)
    assert ("third/task.toml" in files_in(pulled.path)) == (revision == "main")


def test_a_plain_file_server_is_enough(site: Site, origin: Path, tmp_path: Path, home: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(origin), "dumb.git")
    git(tmp_path / "dumb.git", "update-server-info")
    site.pages = {f"/dumb.git/{name}": Reply(body=data) for name, data in files_in(tmp_path / "dumb.git").items()}
    assert files_in(pull(f"git+{site.url}/dumb.git@main#tasks", home=home).path) == IN_TASKS


def test_content_is_not_converted_on_the_way(tmp_path: Path, home: Path) -> None:
    odd = {
        ".gitattributes": b"* text=auto eol=crlf\nkeyword ident export-subst\nwide working-tree-encoding=UTF-16\n",
        "unix": b"a\nb\n",
        "mixed": b"a\r\nb\n",
        "keyword": b"$Id$ $Format:%H$\n",
        "wide": b"plain\n",
    }
    folder = tmp_path / "origin"
    make_repository(folder, {"empty": b""})
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text("* -text -ident !eol !working-tree-encoding\n")
    commit(folder, odd)
    assert files_in(pull(f"file://{folder}", home=home).path) == {**odd, "empty": b""}


def test_executable_bits_and_links_are_kept(origin: Path, home: Path) -> None:
    script = origin / "tasks/first/solve.sh"
    script.write_bytes(b"#!/bin/sh\n")
    script.chmod(0o755)
    (origin / "tasks/first/link").symlink_to("instruction.md")
    commit(origin, {})
    path = pull(f"file://{origin}#tasks", home=home).path
    assert os.access(path / "first/solve.sh", os.X_OK)
    assert not os.access(path / "first/task.toml", os.X_OK)
    assert (path / "first/link").readlink() == Path("instruction.md")


def test_hooks_and_filters_of_the_user_do_not_run(
    origin: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(origin, {".gitattributes": b"* filter=loud\n"})
    ran = tmp_path / "ran"
    hook = tmp_path / "hooks/post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f'[core]\nhooksPath = {hook.parent}\n[filter "loud"]\nsmudge = touch {ran}; cat\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert files_in(pull(f"file://{origin}#tasks", home=home).path) == IN_TASKS
    assert not ran.exists()


def test_settings_of_git_in_the_environment_are_kept(origin: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{origin}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://mirrored.invalid/tasks")
    assert files_in(pull("https://mirrored.invalid/tasks#tasks", home=home).path) == IN_TASKS


def test_a_pinned_commit_is_pulled_once_and_then_needs_no_server(git_site: GitSite, origin: Path, home: Path) -> None:
    source = f"{git_site.url}/tasks.git@{git(origin, 'rev-parse', 'HEAD')}#tasks"
    first = pull(source, home=home)
    asked = len(git_site.requests)
    again = pull(source, home=home, refresh=True)
    assert asked > 0
    assert len(git_site.requests) == asked
    assert again.path == first.path
    assert again.is_from_cache
    assert again == find_pulled(source, home=home)


def test_a_branch_stays_what_it_was_until_it_is_refreshed(git_site: GitSite, origin: Path, home: Path) -> None:
    source = f"{git_site.url}/tasks.git@main#tasks"
    before = pull(source, home=home)
    newer = commit(origin, {"tasks/third/task.toml": b""})
    git(git_site.root / "tasks.git", "fetch", "--quiet", str(origin), "main:main")
    asked = len(git_site.requests)
    assert pull(source, home=home).revision == before.revision
    assert len(git_site.requests) == asked
    after = pull(source, home=home, refresh=True)
    assert after.revision == newer
    assert (after.path / "third/task.toml").exists()
    assert files_in(before.path) == IN_TASKS
    assert pull(source, home=home).revision == newer


def test_refreshing_a_branch_that_did_not_move_fetches_nothing(git_site: GitSite, home: Path) -> None:
    source = f"{git_site.url}/tasks.git@main#tasks"
    before = pull(source, home=home)
    again = pull(source, home=home, refresh=True)
    assert again.is_from_cache
    assert again.pulled_at == before.pulled_at
    assert not list(home.glob("datasets/*/.partial"))


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


def test_a_repository_that_is_not_there_is_not_found(git_site: GitSite, home: Path) -> None:
    assert fails(f"{git_site.url}/other.git", home).reason == "not-found"


def test_a_repository_that_wants_a_login_is_unauthorised_and_asks_nobody(git_site: GitSite, home: Path) -> None:
    git_site.login = ("someone", "s3cret")
    error = fails(f"{git_site.url}/tasks.git", home)
    assert error.reason == "unauthorised"
    assert "private" in str(error.hint)


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


def test_progress_counts_objects_up_to_their_total(daemon: str, home: Path) -> None:
    steps: list[Step] = []
    pull(daemon, home=home, progress=steps.append)
    received = [step for step in steps if step.what == "receiving objects"]
    assert received
    assert received[-1].files_done == received[-1].files_total
