from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termarena.core.errors import NotFound, UsageError
from termarena.tasks.pull import explain, known_sources, pull
from termarena.tasks.pull.contract import shown
from termarena.tasks.pull.source import read_source

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "ab" * 20
DIGEST = "CD" * 32


@pytest.mark.parametrize(
    ("text", "kind", "address", "revision", "folder"),
    [
        ("github:owner/name", "git", "https://github.com/owner/name", None, ""),
        ("github:owner/name@v1", "git", "https://github.com/owner/name", "v1", ""),
        ("github:owner/name@a/branch#in/it", "git", "https://github.com/owner/name", "a/branch", "in/it"),
        ("github:owner/name#./in//it/", "git", "https://github.com/owner/name", None, "in/it"),
        ("https://host.invalid/owner/name.git@v1#tasks", "git", "https://host.invalid/owner/name.git", "v1", "tasks"),
        ("https://host.invalid:8443/name@v1", "git", "https://host.invalid:8443/name", "v1", ""),
        ("ssh://git@host.invalid/owner/name@v1", "git", "ssh://git@host.invalid/owner/name", "v1", ""),
        ("git@host.invalid:owner/name.git@v1#tasks", "git", "git@host.invalid:owner/name.git", "v1", "tasks"),
        ("git://host.invalid/name", "git", "git://host.invalid/name", None, ""),
        ("file:///srv/name@v1", "git", "file:///srv/name", "v1", ""),
        ("git+https://host.invalid/name.zip@v1", "git", "https://host.invalid/name.zip", "v1", ""),
        ("hf:org/name@main#a b", "huggingface", "https://huggingface.co/datasets/org/name", "main", "a b"),
        ("https://host.invalid/a.tar.gz", "archive", "https://host.invalid/a.tar.gz", None, ""),
        ("https://host.invalid/a.tgz?key=value#in", "archive", "https://host.invalid/a.tgz", None, "in"),
        (
            f"https://host.invalid/a.tar.xz@sha256:{DIGEST}#in",
            "archive",
            "https://host.invalid/a.tar.xz",
            f"sha256:{DIGEST.lower()}",
            "in",
        ),
        ("registry:https://host.invalid/r.json#set@1.0", "registry", "https://host.invalid/r.json", "set@1.0", ""),
    ],
)
def test_a_source_is_read_as_it_is_written(
    text: str, kind: str, address: str, revision: str | None, folder: str
) -> None:
    plan = explain(text)
    assert (plan.kind, plan.address, plan.revision, plan.folder) == (kind, address, revision, folder)
    assert plan.source == shown(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("github:owner/my.tasks", "my.tasks"),
        ("https://host.invalid/owner/name.git/@v1", "name"),
        ("git@host.invalid:name.git", "name"),
        ("https://host.invalid/x/my%20tasks-1.0.tar.gz", "my-tasks-1.0"),
        ("hf:org/name", "name"),
        ("registry:https://host.invalid/r.json#org/set@1.0", "org-set"),
        ("registry:https://host.invalid/r.json", "r"),
    ],
)
def test_a_dataset_has_a_name_that_can_be_that_of_a_folder(text: str, name: str) -> None:
    assert explain(text).name == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\nb",
        "github:owner",
        "github:owner/name/more",
        "github:owner/name@",
        "github:owner/name@--upload-pack=touch",
        "github:owner/name@a..b",
        "github:owner/name@a b",
        "github:owner/name#../up",
        "hf:name",
        "ftp://host.invalid/a.tar.gz",
        "ext::sh -c touch% x",
        "https://host.invalid/a.zip@sha256:123",
        "registry:",
        "registry:file:///r.json#set",
        "https://host.invalid",
        "https://[/a.zip",
        "https://host.invalid:99999999/a.zip",
        "registry:https://[/r.json#set",
    ],
)
def test_what_is_no_source_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        explain(text)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=300) | st.from_regex(r"(github:|hf:|registry:|https://h/|git\+|file://)[\w/@#.:~%\[\]-]{0,300}")
)
def test_any_text_is_a_source_or_a_usage_error(text: str) -> None:
    try:
        plan = explain(text)
    except UsageError:
        return
    assert plan.describe()
    shelf = read_source(text, {}).shelf
    assert shelf not in ("", ".", "..")
    assert "/" not in shelf


def test_only_a_whole_commit_or_a_digest_pins() -> None:
    pinned = [f"github:a/b@{COMMIT}", f"hf:a/b@{COMMIT}", f"https://h.invalid/a.zip@sha256:{DIGEST}"]
    open_ended = ["github:a/b", "github:a/b@v1", f"github:a/b@{COMMIT[:12]}", "https://h.invalid/a.zip", "hf:a/b@main"]
    assert [explain(text).is_pinned for text in pinned] == [True, True, True]
    assert not any(explain(text).is_pinned for text in open_ended)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:s3cret@host/x", "https://host/x"),
        ("https://s3cret@host/x@v1", "https://host/x@v1"),
        ("ssh://git:s3cret@host/x", "ssh://git@host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("unable to access 'https://a:s3cret@host/x/': gone", "unable to access 'https://host/x/': gone"),
        ("https://host/x?X-Amz-Signature=s3cret", "https://host/x"),
        ("git@host:x", "git@host:x"),
        ("https://user:s3cret@s3cret@host/x", "https://host/x"),
        ("HTTPS://user:s3cret@host/x?key=s3cret", "HTTPS://host/x"),
        ("git+https://s3cret@host/x?key=s3cret", "git+https://host/x"),
        ("git+ssh://git:s3cret@host/x", "git+ssh://git@host/x"),
    ],
)
def test_credentials_are_never_shown(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_credentials_do_not_decide_where_a_dataset_lies() -> None:
    with_one = read_source("https://user:s3cret@host.invalid/x.git", {})
    assert "s3cret" not in repr(with_one)
    assert with_one.shelf == read_source("https://host.invalid/x.git", {}).shelf


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("git+https://h.invalid/x?access_token=s3cret", "x"),
        ("https://h.invalid/x.git?access_token=s3cret@v1", "x"),
        ("https://user:s3cret@h.invalid//", "h.invalid"),
        ("https://user:s3cret@h.invalid/x.zip?key=s3cret", "x"),
        ("registry:https://h.invalid/r?access_token=s3cret", "r"),
    ],
)
def test_credentials_are_in_no_name(text: str, name: str) -> None:
    source = read_source(text, {})
    assert source.name == name
    assert "s3cret" not in f"{source} {source.shelf} {source.plan()}"


