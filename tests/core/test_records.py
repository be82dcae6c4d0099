from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record, write_atomically, write_record

if TYPE_CHECKING:
    from pathlib import Path


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_record(path, "dataset-lock", {"tasks": {"é": "1" * 64}, "count": 1}, version=3)
    assert json.loads(path.read_text())["kind"] == "dataset-lock"
    assert read_record(path, "dataset-lock", version=3) == {
        "schema_version": 3,
        "tasks": {"é": "1" * 64},
        "count": 1,
    }


def test_names_that_are_not_utf_8_are_written_and_come_back(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", "report", {"path": "/app/\udcff\u00e9"})
    assert (tmp_path / "a.json").read_bytes().decode().count("\u00e9") == 1
    assert read_record(tmp_path / "a.json", "report")["path"] == "/app/\udcff\u00e9"


def test_an_older_record_is_read_and_says_its_version(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", "report", {"x": None})
    assert read_record(tmp_path / "a.json", "report", version=2) == {"schema_version": 1, "x": None}


def test_a_newer_record_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", "report", {}, version=2)
    with pytest.raises(TaskFormatError, match="schema_version: found 2; expected at most 1") as caught:
        read_record(tmp_path / "a.json", "report")
    assert "update" in str(caught.value.hint)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"kind": "report"',
        b'{"kind": "report"}',
        b'{"kind": "other", "schema_version": 1}',
        b'{"kind": "report", "schema_version": true}',
        b'{"kind": "report", "schema_version": "1"}',
        b'{"kind": "report", "schema_version": 0}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_anything_else_is_a_format_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(TaskFormatError, match=r"a\.json"):
        read_record(path, "report")


def test_a_file_that_is_not_there_is_a_format_error(tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="No such file"):
        read_record(tmp_path / "none.json", "report")


def test_a_payload_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_record(path, "report", {"x": 1})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="JSON compliant"):
        write_record(path, "report", {"x": float("nan")})
    with pytest.raises(TypeError):
        write_record(path, "report", {"x": object()})
    with pytest.raises(ValueError, match="kind"):
        write_record(path, "report", {"kind": "mine"})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_replacement_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomically(tmp_path / "taken", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


def test_writing_through_a_link_replaces_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_new_file_has_the_mode_that_the_user_asked_for(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


WRITER = """
import sys
from termarena.core.records import write_record
number = 0
while True:
    number += 1
    write_record(sys.argv[1], "count", {"number": number, "filler": "x" * 200_000})
    if number == 1:
        print("writing", flush=True)
"""


def _kill_a_writer(path: Path) -> dict[str, object]:
    """Start a process that rewrites the record without pause, kill it once it is under way, and read what is there."""
    path.unlink(missing_ok=True)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)  # noqa: S603
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.send_signal(signal.SIGKILL)
    return dict(read_record(path, "count"))


def test_a_writer_killed_in_the_middle_leaves_a_whole_record(tmp_path: Path) -> None:
    record = _kill_a_writer(tmp_path / "a.json")
    assert record["filler"] == "x" * 200_000


@pytest.mark.soak
def test_two_hundred_killed_writers_leave_whole_records(tmp_path: Path) -> None:
    for _ in range(200):
        assert _kill_a_writer(tmp_path / "a.json")["filler"] == "x" * 200_000


@pytest.mark.parametrize("is_durable", [True, False])
def test_only_what_must_be_durable_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_durable: bool
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    write_record(tmp_path / "a.json", "thing", {"one": 1}, is_durable=is_durable)
    assert read_record(tmp_path / "a.json", "thing")["one"] == 1
    assert len(waited) == (2 if is_durable else 0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
