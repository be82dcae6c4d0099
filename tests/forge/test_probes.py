"""Probes: what each kind of file is, as plain values, and tests that say so."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from termarena.forge.bench import probes_source
from termarena.forge.inside.probes import check_all, kind, link_target, mode, observe, output_of

if TYPE_CHECKING:
    from pathlib import Path


def _facts(what: str, path: Path) -> dict[str, Any]:
    return {" ".join([probe, *arguments[1:]]): value for probe, arguments, value in observe([[what, str(path)]])}


@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("a.txt", b"hello\n", {"text": "hello\n"}),
        ("a.json", b'{"b": [1, 2]}', {"json_value": {"b": [1, 2]}}),
        ("broken.json", b"{", {"text": "{"}),
        ("a.csv", b'x,"y,z"\n1,2\n', {"csv_rows": [["x", "y,z"], ["1", "2"]]}),
        ("a.ini", b"[One]\nKey = v\n", {"ini_sections": {"One": {"Key": "v"}}}),
        ("a.yaml", b"# a\nname: x # b\nports:\n- 80\n- 443\n", {"yaml_value": {"name": "x", "ports": [80, 443]}}),
        ("odd.yml", b"a: |\n  text\n", {"text": "a: |\n  text\n"}),
        ("a.gz", gzip.compress(b"packed\n", mtime=0), {"compressed_text": "packed\n"}),
        ("a.bin", b"\0\1", {"digest": sha256(b"\0\1").hexdigest()}),
        ("lib.a", b"!<arch>\n" + b"one.o/".ljust(48) + b"3".ljust(10) + b"`\nabc\n", {"library_members": ["one.o"]}),
    ],
    ids=["text", "json", "broken json", "csv", "ini", "yaml", "odd yaml", "gzip", "bytes", "library"],
)
def test_a_file_is_asked_by_what_it_holds(tmp_path: Path, name: str, content: bytes, fact: dict[str, Any]) -> None:
    (tmp_path / name).write_bytes(content)
    assert _facts("file", tmp_path / name) == fact


def test_a_database_is_columns_rows_and_indexes(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.executescript(
            "create table t(a, b); insert into t values (2, 'x'), (1, null); create index i on t(a);"
        )
    assert _facts("file", tmp_path / "a.db") == {
        "sqlite_columns": {"t": ["a", "b"]},
        "sqlite_indexes": ["i"],
        "sqlite_rows t": [[1, None], [2, "x"]],
    }


def test_archives_are_their_members_and_not_their_dates(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("d/f")
        member.size, member.mtime = 2, 12345
        archive.addfile(member, io.BytesIO(b"hi"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("d/f", "hi")
    wanted = {"archive_members": {"d/f": sha256(b"hi").hexdigest()}}
    assert _facts("file", tmp_path / "a.tar.gz") == wanted
    assert _facts("file", tmp_path / "a.zip") == wanted


def test_modes_links_and_what_is_gone(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0o640)
    (tmp_path / "l").symlink_to("f")
    assert mode(str(tmp_path / "f")) == "0640"
    assert link_target(str(tmp_path / "l")) == "f"
    assert [kind(str(tmp_path / name)) for name in ("f", "l", "none", ".")] == ["file", "symlink", "absent", "folder"]
    assert observe([["text", str(tmp_path / "none")], ["nonsense", 1]]) == []


def test_a_program_is_what_it_prints_and_how_it_ends(tmp_path: Path) -> None:
    assert output_of(["sh", "-c", "echo hi; exit 3"], str(tmp_path)) == {"status": 3, "stdout": "hi\n"}


@pytest.mark.needs("git")
def test_a_history_with_a_merge_has_no_order_of_its_own(tmp_path: Path) -> None:
    script = """
    git init -q -b main . && git config user.name A && git config user.email a@example.org
    echo a > f && git add f && git commit -qm First
    git switch -qc side && echo b > f && git commit -qam Side
    git switch -q main && echo c > g && git add g && git commit -qm Main
    git merge -q -m Both side
    """
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)  # noqa: S603, S607 - a fixed script
    found = _facts("repository", tmp_path)
    assert found["git_commits"] == ["Both", "First", "Main", "Side"]
    assert found["git_merges"] == [["Both", "Main", "Side"]]
    assert found["git_subjects side"] == ["Side", "First"]
    assert found["git_files"] == {"f": "b\n", "g": "c\n"}
    assert "git_subjects" not in found


def test_every_test_runs_and_one_failure_takes_the_reward(tmp_path: Path) -> None:
    def test_good() -> None:
        pass

    def test_bad() -> None:
        raise ValueError("no")

    for names, reward in (
        ({"test_a": test_good}, "1\n"),
        ({"test_a": test_good, "test_b": test_bad}, "0\n"),
        ({}, "0\n"),
    ):
        check_all(dict(names), str(tmp_path))
        assert (tmp_path / "reward.txt").read_text() == reward
    check_all({"test_b": test_bad, "test_a": test_good, "other": 1}, str(tmp_path))
    rows = json.loads((tmp_path / "ctrf.json").read_text())["results"]["tests"]
    assert [(row["name"], row["status"]) for row in rows] == [("test_b", "failed"), ("test_a", "passed")]


def test_they_need_nothing_but_python(tmp_path: Path) -> None:
    source = tmp_path / "probes.py"
    source.write_text(probes_source())
    (tmp_path / "f").write_text("x\n")
    asked = json.dumps([["file", str(tmp_path / "f")]])
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-I", "-S", "-B", source], input=asked, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [["text", [str(tmp_path / "f")], "x\n"]]
