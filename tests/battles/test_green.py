"""The green agent, asked in every shape that is in use, with real white agents."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.types import Role, SendMessageRequest, SubscribeToTaskRequest
from starlette.responses import Response
from starlette.routing import Route

from battles.greens import green_at
from battles.whites import FINAL, White, white_at
from running import termarena
from support.tasks import Made, make_task
from termarena.battles import green as green_module
from termarena.battles.addresses import AddressPolicy, open_http
from termarena.battles.config import GreenConfig, LimitSettings, SessionSettings
from termarena.battles.conversation import fetch_card
from termarena.battles.green import GreenExecutor
from termarena.battles.replies import Gathering
from termarena.core.run_folder import RunFolder
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.timeout(300)]


async def test_an_assessment_ends_in_an_artifact_and_a_run_folder(tmp_path: Path, home: Path) -> None:
    async with green_at(tmp_path, home) as green, white_at(White()) as white:
        result = await green.battle(white, tasks=["one"], num_instances=3, colour="red")
    assert (result["score"], result["max_score"], result["pass_rate"]) == (1, 1, 100)
    assert result["task_rewards"] == {"one": {"reward": 1}}
    (row,) = result["rows"]
    assert (row["task_id"], row["passed"], row["n_commands"], row["n_parse_errors"]) == ("one", True, 1, 0)
    assert result["ignored_config"] == ["colour"]
    (folder,) = green.battles.iterdir()
    assert folder.name.startswith("battle_")
    run = RunFolder(folder)
    assert [one.outcome for one in read_run(run).history.summaries()] == ["solved"]
    attempt = run.attempt("one", 1)
    for path in (attempt.trajectory, attempt.messages, attempt.tool_calls, attempt.cast(), attempt.metrics):
        assert path.is_file()
    assert json.loads((folder / "battle.json").read_text())["result"]["score"] == 1
    done = await asyncio.to_thread(termarena, "report", str(folder), env={"TERMARENA_HOME": str(home)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["Hello", "{}", '{"kind": "task"}', "[1]", "{" * 3000])
async def test_what_asks_for_no_battle_is_told_how_to(tmp_path: Path, home: Path, text: str) -> None:
    async with green_at(tmp_path, home) as green:
        reply = await green.say(text)
    assert reply.state == "completed"
    assert "participants" in reply.texts[0]
    assert not (tmp_path / "battles").exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"tasks": ["two"]}, "no task is called two"),
        ({"tasks": 7}, "tasks is a list of names"),
        ({"shard_index": 2, "num_shards": 2}, "shard_index 2 is not below num_shards 2"),
        ({"shard_index": 1, "num_shards": 2}, "shard 1 of 2 holds no task"),
        ({"attempts": 0}, "attempts is 0"),
        ({"attempts": 100_000}, "more than 10000 trials"),
        ({"timeout_multiplier": "fast"}, "timeout_multiplier"),
    ],
)
async def test_a_battle_that_makes_no_sense_is_rejected(
    tmp_path: Path, home: Path, config: dict[str, Any], words: str
) -> None:
    async with green_at(tmp_path, home) as green:
        reply = await green.say({"participants": {"agent": "http://127.0.0.1:9"}, "config": config})
    assert reply.state == "rejected"
    assert words in reply.texts[0]
    assert not (tmp_path / "battles").exists()


async def test_the_words_of_controllers_are_understood(tmp_path: Path, home: Path) -> None:
    async with green_at(tmp_path, home) as green, white_at(White()) as white:
        tagged = f"Your task is to assess the agents located at:\n<white_agent_url>\n{white}/\n</white_agent_url>\n"
        first = await green.say(tagged + '<env_config>{"task": "one"}</env_config>')
        second = await green.say(f"Task ID: one\nWhite Agent URL: {white}\nBattle ID: words-1")
        third = await green.say("Task ID: one")
    assert [reply.tables[0]["score"] for reply in (first, second)] == [1, 1]
    assert (green.battles / "battle_words-1").is_dir()
    assert (third.state, "no white agent" in third.texts[0]) == ("rejected", True)


async def test_shards_and_attempts(tmp_path: Path, home: Path) -> None:
    tasks = tuple(make_task(tmp_path / "tasks" / name) for name in ("a", "b", "c"))
    async with green_at(tmp_path, home, tasks=tasks) as green, white_at(White()) as white:
        first = await green.battle(white, tasks="all", num_shards=2, shard_index=0, attempts=2)
        second = await green.battle(white, assessment_config={"num_shards": "2", "shard_index": 1.0})
    assert sorted(first["task_rewards"]) == ["a", "c"]
    assert (first["score"], first["max_score"], first["pass_at_k"]) == (4, 4, {"k": 2, "rate": 1})
    assert sorted(second["task_rewards"]) == ["b"]


async def test_cancel_ends_the_sandbox_and_tells_the_white(tmp_path: Path, home: Path) -> None:
    async def never(_turn: int, _text: str) -> str:
        await asyncio.Event().wait()
        return ""

    white = White(never)
    async with green_at(tmp_path, home) as green, white_at(white) as url:
        order = asyncio.create_task(green.say({"participants": {"agent": url}, "config": {}}))
        await asyncio.wait_for(white.begun.wait(), 60)
        await _until(lambda: '"received"' in "".join(p.read_text() for p in green.battles.rglob("messages.jsonl")))
        async with httpx.AsyncClient(headers={"A2A-Version": "1.0"}) as http:
            listed = await http.post(green.url, json=_rpc("ListTasks", {}))
            (task,) = listed.json()["result"]["tasks"]
            cancelled = await http.post(green.url, json=_rpc("CancelTask", {"id": task["id"]}), timeout=60)
        reply = await asyncio.wait_for(order, 60)
        await asyncio.wait_for(white.cancelled.wait(), 60)
        assert cancelled.json()["result"]["status"]["state"] == "TASK_STATE_CANCELED"
        assert reply.state == "canceled"
        (folder,) = green.battles.iterdir()
        view = read_run(RunFolder(folder))
        assert (view.state, len(view.history)) == ("interrupted", 0)


class _Nobody(EventQueue):
    """Hears what is told, and keeps nothing of it."""

    async def enqueue_event(self, event: Event) -> None:
        del event


async def test_a_battle_that_is_cancelled_twice_is_cleaned_up_once(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second word comes from a server that is stopped meanwhile, or from whoever asks again."""
    begun, cleaning, may_end, is_clean = asyncio.Event(), asyncio.Event(), asyncio.Event(), False

    async def fight(*_: object) -> dict[str, Any]:
        nonlocal is_clean
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await may_end.wait()
            is_clean = True
        return {}

    async with green_at(tmp_path, home) as green:
        monkeypatch.setattr(green.referee, "fight_and_report", fight)
        executor, queue = GreenExecutor(green.referee), _Nobody()
        words = json.dumps({"participants": {"agent": "http://127.0.0.1:9"}, "config": {}})
        request = SendMessageRequest(message=new_text_message(words, role=Role.ROLE_USER))
        context = RequestContext(ServerCallContext(), request)
        fought = asyncio.create_task(executor.execute(context, queue))
        await begun.wait()
        cancelled = [asyncio.create_task(executor.cancel(context, queue)) for _ in range(2)]
        await cleaning.wait()
        fought.cancel()
        await asyncio.sleep(0)
        assert not any(task.done() for task in (fought, *cancelled))
        may_end.set()
        await asyncio.wait({fought, *cancelled})
    assert is_clean
    assert [task.exception() for task in cancelled] == [None, None]


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - a file tells, and it has no event
            await asyncio.sleep(0.01)


