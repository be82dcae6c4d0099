from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from tasks.pull.servers import Hub
from termarena.tasks.pull import PullError, explain, pull

if TYPE_CHECKING:
    from pathlib import Path


def fails(source: str, home: Path) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(source, home=home)
    return caught.value


def archive(name: str, content: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for path, data in content.items():
            entry = tarfile.TarInfo(f"{name}/{path}" if name else path)
            entry.size, entry.mode = len(data), 0o755 if path.endswith(".sh") else 0o644
            opened.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture
def terminalworld(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The layout of the public dataset: an archive for each task, and lists of the splits."""
    hub = Hub("EuniAI/TerminalWorld", commit=str(explain("terminalworld").revision))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    task = {"task.toml": b"", "solution/solve.sh": b"#!/bin/sh\n"}
    hub.files = {f"artifacts/tw_{number}.tar.gz": archive(f"tw_{number}", task) for number in (1, 2, 3)}
    hub.files["artifacts/tw_4.tar.gz"] = archive("", task)
    rows = [{"task_id": "tw_2", "artifact_path": "artifacts/tw_2.tar.gz"}]
    rows += [{"task_id": "tw_4", "artifact_path": "artifacts/tw_4.tar.gz"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    hub.files["data/verified.jsonl.gz"] = gzip.compress(lines.encode())
    hub.in_lfs = set(hub.files)
    return hub


def test_terminalworld_is_unpacked_into_a_folder_for_each_task(terminalworld: Hub, home: Path) -> None:
    with terminalworld.running():
        pulled = pull("terminalworld", home=home)
    assert sorted(entry.name for entry in pulled.path.iterdir()) == ["tw_1", "tw_2", "tw_3", "tw_4"]
    assert os.access(pulled.path / "tw_1/solution/solve.sh", os.X_OK)
    assert (pulled.path / "tw_4/task.toml").exists()
    assert pulled.path.parent.parent.name == "terminalworld"


def test_a_split_fetches_only_the_tasks_that_its_list_names(terminalworld: Hub, home: Path) -> None:
    with terminalworld.running():
        pulled = pull("terminalworld-verified", home=home)
    assert sorted(entry.name for entry in pulled.path.iterdir()) == ["tw_2", "tw_4"]
    assert len([path for path in terminalworld.paths() if "/resolve/" in path and "artifacts" in path]) == 2


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"{}\n", mtime=0), gzip.compress(b"[1", mtime=0), gzip.compress(b"", mtime=0)],
)
def test_a_list_of_a_split_that_cannot_be_read_is_refused(content: bytes, terminalworld: Hub, home: Path) -> None:
    terminalworld.files["data/verified.jsonl.gz"] = content
    with terminalworld.running():
        assert fails("terminalworld-verified", home).reason == "broken"


def test_an_archive_in_a_dataset_that_leaves_its_folder_is_refused(terminalworld: Hub, home: Path) -> None:
    terminalworld.files["artifacts/tw_3.tar.gz"] = archive("..", {"outside": b""})
    with terminalworld.running():
        assert fails("terminalworld", home).reason == "unsafe"
    assert not list(home.rglob("outside"))


def test_a_link_out_of_its_task_is_refused_also_where_it_stays_in_the_archive(terminalworld: Hub, home: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        opened.addfile(tarfile.TarInfo("tw_3/task.toml"))
        link = tarfile.TarInfo("tw_3/link")
        link.type, link.linkname = tarfile.SYMTYPE, "../tw_1"
        opened.addfile(link)
    terminalworld.files["artifacts/tw_3.tar.gz"] = packed.getvalue()
    with terminalworld.running():
        assert fails("terminalworld", home).reason == "unsafe"


def test_offline_the_way_out_is_to_unpack_the_archives(home: Path) -> None:
    with pytest.raises(PullError) as caught:
        pull("terminalworld-sample", home=home, offline=True)
    assert "unpack the archives in PATH/artifacts and run" in str(caught.value.hint)
