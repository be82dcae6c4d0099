"""Keys of agents that fight in the arena, the MCP door to its sandboxes, and agents that are not there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from cryptography.fernet import Fernet
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from sqlalchemy import select

from battles.whites import FINAL, SOLVES
from support.arena_server import PATIENCE_S, served
from support.battle_ground import asked, battling_server, ended, queued, registered, white_served
from termarena.arena import contenders
from termarena.arena.contenders import Card, Registration, Registry
from termarena.arena.database import Database
from termarena.arena.keys import Holder, add_key
from termarena.arena.schema import Contender
from termarena.arena.sealing import FILE, VARIABLE, Seal
from termarena.battles.addresses import AddressPolicy
from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.needs("user-namespaces")]
KEY = "white-key-hunter2-hunter2"


def _in_files(folder: Path) -> set[str]:
    """Where the key stands; in the state of the sandbox is what the agent itself wrote there."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "state.snapshot"]
    assert files
    return {path.name for path in files if KEY.encode() in path.read_bytes()}


def test_an_agent_that_asks_for_a_key_fights_and_the_key_never_shows(runs: Path, home: Path) -> None:
    says = {1: {"kind": "exec_request", "command": f"echo {KEY}; echo 1 >/app/one.txt"}}
    with (
        white_served(lambda turn, _: says.get(turn, FINAL), key=KEY) as white,
        battling_server(runs, home) as server,
    ):
        known = registered(server, white, agent_key=KEY)
        battle = asked(server, known)
        shown = list[str]()
        with server.client.stream("GET", f"/api/battles/{battle}/live") as live:
            shown += live.iter_lines()
        found = ended(server, battle)
        assert (found["state"], found["result"]["score"]) == ("finished", 1)
        server.look()
        pages = (
            "/battles",
            f"/battles/{battle}",
            f"/runs/{found['run']}/one/1",
            "/api/contenders",
            "/agentbeats/agents",
        )
        shown += [server.client.get(path).text for path in pages]
        assert KEY not in "\n".join(shown)
        assert "[secret WHITE_KEY]" in "\n".join(shown)
        assert registered(server, white) == known  # what it has stays
        assert ended(server, asked(server, known))["state"] == "finished"
    assert _in_files(runs.parent) == set()
    assert stat.S_IMODE((runs / FILE).stat().st_mode) == 0o600


def test_whatever_a_referee_elsewhere_answers_no_key_is_kept_and_the_next_battle_is_fought(
    runs: Path, home: Path
) -> None:
    odd = {"battle_id": "x", "score": 0, "max_score": 1, "unscored": 1, "rows": 5, "told": f"I was sent {KEY}"}
    with (
        white_served(lambda _turn, _text: odd, style="data", key=KEY) as green,
        white_served() as white,
        battling_server(runs, home) as server,
    ):
        known, referee = registered(server, white), registered(server, green, role="green", agent_key=KEY)
        found = ended(server, asked(server, known, green=referee))
        assert (found["state"], found["result"]["told"]) == ("infra_error", "I was sent [secret GREEN_KEY]")
        assert found["message"].endswith("nothing was tried")
        assert ended(server, asked(server, known))["state"] == "finished"


class _Elsewhere(BaseHTTPRequestHandler):
    """Leads to another origin, and writes down what it is sent."""

    leads_to = ""
    heard: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.heard.append((self.path, self.headers.get("Authorization")))
        self.send_response(302 if self.leads_to else 404)
        self.send_header("Location", f"{self.leads_to}{self.path}")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - its signature
        del format, args


@contextlib.contextmanager
def _listening(leads_to: str = "") -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    heard: list[tuple[str, str | None]] = []
    handler = type("Handler", (_Elsewhere,), {"leads_to": leads_to, "heard": heard})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", heard
        finally:
            server.shutdown()
            thread.join(PATIENCE_S)


def test_a_key_goes_to_its_own_origin_only(runs: Path, home: Path) -> None:
    with _listening() as (other, other_heard), _listening(other) as (first, first_heard):
        with battling_server(runs, home) as server:
            answer = server.client.post("/api/contenders", json={"url": first, "agent_key": KEY})
        assert (answer.status_code, KEY in answer.text) == (422, False)
        assert {key for _, key in first_heard} == {f"Bearer {KEY}"}
        assert {key for _, key in other_heard} == {None}


