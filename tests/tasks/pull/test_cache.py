from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import UsageError
from termarena.tasks.pull import Plan, PullError, find_pulled, list_pulled, pull
from termarena.tasks.pull.contract import as_pull_error

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name in ("one/task.toml", "two/task.toml"):
            opened.addfile(tarfile.TarInfo(name), io.BytesIO())
    (tmp_path / "tasks.tar.gz").write_bytes(packed.getvalue())
    return tmp_path / "tasks.tar.gz"


def test_a_pull_leaves_a_record_from_which_it_can_be_repeated(archive: Path, home: Path) -> None:
    pulled = pull(str(archive), home=home)
    record = json.loads((pulled.path.parent / "record.json").read_text())
    assert record["schema_version"] == 1
    assert record["kind"] == "pulled-dataset"
    assert record["source"] == str(archive)
    assert record["revision"] == f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    assert (record["files"], record["size_bytes"]) == (2, 0)
    assert record["pulled_at"] == pulled.pulled_at
    assert pulled.path.parent.parent.parent == home / "datasets"
    assert not list(home.glob("datasets/*/.partial"))


def test_what_was_pulled_reads_the_same_the_second_time(archive: Path, home: Path) -> None:
    first = pull(str(archive), home=home).as_dict()
    second = pull(str(archive), home=home).as_dict()
    assert first.pop("is_from_cache") is False
    assert second.pop("is_from_cache") is True
    assert first == second
    assert json.dumps(first)


def test_everything_in_the_cache_is_listed_with_what_it_is(archive: Path, home: Path) -> None:
    assert list_pulled(home) == ()
    pulled = pull(str(archive), home=home)
    assert list_pulled(home) == (find_pulled(str(archive), home=home),)
    (pulled.path.parent / "record.json").write_text("{")
    assert list_pulled(home) == ()


@pytest.mark.parametrize("damage", ["gone", "no JSON", "other key"])
def test_a_record_that_is_damaged_means_pulling_again(damage: str, archive: Path, home: Path) -> None:
    pulled = pull(str(archive), home=home)
    record = pulled.path.parent / "record.json"
    document = json.loads(record.read_text())
    record.write_text("{" if damage == "no JSON" else json.dumps(document | {"key": "x"}))
    if damage == "gone":
        record.unlink()
    assert find_pulled(str(archive), home=home) is None
    again = pull(str(archive), home=home)
    assert again.path == pulled.path
    assert not again.is_from_cache


def test_a_folder_that_was_deleted_means_pulling_again(archive: Path, home: Path) -> None:
    pulled = pull(str(archive), home=home)
    shutil.rmtree(pulled.path)
    assert sorted(entry.name for entry in pull(str(archive), home=home).path.iterdir()) == ["one", "two"]


def test_a_damaged_list_of_references_is_made_again(archive: Path, home: Path) -> None:
    pulled = pull(str(archive), home=home)
    refs = pulled.path.parent.parent / "refs.json"
    refs.write_text("{")
    assert pull(str(archive), home=home).revision == pulled.revision
    assert json.loads(refs.read_text())["kind"] == "dataset-refs"


def test_what_cannot_be_written_says_so(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot make the cache folder") as caught:
        pull(str(archive), home=tmp_path / "file")
    assert "TERMARENA_HOME" in str(caught.value.hint)


PLAN = Plan("x", "archive", "x", "x", None, "", is_pinned=False)


@pytest.mark.parametrize(
    ("code", "reason"), [(errno.ENOSPC, "disk-full"), (errno.EDQUOT, "disk-full"), (errno.EROFS, "unwritable")]
)
def test_what_the_file_system_refuses_has_a_reason_and_a_hint(code: int, reason: str) -> None:
    error = as_pull_error(PLAN, OSError(code, os.strerror(code), "somewhere"))
    assert error.reason == reason
    assert "TERMARENA_HOME" in str(error.hint)
    assert isinstance(error, PullError)


def test_an_error_for_programs_holds_the_plan() -> None:
    shown = PullError(PLAN, "offline", "no network").as_dict()
    assert shown["reason"] == "offline"
    assert shown["plan"] == PLAN.as_dict()
    assert json.dumps(shown)
