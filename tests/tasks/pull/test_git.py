from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tasks.pull.repositories import IN_TASKS, TWO_TASKS, commit, files_in, git, make_repository
from tasks.pull.servers import GitSite, Reply
from termarena.tasks.pull import find_pulled, pull
from termarena.tasks.pull.contract import Bench, Reporter, Step
from termarena.tasks.pull.git import Repository
from termarena.tasks.pull.source import read_source

if TYPE_CHECKING:
    from tasks.pull.servers import Site

pytestmark = [pytest.mark.needs("git")]


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_refreshing_a_branch_that_did_not_move_fetches_nothing(git_site: GitSite, home: Path) -> None:
    source = f"{git_site.url}/tasks.git@main#tasks"
    before = pull(source, home=home)
    again = pull(source, home=home, refresh=True)
    assert again.is_from_cache
    assert again.pulled_at == before.pulled_at
    assert not list(home.glob("datasets/*/.partial"))


def test_progress_counts_objects_up_to_their_total(daemon: str, home: Path) -> None:
    steps: list[Step] = []
    pull(daemon, home=home, progress=steps.append)
    received = [step for step in steps if step.what == "receiving objects"]
    assert received
    assert received[-1].files_done == received[-1].files_total
