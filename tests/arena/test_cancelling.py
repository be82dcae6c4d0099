"""Battles that are cancelled, at each stage: nothing of them runs when that is confirmed."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from battles.greens import green_at
from support.arena_server import PATIENCE_S, served
from support.battle_ground import Held, asked, battling_server, ended, queued, registered, white_served
from termarena.arena import battling
from termarena.arena.database import Database
from termarena.arena.keys import Holder, add_key
from termarena.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.arena_server import Server

pytestmark = [pytest.mark.needs("user-namespaces")]
LAB = Holder("lab", frozenset({"submit"}))


def _cancelled(server: Server, battle: str) -> None:
    answer = server.client.post(f"/api/battles/{battle}/cancel")
    assert answer.status_code == 200, answer.text
    assert answer.json()["cancelled_by"] == "lab"


def test_a_battle_that_is_fought_is_cleaned_up_before_it_is_cancelled(runs: Path, home: Path) -> None:
    held = Held()
    with white_served(lambda turn, _: held(turn)) as white, battling_server(runs, home) as server:
        battle = asked(server, registered(server, white))
        assert held.begun.wait(PATIENCE_S)
        assert "Cancel the battle" in server.page(f"/battles/{battle}")
        with closing(Database(f"sqlite:///{runs.parent / 'arena.db'}")) as elsewhere:  # as another server has it
            assert battling.cancel(elsewhere, battle, LAB).cancelled_by == "lab"
        found = ended(server, battle)
        assert (found["state"], found["message"], found["result"]) == ("cancelled", "cancelled by lab", None)
        # The journal says that the run was stopped: whoever writes it was there until then.
        server.look()
        assert server.json(f"/runs/{found['run']}")["run"]["state"] == "interrupted"
        assert server.held.hall.folder_of(battle) is None
        assert server.client.post(f"/api/battles/{battle}/cancel").status_code == 409
        held.may_go_on.set()
        assert server.client.post(f"/api/battles/{battle}/retry").json()["cancelled_by"] is None
        assert ended(server, battle)["state"] == "finished"


def test_a_server_that_is_stopped_ends_its_battles(runs: Path, home: Path) -> None:
    held = Held()
    with white_served(lambda turn, _: held(turn)) as white:
        with battling_server(runs, home) as server:
            battle = asked(server, registered(server, white))
            assert held.begun.wait(PATIENCE_S)
        held.may_go_on.set()
        with closing(Database(f"sqlite:///{runs.parent / 'arena.db'}")) as database, database.reading() as session:
            found = battling.find_battle(session, battle)
        assert (found.state, found.message) == ("infra_error", "the server was stopped")
        assert "run_interrupted" in (runs / f"battle_{battle}" / "journal.jsonl").read_text()


@contextmanager
def _another_referee(folder: Path, home: Path) -> Iterator[str]:
    ready, done, urls = threading.Event(), threading.Event(), list[str]()

    async def stand() -> None:
        async with green_at(folder, home) as green:
            urls.append(green.url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(stand()))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield urls[0]
    finally:
        done.set()
        thread.join(PATIENCE_S)


def test_another_referee_is_told_and_ends_it_too(runs: Path, home: Path) -> None:
    held, elsewhere = Held(), runs.parent / "elsewhere"
    with (
        white_served(lambda turn, _: held(turn)) as white,
        _another_referee(elsewhere, home) as green,
        battling_server(runs, home) as server,
    ):
        battle = asked(server, registered(server, white), green=registered(server, green, role="green"))
        assert held.begun.wait(PATIENCE_S)
        _cancelled(server, battle)
        assert ended(server, battle)["state"] == "cancelled"
        # By then the referee has ended it, with the white agent held where it was.
        (journal,) = elsewhere.rglob("journal.jsonl")
        assert "run_interrupted" in journal.read_text()
        held.may_go_on.set()


def test_one_that_waits_is_cancelled_at_once_by_whoever_asked_for_it(tmp_path: Path) -> None:
    with served(tmp_path / "runs") as server:
        database = server.held.database
        keys = {name: add_key(database, name, ["submit"]) for name in ("lab", "other")}
        boss = add_key(database, "boss", ["admin"])
        mine, bosses = queued(database), queued(database)
        refused = server.client.post(f"/battles/{mine}/cancel", data={"key": keys["other"]})
        assert (refused.status_code, "another key" in refused.text) == (403, True)
        assert server.client.post(f"/battles/{mine}/cancel", data={"key": "ta_none"}).status_code == 401
        done = server.client.post(f"/battles/{mine}/cancel", data={"key": keys["lab"]})
        assert (done.status_code, done.headers["location"]) == (303, f"/battles/{mine}")
        assert server.client.post(f"/battles/{bosses}/cancel", data={"key": boss}).status_code == 303
        assert [server.json(f"/battles/{one}")["message"] for one in (mine, bosses)] == [
            "cancelled by lab",
            "cancelled by boss",
        ]
        assert "Try again" in server.page(f"/battles/{mine}")
        assert server.json(f"/battles/{mine}/events")[-1]["content"]["state"] == "cancelled"
        agentbeats = server.client.get(f"/agentbeats/battles/{mine}").json()
        assert (agentbeats["state"], agentbeats["error"]) == ("error", "cancelled by lab")
        assert battling.claim(database, "x", lease_s=60, has_referee=True) is None


def test_one_whose_server_dies_while_it_is_cancelled_is_cancelled(db_url: str) -> None:
    with closing(Database(db_url)) as database:
        database.migrate()
        battle = queued(database)
        assert battling.claim(database, "gone", lease_s=-1, has_referee=True) is not None
        assert battling.to_be_cancelled(database, "gone") == {}
        for _ in range(2):
            assert battling.cancel(database, battle, LAB).state == "running"
        assert battling.to_be_cancelled(database, "gone") == {battle: "lab"}
        assert battling.to_be_cancelled(database, "other") == {}
        assert battling.give_up_abandoned(database) == 1
        with database.reading() as session:
            assert battling.find_battle(session, battle).state == "cancelled"
        with pytest.raises(Refused, match="cancelled"):
            battling.cancel(database, battle, LAB)
