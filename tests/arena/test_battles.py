"""Battles of the arena: real white agents, real sandboxes, real viewers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import websockets.exceptions
import websockets.sync.client
from websockets.typing import Origin

from battles.whites import FINAL, SOLVES
from support.arena_server import PATIENCE_S, served, until
from support.battle_ground import Held, asked, battle_config, battling_server, ended, queued, registered, white_served
from support.made_runs import made_run
from termarena.arena import battling, broadcasting, contenders
from termarena.arena.broadcasting import QUEUE, Broadcasts
from termarena.arena.contenders import Card, Registration
from termarena.arena.database import Database
from termarena.arena.hall import Hall
from termarena.arena.keys import Holder, add_key
from termarena.arena.sealing import Seal
from termarena.arena.sending import Sender, hand_in
from termarena.arena.tailing import Happening, Tail
from termarena.core.errors import Refused
from termarena.core.run_folder import RunFolder
from termarena.core.scrub import Scrubber
from termarena.runs.bundle import pack_run
from termarena.runs.journal import Journal
from termarena.runs.journal import Tail as JournalTail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.battles.addresses import AddressPolicy

pytestmark = [pytest.mark.needs("user-namespaces")]
TESTS = Path(__file__).parent.parent
HOLDER = Holder("lab", frozenset({"submit"}))


def test_a_battle_is_fought_and_becomes_a_run(runs: Path, home: Path) -> None:
    with white_served() as white, battling_server(runs, home, tasks=("one", "two")) as server:
        battle = asked(server, registered(server, white), config={"tasks": ["two"], "attempts": 2})
        found = ended(server, battle)
        assert (found["state"], found["message"]) == ("finished", f"Battle {battle}: 2 of 2 solved")
        assert [(row["task_id"], row["attempt"]) for row in found["result"]["rows"]] == [("two", 1), ("two", 2)]
        server.look()
        run = server.json(f"/runs/{found['run']}")["run"]
        assert (run["state"], run["solved"], run["entrant"]["agent"]) == ("finished", 2, f"a2a:{white}")
        assert "echo 1 &gt;/app/one.txt" in server.page(f"/runs/{found['run']}/two/1")
        assert found["run"] in server.page(f"/battles/{battle}")
        assert battle in server.page("/battles")


def test_a_battle_that_its_agent_leaves_midway_can_be_retried(runs: Path, home: Path) -> None:
    leaving, heard = threading.Event(), list[str]()

    async def leaves(turn: int, text: str) -> Any:  # noqa: ANN401 - any JSON
        heard.append(text)
        if len(heard) > 2:  # the second trial
            leaving.set()
            await asyncio.Event().wait()
        return SOLVES if turn == 1 else FINAL

    with battling_server(runs, home) as server:
        with white_served(leaves) as white:
            battle = asked(server, registered(server, white), config={"attempts": 9})
            assert leaving.wait(PATIENCE_S)
        found = ended(server, battle)
        assert (found["state"], found["result"]["score"]) == ("infra_error", 1)
        assert "nobody was there for 3 trials in a row" in found["message"]
        shown = server.page(f"/battles/{battle}")
        assert "Try again" in shown
        assert f'href="/runs/{found["run"]}"' in shown
        again = server.client.post(f"/api/battles/{battle}/retry")
        assert (again.status_code, again.json()["state"], again.json()["result"]) == (200, "queued", None)


def test_a_finished_battle_is_retried_only_where_trials_have_no_score(tmp_path: Path) -> None:
    with served(tmp_path / "runs") as server:
        database = server.held.database
        for unscored in (0, 2):
            battle = queued(database)
            claimed = battling.claim(database, "x", lease_s=60, has_referee=True)
            assert claimed is not None
            result = {"score": 1, "max_score": 3, "unscored": unscored}
            assert battling.end(database, claimed, "x", "finished", message="", result=result)
            assert ("Try again" in server.page(f"/battles/{battle}")) == bool(unscored)
        assert battling.retry(database, battle, "lab").state == "queued"


def _events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def _heard(events: Iterator[tuple[str, Any]], white: Held) -> dict[str, list[Any]]:
    """Everything up to the end; the agent goes on when the viewer sees its trial begin."""
    heard: dict[str, list[Any]] = {}
    for name, told in events:
        heard.setdefault(name, []).append(told)
        if name == "trial" and told["state"] == "began":
            white.may_go_on.set()
    return heard


def _check_heard(heard: dict[str, list[Any]]) -> None:
    assert [told["state"] for told in heard["state"]] == ["queued", "running", "finished"]
    assert [(told["trial"], told["state"]) for told in heard["trial"]] == [("one/1", "began"), ("one/1", "ended")]
    assert heard["trial"][-1]["outcome"] == "solved"
    assert [told["text"] for told in heard["step"] if told["kind"] == "command"] == [SOLVES["command"]]
    assert heard["terminal"][0]["event"][1] == "r"
    shown = "".join(told["event"][2] for told in heard["terminal"] if told["event"][1] == "o")
    assert "/app/one.txt" in shown
    assert any("one: solved" in told["text"] for told in heard["told"])
    assert heard["end"] == [{}]


def test_a_battle_is_watched_as_server_sent_events(runs: Path, home: Path) -> None:
    held = Held()
    with white_served(lambda turn, _: held(turn)) as white, battling_server(runs, home) as server:
        battle = asked(server, registered(server, white))
        with server.client.stream("GET", f"/api/battles/{battle}/live") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            _check_heard(_heard(_events(answer.iter_lines()), held))
        until(lambda: server.held.broadcasts.viewers() == 0)


def test_a_battle_is_watched_over_a_websocket(runs: Path, home: Path) -> None:
    held = Held()
    with white_served(lambda turn, _: held(turn)) as white, battling_server(runs, home) as server:
        battle = asked(server, registered(server, white))
        address = f"{server.url.replace('http', 'ws')}/api/battles/{battle}/ws"
        with pytest.raises(websockets.exceptions.InvalidStatus):
            websockets.sync.client.connect(address, origin=Origin("http://elsewhere.example"))
        with pytest.raises(websockets.exceptions.InvalidStatus):
            websockets.sync.client.connect(address.replace(battle, "none"))
        with websockets.sync.client.connect(address, open_timeout=PATIENCE_S) as socket:
            messages = (json.loads(message) for message in socket)
            _check_heard(_heard(((one["event"], one["data"]) for one in messages), held))


def test_a_viewer_who_hangs_up_is_gone_even_where_nothing_happens(tmp_path: Path) -> None:
    with served(tmp_path / "runs") as server:
        battle = queued(server.held.database)
        address = f"{server.url.replace('http', 'ws')}/api/battles/{battle}/ws"
        with websockets.sync.client.connect(address, open_timeout=PATIENCE_S) as socket:
            assert json.loads(socket.recv())["data"]["state"] == "queued"
            socket.send("whatever a viewer says is not listened to")
            assert server.held.broadcasts.viewers() == 1
        until(lambda: server.held.broadcasts.viewers() == 0)


def test_another_referee_is_asked_over_a2a(runs: Path, home: Path) -> None:
    """A green agent that is registered: our own, served by another process's hands."""
    from battles.greens import green_at  # noqa: PLC0415 - only here

    ready, done, urls = threading.Event(), threading.Event(), list[str]()

    async def stand() -> None:
        async with green_at(runs.parent / "elsewhere", home) as green:
            urls.append(green.url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(stand()))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        with white_served() as white, battling_server(runs, home) as server:
            green = registered(server, urls[0], role="green")
            found = ended(server, asked(server, registered(server, white), green=green, config={"attempts": 2}))
            assert (found["state"], found["result"]["score"], found["run"]) == ("finished", 2, None)
            wrong = server.client.post("/api/battles", json={"white": green})
            assert (wrong.status_code, "as green" in wrong.text) == (409, True)
    finally:
        done.set()
        thread.join(PATIENCE_S)