def _rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


async def test_a_full_referee_refuses_and_says_so(tmp_path: Path, home: Path) -> None:
    go_on = asyncio.Event()

    async def waits(_turn: int, _text: str) -> dict[str, Any]:
        await go_on.wait()
        return FINAL

    limits = LimitSettings(battles_at_once=1, battles_waiting=0)
    white = White(waits)
    config = GreenConfig(driver="namespace", limits=limits)
    async with green_at(tmp_path, home, config=config) as green, white_at(white) as url:
        first = asyncio.create_task(green.battle(url))
        await asyncio.wait_for(white.begun.wait(), 60)
        refused = await green.say({"participants": {"agent": url}, "config": {}})
        go_on.set()
        result = await asyncio.wait_for(first, 60)
    assert (refused.state, "there is no room" in refused.texts[0]) == ("rejected", True)
    assert result["score"] == 0


async def test_trials_with_one_white_come_one_after_the_other_unless_more_are_asked_for(
    tmp_path: Path, home: Path
) -> None:
    at_once, most, awaited = 0, 0, 1
    all_here = asyncio.Event()

    async def counts(turn: int, _text: str) -> dict[str, Any]:
        nonlocal at_once, most
        if turn == 2:
            at_once -= 1
            return FINAL
        at_once += 1
        most = max(most, at_once)
        if at_once == awaited:
            all_here.set()
        await all_here.wait()
        return {"kind": "exec_request", "command": "true"}

    async with green_at(tmp_path, home) as green, white_at(White(counts)) as url:
        await asyncio.gather(*(green.battle(url) for _ in range(3)))
        assert most == 1
        awaited = 4
        all_here.clear()
        await asyncio.wait_for(green.battle(url, attempts=4, max_parallel=4), 60)
    assert most == 4