@pytest.mark.parametrize("key", ["with a blank", "a line\nbreak", "a-last-break\n", "x" * 501, "short42"])
def test_what_no_header_can_hold_or_no_scrubber_find_is_no_key(runs: Path, key: str) -> None:
    with served(runs) as server:
        mine = {"Authorization": f"Bearer {add_key(server.held.database, 'lab', ['submit'])}"}
        answer = server.client.post(
            "/api/contenders", json={"url": "http://127.0.0.1:9", "agent_key": key}, headers=mine
        )
    assert (answer.status_code, key in answer.text) == (422, False)
    assert "agent_key" in answer.json()["error"]["message"]


def test_a_seal_is_opened_by_its_own_secret_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    sealed = Seal(one).close(KEY)
    assert KEY not in sealed
    assert Seal(one).open(sealed) == KEY
    Seal(other).close("x")
    for seal in (Seal(other), Seal(tmp_path)):
        with pytest.raises(UsageError, match="another server"):
            seal.open(sealed)
    monkeypatch.setenv(VARIABLE, Fernet.generate_key().decode())
    assert Seal(other).open(Seal(one).close(KEY)) == KEY
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(UsageError, match="no secret"):
        Seal(one).close(KEY)
    assert [path.name for path in one.iterdir()] == [FILE]


def test_first_keys_that_come_together_are_closed_with_one_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    together = threading.Barrier(6)

    def close(folder: Path) -> str:
        together.wait(PATIENCE_S)
        return Seal(folder).close(KEY)

    with ThreadPoolExecutor(6) as pool:
        for number in range(10):
            folder = tmp_path / str(number)
            folder.mkdir()
            sealed = list(pool.map(close, [folder] * 6))
            assert {Seal(folder).open(one) for one in sealed} == {KEY}
            assert [path.name for path in folder.iterdir()] == [FILE]


def test_a_secret_that_cannot_be_read_is_told_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / FILE).mkdir()
    with closing(Database(f"sqlite:///{tmp_path / 'arena.db'}")) as database:
        database.migrate()
        queued(database)
        with database.writing() as session:
            session.scalars(select(Contender)).one().sealed_key = "x"
        asyncio.run(contenders.look_again(Registry(database, AddressPolicy(), Seal(tmp_path))))
        with database.reading() as session:
            (seen,) = contenders.contender_rows(session)
    assert (seen.is_alive, seen.problem) == (False, f"{FILE} cannot be read: Is a directory")


def test_two_servers_that_register_one_agent_at_once_know_it_once(
    db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2)

    async def fetch(url: str, policy: AddressPolicy, key: str | None) -> Card:
        del url, policy, key
        together.wait(PATIENCE_S)
        return Card("Agent", "", "1", ("terminal",))

    monkeypatch.setattr(contenders, "fetch", fetch)
    lab, nobody = Holder("lab", frozenset({"submit"})), None

    def register(database: Database, url: str) -> str:
        registry = Registry(database, nobody, Seal(tmp_path))  # type: ignore[arg-type]  # no address is looked at
        return asyncio.run(contenders.register(registry, Registration(url), lab)).id

    with closing(Database(db_url)) as one, closing(Database(db_url)) as other, ThreadPoolExecutor(2) as pool:
        one.migrate()
        for number in range(5):
            first, second = pool.map(register, (one, other), (f"http://x{number}",) * 2)
            assert first == second
        with one.reading() as session:
            assert len(contenders.contender_rows(session)) == 5


def test_the_mcp_door_leads_to_the_battles_own_sandbox(runs: Path, home: Path) -> None:
    seen: dict[str, Any] = {}

    async def works(_turn: int, text: str) -> str:
        offered = seen["offered"] = json.loads(text)["mcp"]
        async with (
            httpx2.AsyncClient(headers=offered["headers"]) as http,
            streamable_http_client(offered["url"], http_client=http) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            await session.call_tool("execute_command", {"command": SOLVES["command"]})
            await session.call_tool("submit_solution", {"output": "by MCP"})
        return ""

    with white_served(works) as white, battling_server(runs, home) as server:
        found = ended(server, asked(server, registered(server, white)))
        assert (found["state"], found["result"]["score"]) == ("finished", 1)
        assert seen["offered"]["url"] == f"{server.url}/mcp"
        for token in (seen["offered"]["headers"]["Authorization"], ""):
            late = server.client.post("/mcp", json={}, headers={"Authorization": token})
            assert late.status_code == 401
    with served(runs.parent / "quiet") as server:
        assert server.client.post("/mcp", json={}).status_code == 404


def test_a_battle_whose_agent_is_not_there_measures_nobody(runs: Path, home: Path) -> None:
    with battling_server(runs, home) as server:
        with white_served() as white:
            known = registered(server, white)
        found = ended(server, asked(server, known, config={"attempts": 3}))
        assert (found["state"], found["result"]["unscored"]) == ("infra_error", 3)
        assert "nobody" in found["message"]
