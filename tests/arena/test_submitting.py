"""Runs that are sent: with a key, checked, whole or while they go on."""

from __future__ import annotations

import gzip
import io
import tarfile
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.arena_server import Server, served, until
from support.made_runs import Made, made_run
from termarena.arena.keys import add_key, list_keys, revoke_key
from termarena.arena.sending import Sender, Streaming
from termarena.core.errors import FetchError, NotFound, Refused, UsageError
from termarena.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.runs.reading import RunView


@pytest.fixture
def plain_server(runs: Path) -> Iterator[Server]:
    """For what is decided before any database is asked."""
    with served(runs) as made:
        yield made


def _key(server: Server, name: str = "lab", *scopes: str) -> str:
    return add_key(server.held.database, name, scopes or ("submit",))  # type: ignore[arg-type] # plain words in tests


def _send(server: Server, view: RunView, key: str) -> int:
    with closing(Sender(view.folder, server.url, key)) as sender:
        return sender.send()


def _archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _member(name: str, content: bytes = b"x") -> bytes:
    """One member of an archive, by hand."""
    head = tarfile.TarInfo(name)
    head.size = len(content)
    return head.tobuf(tarfile.USTAR_FORMAT) + content + b"\0" * (-len(content) % 512)


def _put(server: Server, key: str, archive: bytes, *, run: str = "mine", journal_from: int = 0) -> tuple[int, str]:
    answer = server.client.put(
        f"/api/runs/{run}/archive",
        params={"journal_from": journal_from},
        content=archive,
        headers={"Authorization": f"Bearer {key}"},
    )
    return answer.status_code, "" if answer.is_success else answer.json()["error"]["message"]