async def test_an_environment_that_cannot_be_made_is_no_failure_of_the_agent(tmp_path: Path, home: Path) -> None:
    task = make_task(tmp_path / "tasks" / "broken", Made(setup="exit 3\n"))
    async with green_at(tmp_path, home, tasks=(task,)) as green, white_at(White()) as url:
        result = await green.battle(url)
    assert (result["score"], result["unscored"], result["pass_rate_bounds"]) == (0, 1, [0, 100])
    assert "error" in result["task_rewards"]["broken"]
    assert "setup" in result["rows"][0]["message"]


async def test_a_battle_with_nobody_ends_early_and_says_what_was_not_tried(tmp_path: Path, home: Path) -> None:
    config = GreenConfig(driver="namespace", session=SessionSettings(first_contact_s=0.01))
    async with green_at(tmp_path, home, config=config) as green:
        result = await green.battle("http://127.0.0.1:9", attempts=20)
    assert (result["max_score"], result["agent_errors"]) == (20, 0)
    assert (result["unscored"], result["pass_rate_bounds"]) == (20, [0, 100])
    assert result["not_tried"] == 20 - len(result["rows"]) >= 17


async def test_a_silent_battle_has_a_heart_and_a_lost_stream_is_taken_up_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(green_module, "HEARTBEAT_S", 0.02)
    go_on = asyncio.Event()

    async def waits(_turn: int, _text: str) -> dict[str, Any]:
        await go_on.wait()
        return FINAL

    white = White(waits)
    async with green_at(tmp_path, home) as green, white_at(white) as url, open_http(AddressPolicy()) as http:
        client = ClientFactory(ClientConfig(httpx_client=http)).create(await fetch_card(http, green.url))
        text = json.dumps({"participants": {"agent": url}, "config": {}})
        first, beats = Gathering(), 0
        async for event in client.send_message(SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))):
            first.add(event)
            beats += event.HasField("status_update")
            if beats > 5:
                break  # the connection is lost
        assert first.task_id is not None
        assert not first.has_ended
        again = Gathering()
        async for event in client.subscribe(SubscribeToTaskRequest(id=first.task_id)):
            again.add(event)
            go_on.set()
    assert again.reply().tables[0]["max_score"] == 1


@pytest.mark.parametrize(("is_there", "winner"), [(True, "white_agent"), (False, "draw")])
async def test_the_untyped_greeting_tells_where_the_result_goes(
    tmp_path: Path, home: Path, *, is_there: bool, winner: str
) -> None:
    posted: list[dict[str, Any]] = []

    async def take(request: Request) -> Response:
        posted.append({"path": request.url.path, **await request.json()})
        return Response(status_code=204)

    backend = Route("/backend/battles/{battle}", take, methods=["POST"])
    config = GreenConfig(driver="namespace", session=SessionSettings(first_contact_s=0.01))
    async with green_at(tmp_path, home, config=config, more=(backend,)) as green, white_at(White()) as there:
        url = there if is_there else "http://127.0.0.1:9"
        about = {
            "agent_name": "green_agent",
            "agent_id": "g",
            "battle_id": "b-7",
            "backend_url": f"{green.url}/backend",
        }
        ready = await green.say(about, context_id="c1")
        reply = await green.say(f"Task ID: one\nWhite Agent URL: {url}", context_id="c1")
    assert "ready to battle" in ready.texts[0]
    assert reply.tables[0]["score"] == int(is_there)
    assert {event["path"] for event in posted} == {"/backend/battles/b-7"}
    assert [event["is_result"] for event in posted[-3:]] == [False, False, True]
    assert (posted[-1]["winner"], posted[-1]["detail"]["score"]) == (winner, int(is_there))


async def test_a_battle_that_its_backend_has_ended_is_ended(tmp_path: Path, home: Path) -> None:
    async def refuse(_request: Request) -> Response:
        return Response("Battle already finished", status_code=400)

    async def never(_turn: int, _text: str) -> str:
        await asyncio.Event().wait()
        return ""

    backend = Route("/backend/battles/{battle}", refuse, methods=["POST"])
    async with green_at(tmp_path, home, more=(backend,)) as green, white_at(White(never)) as url:
        about = {"agent_name": "g", "agent_id": "g", "battle_id": "b-8", "backend_url": f"{green.url}/backend"}
        await green.say(about, context_id="c1")
        reply = await asyncio.wait_for(green.say(f"White Agent URL: {url}", context_id="c1"), 60)
    assert (reply.state, "does not know the battle b-8" in reply.texts[0]) == ("rejected", True)