def test_what_cannot_be_is_refused_with_a_reason(runs: Path, home: Path) -> None:
    with white_served() as white, battling_server(runs, home) as server:
        known = registered(server, white)
        for body, status in (
            ({"white": "nobody"}, 404),
            ({"white": known, "config": {"attempts": 0}}, 400),
            ({"white": known, "surprise": 1}, 422),
        ):
            assert server.client.post("/api/battles", json=body).status_code == status
        found = ended(server, asked(server, known, config={"tasks": ["none"]}))
        assert (found["state"], "none" in found["message"]) == ("failed", True)
        for url in ("http://127.0.0.1:9", "http://169.254.1.1/"):
            answer = server.client.post("/api/contenders", json={"url": url})
            assert answer.status_code in (400, 422)
            assert answer.json()["error"]["message"]
        for path in ("/api/battles", "/api/contenders"):
            answer = server.client.post(path, json={}, headers={"Authorization": ""})
            assert answer.status_code == 401


def test_forms_carry_their_key(runs: Path, home: Path) -> None:
    with white_served() as white, battling_server(runs, home) as server:
        key = str(server.client.headers.pop("Authorization")).removeprefix("Bearer ")
        made = server.client.post("/contenders", data={"url": white, "role": "white", "name": "Mine", "key": key})
        assert (made.status_code, made.headers["location"]) == (303, "/battles#agents")
        known = server.json("/contenders")[0]
        assert (known["name"], known["is_alive"], known["owner"]) == ("Mine", True, "lab")
        refused = server.client.post("/battles", data={"white": known["id"], "key": "ta_wrong"})
        assert (refused.status_code, "no valid key" in refused.text) == (401, True)
        begun = server.client.post("/battles", data={"white": known["id"], "tasks": "one", "attempts": "1", "key": key})
        assert begun.status_code == 303
        battle = begun.headers["location"].rpartition("/")[2]
        assert ended(server, battle)["state"] == "finished"
        again = server.client.post(f"/battles/{battle}/retry", data={"key": key})
        assert (again.status_code, "finished" in again.text) == (409, True)