def test_a_run_is_sent_and_shown_with_its_files(server: Server, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "10", "two": "11"})
    attempt = view.folder.attempt("one", 1)
    attempt.path.mkdir(parents=True)
    attempt.result.write_text("{}")
    attempt.cast().write_text('{"version": 2, "width": 80, "height": 24}\n')
    (attempt.path / "state.snapshot").write_text("stays here")
    assert _send(server, view, _key(server)) == 4
    assert server.json("/runs/mine")["run"]["solved"] == 3
    cast = server.client.get("/api/runs/mine/trials/one/1/terminal.cast")
    assert (cast.status_code, cast.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert cast.content == attempt.cast().read_bytes()
    assert server.client.get("/api/runs/mine/trials/one/1/state.snapshot").status_code == 404
    assert _send(server, view, _key(server, "again", "admin")) == 0


def test_a_run_that_goes_on_is_sent_piece_by_piece(server: Server, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1-"})
    said: list[str] = []
    with Streaming(Sender(view.folder, server.url, _key(server)), said.append, interval_s=0.01):
        until(lambda: server.client.get("/api/runs/mine").status_code == 200)
        assert server.json("/runs/mine")["run"]["state"] == "running"
        second = next(iter(view.history.summaries())).model_copy(update={"attempt": 2})
        with Journal(view.folder.journal, view.history.tail) as journal:
            journal.append("trial_finished", second.model_dump(mode="json"))
            journal.append("run_finished")
    run = server.json("/runs/mine")["run"]
    assert (run["solved"], run["state"], said) == (2, "finished", [])


def test_an_arena_that_is_gone_is_told_and_costs_the_run_nothing(tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1"})
    said: list[str] = []
    with Streaming(Sender(view.folder, "http://127.0.0.1:9", "ta_none"), said.append, interval_s=0.01):
        pass
    assert len(said) == 2
    assert "nothing is sent" in said[0]
    assert f"termarena submit {tmp_path / 'mine'} --arena http://127.0.0.1:9" in said[1]
    with (
        pytest.raises(FetchError) as raised,
        closing(Sender(view.folder, "http://127.0.0.1:9", "ta_none")) as sender,
    ):
        sender.send()
    assert "termarena serve" in (raised.value.hint or "")


def test_writing_needs_a_key_that_may(server: Server, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1"})
    for key, status in (("ta_wrong", 401), ("", 401), (_key(server, "reader", "read"), 403)):
        with pytest.raises(Refused) as refused:
            _send(server, view, key or "none")
        assert refused.value.status == status
    assert server.client.put("/api/runs/mine/archive").status_code == 401
    key = _key(server)
    revoke_key(server.held.database, "lab")
    with pytest.raises(Refused, match="no valid key"):
        _send(server, view, key)
    assert server.json("/runs") == []


def test_a_key_in_a_password_reads_and_does_not_write(tmp_path: Path) -> None:
    with served(tmp_path / "runs", is_private=True) as server:
        key = _key(server, "lab", "admin")
        assert server.client.get("/api/runs").status_code == 401
        assert server.client.get("/").headers["www-authenticate"].startswith("Basic")
        assert server.client.get("/api/runs", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        assert server.client.get("/", auth=("anyone", key)).status_code == 200
        assert server.client.put("/api/runs/mine/archive", auth=("anyone", key)).status_code == 401


def test_whoever_guesses_keys_is_slowed_down(tmp_path: Path) -> None:
    with served(tmp_path / "runs") as server:
        answers = [
            server.client.get("/api/runs/a/journal", headers={"Authorization": f"Bearer ta_{n}"}).status_code
            for n in range(15)
        ]
    assert set(answers) == {401, 429}


def test_only_whoever_sent_a_run_sends_more_of_it(plain_server: Server, runs: Path, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1-"})
    _send(plain_server, view, _key(plain_server))
    made_run(runs / "local", {"one": "1"})
    other = _key(plain_server, "other")
    for name in ("mine", "local"):
        status, told = _put(
            plain_server, other, _archive({}), run=name, journal_from=view.folder.journal.stat().st_size
        )
        assert (status, "not yours" in told) == (403, True)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("../../escape", "no run holds"),
        ("/etc/escape", "no run holds"),
        ("trials/../../escape/attempt-1/result.json", "no run holds"),
        ("trials/one/attempt-1/run.sh", "no run holds"),
        ("received.json", "no run holds"),
    ],
)
def test_an_archive_holds_files_of_a_run_and_nothing_else(
    plain_server: Server, runs: Path, name: str, told: str
) -> None:
    status, message = _put(plain_server, _key(plain_server), _archive({name: b"x"}))
    assert (status, told in message) == (400, True)
    assert list(runs.iterdir()) == []


def test_links_in_an_archive_are_refused(plain_server: Server, runs: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("config.lock.json")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    assert _put(plain_server, _key(plain_server), buffer.getvalue())[0] == 400
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"no archive", gzip.compress(b"no archive either"), b"\x1f\x8b\x08"],
    ids=["empty", "text", "zipped text", "beginning"],
)
def test_what_is_no_archive_is_refused(plain_server: Server, runs: Path, body: bytes) -> None:
    assert _put(plain_server, _key(plain_server), body)[0] in {400, 409}
    assert list(runs.iterdir()) == []


def test_bombs_are_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with served(runs, unpacked_limit_bytes=1 << 20, upload_limit_bytes=1 << 20) as server:
        key = _key(server)
        bomb = _archive({"journal.jsonl": b"\0" * (2 << 20)})
        assert len(bomb) < 1 << 16
        assert _put(server, key, bomb) == (413, "there is too much in the archive")
        headers = {"Authorization": f"Bearer {key}"}
        large = server.client.put("/api/runs/mine/archive", content=b"x" * (1 << 20 | 1), headers=headers)
        assert large.status_code == 413
        pieces = server.client.put("/api/runs/mine/archive", content=iter([b"x" * (1 << 19)] * 3), headers=headers)
        assert pieces.status_code == 413
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_heads_that_are_bombs_are_refused(plain_server: Server, runs: Path, kind: bytes) -> None:
    head = tarfile.TarInfo("x")
    head.type, head.size = kind, 64 << 20
    bomb = gzip.compress(head.tobuf(tarfile.USTAR_FORMAT) + b"\0" * head.size + _member("journal.jsonl"))
    assert len(bomb) < 1 << 20
    assert _put(plain_server, _key(plain_server), bomb) == (413, "there is too much in the archive")
    assert list(runs.iterdir()) == []


def test_a_file_of_less_than_nothing_makes_no_room_for_others(tmp_path: Path) -> None:
    with served(tmp_path / "runs", unpacked_limit_bytes=1 << 20) as server:
        head = tarfile.TarInfo("trials")
        head.type, head.size = tarfile.DIRTYPE, -(1 << 30)
        bomb = gzip.compress(head.tobuf(tarfile.GNU_FORMAT) + _member("journal.jsonl", b"\0" * (2 << 20)))
        assert _put(server, _key(server), bomb)[0] in {400, 413}


def test_heads_that_never_end_are_refused(plain_server: Server) -> None:
    link = tarfile.TarInfo("x")
    link.type, link.size = tarfile.XGLTYPE, 0
    status, _ = _put(plain_server, _key(plain_server), gzip.compress(link.tobuf(tarfile.USTAR_FORMAT) * 100_000))
    assert status in {400, 413}


def test_numbers_whose_sum_is_none_are_refused_and_nobody_else_suffers(server: Server, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1---"})
    first = next(iter(view.history.summaries())).model_dump(mode="json")
    with Journal(view.folder.journal, view.history.tail) as journal:
        for attempt in (2, 3, 4):
            journal.append("trial_finished", first | {"attempt": attempt, "cost_usd": 1e308})
    files = {name: (view.folder.path / name).read_bytes() for name in ("config.lock.json", "journal.jsonl")}
    status, told = _put(server, _key(server), _archive(files))
    assert (status, "no trial_finished event" in told) == (400, True)
    assert server.look() == 0


def test_a_damaged_journal_is_refused_and_the_run_stays_as_it_was(server: Server, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1-"})
    key = _key(server)
    _send(server, view, key)
    size = view.folder.journal.stat().st_size
    status, told = _put(server, key, _archive({"journal.jsonl": b'{"seq":9}\n'}), journal_from=size)
    assert (status, "journal.jsonl: line" in told) == (400, True)
    assert _put(server, key, _archive({"journal.jsonl": b"x\n"}), journal_from=0)[0] == 409
    assert _put(server, key, _archive({"config.lock.json": b"{}"}), journal_from=size)[0] == 409
    assert server.json("/runs/mine")["run"]["solved"] == 1
    assert server.look() == 0


def test_another_run_of_the_same_name_is_refused(plain_server: Server, tmp_path: Path) -> None:
    key = _key(plain_server)
    _send(plain_server, made_run(tmp_path / "a" / "mine", {"one": "1"}), key)
    with pytest.raises(Refused) as refused:
        _send(plain_server, made_run(tmp_path / "b" / "mine", {"one": "111"}, Made(agent="other")), key)
    assert refused.value.status == 409


def test_keys_are_listed_without_themselves(plain_server: Server) -> None:
    key = _key(plain_server, "lab", "submit", "read")
    (row,) = list_keys(plain_server.held.database)
    assert (row.name, row.scopes, row.revoked_at) == ("lab", ("read", "submit"), None)
    assert key not in str(row)
    with pytest.raises(UsageError, match="called lab"):
        _key(plain_server, "lab")
    with pytest.raises(NotFound, match="lab"):
        revoke_key(plain_server.held.database, "nobody")


def test_keys_on_the_command_line(tmp_path: Path) -> None:
    added = termarena("serve", "keys", "add", "lab", "--scope", "submit", cwd=tmp_path)
    assert (added.returncode, added.stdout[:3]) == (0, "ta_")
    listed = termarena("serve", "keys", "list", "--json", cwd=tmp_path)
    assert '"lab"' in listed.stdout
    assert added.stdout.strip() not in listed.stdout
    wrong = termarena("serve", "keys", "add", "guest", "--scope", "god", cwd=tmp_path)
    assert (wrong.returncode, "no scope is called god" in wrong.stderr) == (2, True)
    revoked = termarena("serve", "keys", "revoke", "nobody", cwd=tmp_path)
    assert (revoked.returncode, "there is: lab" in revoked.stderr) == (2, True)


def test_no_address_is_told_for_a_server_that_does_not_start(tmp_path: Path) -> None:
    done = termarena("serve", "--port", "0", "--db", "mysql://nowhere", cwd=tmp_path)
    assert (done.returncode, done.stdout, "serving" in done.stderr) == (2, "", False)


def test_submit_on_the_command_line(plain_server: Server, tmp_path: Path) -> None:
    made_run(tmp_path / "mine", {"one": "1"})
    without = termarena("submit", str(tmp_path / "mine"), "--arena", plain_server.url, cwd=tmp_path)
    assert (without.returncode, "TERMARENA_ARENA_KEY" in without.stderr) == (2, True)
    key = {"TERMARENA_ARENA_KEY": _key(plain_server)}
    done = termarena("submit", str(tmp_path / "mine"), "--arena", plain_server.url, "--json", cwd=tmp_path, env=key)
    assert done.returncode == 0, done.stderr
    assert plain_server.json("/runs/mine")["run"]["solved"] == 1


@pytest.mark.needs("user-namespaces")
def test_a_run_is_sent_while_it_is_carried_out(tmp_path: Path) -> None:
    with served(tmp_path / "arena") as server:
        key = {"TERMARENA_ARENA_KEY": _key(server)}
        words = ["run", "-d", "samples", "-t", "*/hello-world", "-a", "oracle", "-o", "sent", "--arena", server.url]
        done = termarena(*words, cwd=tmp_path, env=key)
        assert done.returncode == 0, done.stderr
        run = server.json("/runs/sent")["run"]
        assert (run["solved"], run["state"]) == (1, "finished")
        slug = server.json("/runs/sent/trials")[0]["task_slug"]
        assert "hello.txt" in server.page(f"/runs/sent/{slug}/1")
        assert "hello.txt" in server.json(f"/tasks/{slug}")["instruction"]
    kept = (tmp_path / "sent" / "config.lock.json").read_text()
    assert key["TERMARENA_ARENA_KEY"] not in kept
