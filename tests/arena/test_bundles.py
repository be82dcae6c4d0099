"""Bundles that are handed in: verified on arrival, what is found is shown, and nothing of it is trusted."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.arena_server import Server, served
from support.made_runs import made_run
from support.tasks import make_task
from termarena.arena.keys import Holder, add_key
from termarena.arena.sending import hand_in
from termarena.arena.uploading import Piece
from termarena.core.errors import Refused
from termarena.core.run_folder import RunFolder
from termarena.runs.bundle import pack_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(runs: Path) -> Iterator[Server]:
    with served(runs) as made:
        yield made


def _key(server: Server, name: str = "lab") -> str:
    return add_key(server.held.database, name, ["submit"])


@pytest.mark.needs("user-namespaces")
def test_a_real_run_is_handed_in_and_what_was_found_is_shown(server: Server, tmp_path: Path) -> None:
    make_task(tmp_path / "tasks" / "easy")
    (tmp_path / "script.sh").write_text("echo 1 >/app/one.txt\n")
    words = ["run", "--path", "tasks", "--agent", "script:script.sh", "--driver", "namespace", "--out", "mine"]
    assert termarena(*words, cwd=tmp_path).returncode == 0
    pack_run(RunFolder(tmp_path / "mine"), tmp_path / "b.tar.gz")
    key = {"TERMARENA_ARENA_KEY": _key(server)}
    done = termarena("submit", "b.tar.gz", "--arena", server.url, "--json", cwd=tmp_path, env=key)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["is_sound"], told["is_rankable"], told["accuracy"]) == (True, False, 1.0)
    assert ("unranked", "host-root") in {(one["severity"], one["rule"]) for one in told["findings"]}
    assert "sound, not to be ranked" in server.page("/runs/mine")
    assert "/app/one.txt" in server.page("/runs/mine/easy/1")
    assert hand_in(tmp_path / "b.tar.gz", server.url, key["TERMARENA_ARENA_KEY"])["chain"] == told["chain"]
    with pytest.raises(Refused, match="here already"):
        hand_in(tmp_path / "b.tar.gz", server.url, _key(server, "other"))
    more = server.client.put(
        f"/api/runs/mine/archive?journal_from={(tmp_path / 'mine' / 'journal.jsonl').stat().st_size}",
        headers={"Authorization": f"Bearer {key['TERMARENA_ARENA_KEY']}"},
    )
    assert (more.status_code, "is whole" in more.text) == (409, True)


def test_a_run_that_contradicts_itself_is_shown_and_never_ranked(server: Server, runs: Path, tmp_path: Path) -> None:
    view = made_run(tmp_path / "forged", {f"set/task-{n}": "111" for n in range(6)})
    pack_run(view.folder, tmp_path / "b.tar.gz")
    told = hand_in(tmp_path / "b.tar.gz", server.url, _key(server))
    assert (told["is_sound"], {one["rule"] for one in told["findings"]} >= {"no-result", "journal"}) == (False, True)
    run = server.json("/runs/forged")
    assert (run["run"]["is_ranked"], run["report"]["not_ranked"][0]["reason"]) == (False, "verification")
    assert "not sound" in server.page("/runs/forged")
    board = server.json(f"/datasets/{run['run']['dataset_digest']}/leaderboard")
    assert (board["entries"], board["unranked"][0]["run"]["slug"]) == ([], "forged")
    assert not [path for path in runs.iterdir() if path.name.startswith(".")]


def test_a_bundle_cannot_say_who_sent_it_or_what_was_found(server: Server, runs: Path, tmp_path: Path) -> None:
    view = made_run(tmp_path / "sly", {"one": "1"})
    (view.folder.path / "received.json").write_text('{"schema_version": 1, "kind": "received-run", "sender": "boss"}')
    (view.folder.path / "verification.json").write_text('{"schema_version": 1, "kind": "handed-in-run", "chain": "x"}')
    pack_run(view.folder, tmp_path / "b.tar.gz")
    hand_in(tmp_path / "b.tar.gz", server.url, _key(server))
    assert json.loads((runs / "sly" / "received.json").read_text())["sender"] == "lab"
    assert not json.loads((runs / "sly" / "verification.json").read_text())["is_sound"]


def test_what_is_no_bundle_is_refused_in_words_without_places(server: Server, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_bytes(b"no archive")
    with pytest.raises(Refused, match="this is no bundle") as refused:
        hand_in(tmp_path / "b.tar.gz", server.url, _key(server))
    assert (refused.value.status, str(runs) in str(refused.value)) == (400, False)
    assert server.client.post("/api/bundles", content=b"x").status_code == 401
    assert not [path for path in runs.iterdir() if path.name != "arena.db"]


def test_a_large_journal_is_never_held_in_memory(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.core.records.RECORD_LIMIT_BYTES", 1 << 20)  # room for it is taken before it is read
    lock = made_run(server.held.config.runs / "other", {"one": "1"}).folder.config_lock.read_bytes()
    archive = _with_lock(lock, 64 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match=r"journal\.jsonl"):
            server.held.inbox.take(Piece("mine", archive, 0), Holder("lab", frozenset({"submit"})))
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def _with_lock(lock: bytes, journal_bytes: int) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, size in (("config.lock.json", len(lock)), ("journal.jsonl", journal_bytes)):
            member = tarfile.TarInfo(name)
            member.size = size
            content: io.BufferedIOBase = io.BytesIO(lock) if name != "journal.jsonl" else _Newlines(size)
            tar.addfile(member, content)
    buffer.seek(0)
    return buffer


class _Newlines(io.BufferedIOBase):
    """So many empty lines, without holding them."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        self._left -= wanted
        return b"\n" * wanted


def test_health_names_no_place_of_the_machine(server: Server, runs: Path, tmp_path: Path) -> None:
    view = made_run(runs / "mine", {"one": "1"})
    view.folder.journal.write_bytes(b"nonsense\n")
    server.look()
    problems = server.json("/health")["problems"]
    assert "journal.jsonl" in problems["mine"]
    assert str(tmp_path) not in json.dumps(problems)


def test_a_folder_that_is_misspelt_is_not_made(tmp_path: Path) -> None:
    for words in (("serve", "--port", "0"), ("serve", "keys", "list")):
        done = termarena(*words, "--runs", "rnus", cwd=tmp_path)
        assert (done.returncode, "mkdir -p rnus" in done.stderr) == (2, True)
    assert not (tmp_path / "rnus").exists()