def test_an_agent_that_goes_is_seen_to_go(runs: Path, home: Path) -> None:
    with battling_server(runs, home, liveness_interval_s=0.1, lease_s=0.4) as server:
        with white_served() as white:
            known = registered(server, white)
        until(lambda: not server.json("/contenders")[0]["is_alive"])
        assert "nobody is there" in server.json("/contenders")[0]["problem"]
        assert "gone" in server.page("/battles")
        assert server.client.delete(f"/api/contenders/{known}").status_code == 204
        assert server.json("/contenders") == []


def test_agents_that_do_not_answer_hold_up_no_other_look(
    runs: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Event()

    async def fetch(url: str, policy: AddressPolicy, key: str | None) -> Card:
        del url, policy, key
        waiting.set()
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits so long")

    monkeypatch.setattr(contenders, "fetch", fetch)
    with closing(Database(f"sqlite:///{runs.parent / 'arena.db'}")) as database:
        database.migrate()
        battle = queued(database)
        with battling_server(runs, home, at_once=0, lease_s=0.2) as server:
            assert waiting.wait(PATIENCE_S)
            assert battling.claim(database, "gone", lease_s=-1, has_referee=True) is not None
            assert ended(server, battle)["message"] == battling.ABANDONED


# Fights battles until it is killed.
KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from support.battle_ground import battling_server
with battling_server(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], lease_s=2.0):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.soak
def test_a_server_that_is_killed_leaves_a_battle_that_can_be_retried(runs: Path, home: Path, tmp_path: Path) -> None:
    url, held = f"sqlite:///{tmp_path / 'arena.db'}", Held()
    with white_served(lambda turn, _: held(turn)) as white, closing(Database(url)) as database:
        database.migrate()
        battle = queued(database, white)
        words = [sys.executable, "-c", KILLED, str(runs), str(home), url, str(TESTS)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:  # noqa: S603 - ours
            assert held.begun.wait(PATIENCE_S)
            process.send_signal(signal.SIGKILL)
        held.may_go_on.set()
        with served(runs, url, battles=battle_config(runs.parent / "again" / "runs", home, lease_s=2.0)) as server:
            found = ended(server, battle)
            assert (found["state"], found["message"]) == ("infra_error", battling.ABANDONED)
            key = add_key(server.held.database, "other", ["submit"])
            again = server.client.post(f"/api/battles/{battle}/retry", headers={"Authorization": f"Bearer {key}"})
            assert (again.status_code, again.json()["state"]) == (200, "queued")
            found = ended(server, battle)
            assert (found["state"], found["tries"], found["run"]) == ("finished", 2, f"battle_{battle}-2")


def test_nobody_sends_a_run_in_the_place_of_a_battles(runs: Path, tmp_path: Path) -> None:
    with served(runs) as server:
        battle = queued(server.held.database)
        key = add_key(server.held.database, "lab", ["submit"])
        for name in (f"battle_{battle}", f"battle_{battle}-2"):
            view = made_run(tmp_path / name, {"one": "1"})
            with closing(Sender(view.folder, server.url, key)) as sender, pytest.raises(Refused, match="a battle"):
                sender.send()
            pack_run(view.folder, tmp_path / "b.tar.gz")
            with pytest.raises(Refused, match="a battle"):
                hand_in(tmp_path / "b.tar.gz", server.url, key)
        assert [path.name for path in runs.glob("battle_*")] == []


def test_two_servers_never_have_one_battle(db_url: str) -> None:
    with closing(Database(db_url)) as one, closing(Database(db_url)) as other:
        one.migrate()
        wanted = {queued(one) for _ in range(20)}

        def claim_all(database: Database) -> list[str]:
            claims = iter(lambda: battling.claim(database, "x", lease_s=60, has_referee=True), None)
            return [claimed.slug for claimed in claims]

        with ThreadPoolExecutor(4) as pool:
            claimed = [slug for some in pool.map(claim_all, (one, other, one, other)) for slug in some]
        assert sorted(claimed) == sorted(wanted)


def test_whoever_lost_its_lease_cannot_write_a_result(db_url: str) -> None:
    with closing(Database(db_url)) as database:
        database.migrate()
        battle = queued(database)
        late = battling.claim(database, "late", lease_s=-1, has_referee=True)
        assert late is not None
        assert battling.give_up_abandoned(database) == 1
        battling.retry(database, battle, "lab")
        assert not battling.renew(database, late, "late", lease_s=60)
        current = battling.claim(database, "late", lease_s=60, has_referee=True)  # the same server, a new try
        assert current is not None
        assert not battling.end(database, late, "late", "finished", message="", result={"score": 1})
        assert battling.renew(database, current, "late", lease_s=60)
        assert battling.give_up_abandoned(database) == 0
        assert battling.end(database, current, "late", "finished", message="done", result={"score": 2})
        with database.reading() as session:
            found = battling.find_battle(session, battle)
        assert (found.state, found.result) == ("finished", {"score": 2})


def test_whatever_a_referee_reports_pages_are_there(tmp_path: Path) -> None:
    numbers = {"score": 1, "max_score": 2}
    with served(tmp_path / "runs") as server:
        for result, shown in (
            ({"max_score": 3}, "-"),
            ({"score": float("inf"), "max_score": 1, "unscored": 0}, "-"),
            ({"score": [1], "max_score": {}, "unscored": "many"}, "-"),
            ({**numbers, "rows": [5, {"task_id": 1}, {"task_id": "x", "duration_sec": "long"}]}, "1 of 2"),
            ({**numbers, "rows": {"a": 1}}, "1 of 2"),
            ({**numbers, "rows": ["x" * battling.LARGEST_RESULT]}, "1 of 2"),
        ):
            battle = queued(server.held.database)
            claimed = battling.claim(server.held.database, "x", lease_s=60, has_referee=True)
            assert claimed is not None
            assert battling.end(server.held.database, claimed, "x", "finished", message="", result=result)
            assert f">{shown}<" in server.page(f"/battles/{battle}")
            assert server.page("/battles").count(f">{shown}<")
        assert len(server.client.get("/api/battles").content) < battling.LARGEST_RESULT


def test_a_battle_that_another_server_put_into_the_queue_is_not_put_there_again(db_url: str) -> None:
    with closing(Database(db_url)) as one, closing(Database(db_url)) as other, ThreadPoolExecutor(2) as pool:
        one.migrate()
        together = threading.Barrier(2)

        def again(database: Database, battle: str) -> bool:
            together.wait(PATIENCE_S)
            try:
                battling.retry(database, battle, "lab")
            except Refused:
                return False
            return True

        for battle in [queued(one) for _ in range(5)]:
            claimed = battling.claim(one, "x", lease_s=60, has_referee=True)
            assert claimed is not None
            assert battling.end(one, claimed, "x", "failed", message="")
            assert sorted(pool.map(again, (one, other), (battle, battle))) == [False, True]
            assert battling.claim(one, "x", lease_s=60, has_referee=True) is not None


@pytest.mark.needs("postgresql")
def test_battles_wait_for_a_database_that_is_gone(postgres_place: str, runs: Path, home: Path) -> None:
    name = f"away_{os.getpid()}"
    with psycopg.connect(f"{postgres_place} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        url = f"postgresql://postgres@/{name}?{postgres_place}"
        with white_served() as white, battling_server(runs, home, url) as server:
            known = registered(server, white)
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            assert server.client.post("/api/battles", json={"white": known}).status_code == 503
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            assert ended(server, asked(server, known))["state"] == "finished"


async def test_a_viewer_that_does_not_keep_up_is_let_go(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with closing(Database(f"sqlite:///{tmp_path / 'arena.db'}")) as database:
        database.migrate()
        battle = queued(database)
        with served(runs, f"sqlite:///{tmp_path / 'arena.db'}") as server:
            hall = Hall(server.held.config, database, hurry=lambda: None)
        broadcasts = Broadcasts(database, hall)
        async with broadcasts.viewer(battle) as quick, broadcasts.viewer(battle) as slow:
            read, wanted = 0, 2 * QUEUE
            for number in range(wanted):
                if number % 100 == 0:
                    battling.tell(database, battle, [{"text": f"{one}"} for one in range(100)])
                await anext(quick)
                read += 1
            late = [sent async for sent in slow]
        assert read == wanted
        assert late == []
        assert broadcasts.viewers() == 0


async def test_whoever_comes_late_is_told_the_last_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "runs" / "battle")
    attempt = folder.attempt("one", 1)
    attempt.path.mkdir(parents=True)
    with closing(Journal(folder.journal, JournalTail())) as journal:
        journal.append("trial_started", {"task_id": "one", "attempt": 1, "retry": 0})
    monkeypatch.setattr(broadcasting, "MOST_AT_ONCE_BYTES", 1 << 20)
    lines = (json.dumps([n / 10, "o", f"{n:4} {'x ' * 1_000}"]) for n in range(4_000))
    attempt.cast().write_text("\n".join([json.dumps({"version": 2}), *lines, ""]))
    with served(tmp_path / "runs") as server:
        battle = queued(server.held.database)
        hall = Hall(server.held.config, server.held.database, hurry=lambda: None)
        monkeypatch.setattr(hall, "folder_of", lambda _slug: folder)  # as if it were fought here
        tracemalloc.start()
        try:
            async with Broadcasts(server.held.database, hall).viewer(battle) as events:
                async for sent in events:
                    if sent.event == "terminal" and '"3999 ' in sent.data:
                        break
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert '"3999 ' in sent.data
    assert peak_bytes < attempt.cast().stat().st_size


def test_a_secret_in_pieces_is_not_shown_live(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    attempt = folder.attempt("one", 1)
    attempt.path.mkdir(parents=True)
    tail = Tail(folder, Scrubber({"OUR_KEY": "hunter2-hunter2"}))
    assert list(tail.read()) == []
    with closing(Journal(folder.journal, JournalTail())) as journal:
        journal.append("trial_started", {"task_id": "one", "attempt": 1, "retry": 0})
        pieces = ["$ echo h", "unter", "2-hunter2", "\r\nsk-", "a" * 30, "\r\n", "done"]
        lines = [json.dumps({"version": 2, "width": 100, "height": 30})]
        lines += [json.dumps([float(n), "o", piece]) for n, piece in enumerate(pieces)]
        shown: list[Happening] = []
        for line in lines:
            with attempt.cast().open("a") as file:
                file.write(line + "\n")
            shown += tail.read()
        journal.append("trial_finished", {"task_id": "one", "attempt": 1, "retry": 0, "outcome": "solved"})
        shown += tail.read()
    assert [one.kind for one in shown][:2] == ["trial", "terminal"]
    assert shown[1].content["event"] == [0.0, "r", "100x30"]
    text = "".join(
        one.content["event"][2] for one in shown if one.kind == "terminal" and one.content["event"][1] == "o"
    )
    assert text == "$ echo [secret OUR_KEY]\r\n[secret api-key]\r\ndone"
    assert shown[-1].content["outcome"] == "solved"


def test_lines_of_no_known_form_are_left_out_of_what_is_shown_live(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    attempt = folder.attempt("one", 1)
    attempt.path.mkdir(parents=True)
    with closing(Journal(folder.journal, JournalTail())) as journal:
        journal.append("trial_started", {"task_id": "one", "attempt": 1, "retry": 0})
    odd = (
        [0.1, [], "x"],
        [0.1, {"o": 1}, "x"],
        [0.1, "o", 1],
        [0.2, "q", "x"],
        [10**400, "o", "a"],
        [None, "o", "b\n"],
    )
    attempt.cast().write_text("".join(json.dumps(line) + "\n" for line in ({"version": 2}, *odd)))
    asked = [{"kind": "keys", "keys": keys} for keys in (7, ["C-c", "x"])]
    lines = [json.dumps({"direction": "received", "content": content}) for content in asked]
    attempt.messages.write_text("\n".join([*lines, ""]))
    shown = list(Tail(folder, Scrubber({})).read())
    assert [one.content["text"] for one in shown if one.kind == "step"] == ["", "C-c x"]
    told = [one.content["event"] for one in shown if one.kind == "terminal"]
    assert (told[0][1], "".join(event[2] for event in told[1:])) == ("r", "ab\n")


async def test_the_same_agent_is_registered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(url: str, policy: AddressPolicy, key: str | None) -> Card:
        del policy, key
        return Card(f"Agent of {url}", "", "1", ("terminal",))

    monkeypatch.setattr("termarena.arena.contenders.fetch", fetch)
    with closing(Database(f"sqlite:///{tmp_path / 'arena.db'}")) as database:
        database.migrate()
        nobody: Any = None
        registry = contenders.Registry(database, nobody, Seal(tmp_path))
        first = await contenders.register(registry, Registration("http://x/"), HOLDER)
        again = await contenders.register(registry, Registration("http://x", name="X"), HOLDER)
        green = await contenders.register(registry, Registration("http://x", "green"), HOLDER)
        assert (first.id, again.name, green.id == first.id) == (again.id, "X", False)