def test_credentials_are_in_no_error_about_a_source() -> None:
    for text in ("HTTPS://user:s3cret@h.invalid/x", "https://user:s3cret@h.invalid/x\n", "ftp://me:s3cret@h.invalid/x"):
        with pytest.raises(UsageError) as caught:
            explain(text)
        assert "s3cret" not in f"{caught.value.as_dict()}"


def test_credentials_are_not_listed_with_the_known_names() -> None:
    sources = {"ours": "https://user:s3cret@h.invalid/x", "theirs": "https://h.invalid/x.zip?key=s3cret"}
    listed = known_sources(sources)
    assert (listed["ours"], listed["theirs"]) == ("https://h.invalid/x", "https://h.invalid/x.zip")


def test_a_query_decides_where_a_dataset_lies() -> None:
    shelves = {read_source(f"https://h.invalid/x.zip{query}", {}).shelf for query in ("", "?v=1", "?v=2")}
    assert len(shelves) == 3


def test_different_folders_of_a_repository_lie_apart() -> None:
    shelves = {read_source(f"github:a/b{tail}", {}).shelf for tail in ("", "#one", "#two", "@v1#one")}
    assert len(shelves) == 3


def test_the_known_names_stand_for_pinned_public_sources() -> None:
    core = explain("terminal-bench-core@0.1.1")
    assert core.revision == "91e10457b5410f16c44364da1a34cb6de8c488a5"
    assert core.folder == "tasks"
    # The digest of the registry's own list, published with the row.
    listed = hashlib.sha256("\n".join(core.tasks).encode()).hexdigest()
    assert listed == "c3a4e299ff002f3c2201de9dfdf0a7ed64a41cd1ea4253480d99502e086ce190"
    assert explain("terminal-bench@2.0").revision == "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c"
    assert explain("terminalworld").address == "https://huggingface.co/datasets/EuniAI/TerminalWorld"
    assert [explain(name).name for name in ("terminal-bench@2.1", "terminalworld")] == [
        "terminal-bench",
        "terminalworld",
    ]


def test_a_version_can_be_shortened_while_it_says_which() -> None:
    assert explain("terminal-bench@3").address == explain("terminal-bench@3.0.0").address
    assert explain("terminal-bench@4.0").revision == "v4.0.0"


@pytest.mark.parametrize("text", ["terminal-bench", "terminal-bench@9", "terminal-bench@4", "terminal-bench@2."])
def test_a_version_that_is_not_there_is_answered_with_those_that_are(text: str) -> None:
    with pytest.raises(NotFound, match="terminal-bench@2") as caught:
        explain(text)
    assert "terminal-bench@4.1.0" in caught.value.known


def test_a_name_from_the_settings_is_known_and_replaces_a_bundled_one() -> None:
    sources = {"ours": "github:us/tasks@v1#all", "terminal-bench@2.0": "https://mirror.invalid/tb2.git"}
    ours = explain("ours", sources=sources)
    assert (ours.name, ours.address, ours.folder) == ("ours", "https://github.com/us/tasks", "all")
    assert ours.source == "ours"
    assert explain("terminal-bench@2.0", sources=sources).address == "https://mirror.invalid/tb2.git"
    assert read_source("ours", sources).shelf == "ours"
    listed = known_sources(sources)
    assert listed["ours"] == sources["ours"]
    assert listed["terminal-bench@2.0"] == sources["terminal-bench@2.0"]
    assert "terminalworld" in listed


def test_a_name_in_the_settings_that_can_be_none_is_refused() -> None:
    with pytest.raises(UsageError, match="'a/b' is no name"):
        explain("x", sources={"a/b": "github:a/b"})


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(NotFound) as caught:
        explain("terminal-banch")
    assert "terminalworld" in caught.value.known


def test_a_folder_is_used_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "tasks/one").mkdir(parents=True)
    (tmp_path / "tasks/one/task.toml").write_text("12345")
    pulled = pull(str(tmp_path / "tasks"), home=tmp_path / "home", offline=True)
    assert pulled.path == tmp_path / "tasks"
    assert (pulled.files, pulled.size_bytes, pulled.plan.kind) == (1, 5, "folder")
    assert pull(f"{tmp_path}#tasks", home=tmp_path / "home").path == tmp_path / "tasks"
    assert not (tmp_path / "home").exists()


def test_a_folder_with_the_name_of_a_known_dataset_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "terminalworld").mkdir()
    monkeypatch.chdir(tmp_path)
    assert explain("terminalworld").kind == "huggingface"
    assert explain("./terminalworld").kind == "folder"


@pytest.mark.parametrize("text", ["./nowhere", "nowhere/at/all", "nowhere.tar.gz", "registry:nowhere.json#a"])
def test_a_path_that_is_not_there_is_not_found(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound):
        explain(text)


def test_a_file_that_is_no_archive_is_refused_with_what_one_ends_in(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError) as caught:
        explain(str(tmp_path / "notes.txt"))
    assert ".tar.gz" in str(caught.value.hint)
