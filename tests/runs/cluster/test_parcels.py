"""Folders in parcels: what comes out is what went in, and nothing leaves the folder it is meant for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import ClusterError
from termarena.runs.cluster.parcels import PARCEL_BYTES, Piece, pack, unpack

if TYPE_CHECKING:
    from pathlib import Path


def _seen(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = (path.read_bytes(), os.access(path, os.X_OK)) if path.is_file() else "folder"
    return found


def test_a_folder_arrives_as_it_was(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "empty folder").mkdir(parents=True)
    (source / "deep" / "er").mkdir(parents=True)
    (source / "nothing").touch()
    (source / "deep" / "er" / "ünicode\n").write_bytes(b"\0\xff")
    (source / "large").write_bytes(os.urandom(1024) * (2 * PARCEL_BYTES // 1024 + 1))
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("deep/er")
    (source / "kept back").touch()
    parcels = list(pack(source, without={"kept back"}))
    assert len(parcels) > 1
    assert max(sum(len(piece.data) for piece in parcel) for parcel in parcels) <= PARCEL_BYTES
    for parcel in parcels:
        unpack(parcel, target, takes_links=True)
    expected = _seen(source)
    del expected["kept back"]
    assert _seen(target) == expected


def test_only_names_at_the_top_are_kept_back(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "result.json").touch()
    (tmp_path / "result.json").touch()
    (parcel,) = pack(tmp_path, without={"result.json"})
    assert [piece.path for piece in parcel] == ["logs", "logs/result.json"]


@pytest.mark.parametrize("name", ["../beside", "/etc/passwd", "a/../../beside", "", ".", "a\0b"])
def test_a_path_that_leaves_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ClusterError, match="leaves its folder"):
        unpack([Piece(name, "file", b"x")], tmp_path / "in")
    assert [path.name for path in tmp_path.rglob("*")] == ["in"]


def test_a_link_among_the_files_of_a_trial_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="a link"):
        unpack([Piece("logs", "link", b"/etc"), Piece("logs/x", "file", b"x")], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_sent_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        unpack([Piece("a", "file", b"1"), Piece("a", "file", b"2")], tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"
