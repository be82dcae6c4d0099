"""Agents that speak to AgentBeats' backend register, fight and report here as well: its own client, and ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from battles.greens import green_at
from battles.whites import White
from support.arena_server import PATIENCE_S, served
from support.battle_ground import battle_config, battling_server, ended
from support.tasks import make_task
from termarena.arena.keys import add_key
from termarena.battles.asking import Asked, ask_backend
from termarena.battles.backend import Backend, BattleOver
from termarena.battles.cards import GREEN_CARD, WHITE_CARD
from termarena.battles.launching import Launcher
from termarena.battles.serving import Place, serve
from termarena.battles.white import Bench, WhiteExecutor
from termarena.core.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from support.arena_server import Server

pytestmark = [pytest.mark.needs("user-namespaces")]
REPORTER = Path(__file__).parent.parent / "battles" / "old_reporter.py"


def _address(server: Server) -> str:
    key = str(server.client.headers["Authorization"]).removeprefix("Bearer ")
    return f"{server.url}/agentbeats/by/{key}"


async def test_our_agents_fight_through_the_arena_as_through_a_backend(runs: Path, home: Path, tmp_path: Path) -> None:
    task = make_task(tmp_path / "tasks" / "two")
    said: list[str] = []
    with battling_server(runs, home) as server:
        backend = Backend(_address(server))
        async with contextlib.AsyncExitStack() as stack:
            launchers = [Launcher(backend, alias=name, is_green=name == "green") for name in ("white", "green")]
            white = await stack.enter_async_context(
                serve(
                    WhiteExecutor(Bench("oracle", (task,))), WHITE_CARD, Place(), extra=lambda _: launchers[0].routes()
                )
            )
            green = await stack.enter_async_context(green_at(tmp_path, home, tasks=(task,), more=launchers[1].routes()))
            for launcher, url in zip(launchers, (white.url, green.url), strict=True):
                stack.push_async_callback(launcher.aclose)
                await launcher.register(url)
            asked = Asked(green.url, white.url, {"tasks": ["two"], "attempts": 2})
            result = await ask_backend(backend, asked, said.append)
    assert (result["score"], result["max_score"]) == (2, 2)
    assert any("two: solved" in text for text in said), said


@contextlib.asynccontextmanager
async def _party(green: White) -> AsyncIterator[str]:
    """An agent with a launcher that says at once that it is ready, whichever backend asks."""
    telling: set[asyncio.Task[None]] = set()

    async def reset(request: Request) -> JSONResponse:
        asked = await request.json()
        telling.add(asyncio.create_task(Backend(asked["backend_url"]).set_ready(asked["agent_id"])))
        return JSONResponse({"status": "reset"})

    routes = [Route("/launcher/reset", reset, methods=["POST"])]
    async with serve(green, GREEN_CARD, Place(), extra=lambda _: routes) as served:
        yield served.url
        await asyncio.wait(telling)


async def _old(*words: str) -> dict[str, Any]:
    command = [os.environ["TERMARENA_A2A_03_PYTHON"], str(REPORTER), *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.needs("agentbeats")
async def test_the_client_of_agentbeats_registers_and_reports(runs: Path, home: Path) -> None:
    began: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def say(turn: int, text: str) -> str:
        told = json.loads(text)
        if told["type"] == "battle_start" and not began.done():
            began.set_result(told)
        return f"answer {turn}"

    with battling_server(runs, home) as server:
        async with _party(White(say)) as green, _party(White(say)) as white:
            ports = [url.rpartition(":")[2] for url in (green, white)]
            made = await _old("register", _address(server), *ports)
            battle = made["battle_id"]
            told = await asyncio.wait_for(began, PATIENCE_S)
            assert told["opponent_infos"] == [{"name": "white", "agent_url": white}]
            report = await _old("report", told["green_battle_context"]["backend_url"], battle)
            found = await asyncio.to_thread(ended, server, battle)
        assert report["said"] == [
            "event recorded to backend",
            "action recorded to backend",
            "battle result recorded to backend: winner=white_agent",
            "event recording to backend failed",
        ]
        assert (found["state"], found["message"], found["result"]["score"]) == ("finished", "white is better", 1)
        shown = server.client.get(f"/agentbeats/battles/{battle}").json()
        assert (shown["state"], shown["result"]["winner"]) == ("finished", "white_agent")
        messages = [one["message"] for one in shown["interact_history"]]
        wanted = ["look", "it goes on", "thinks", "white is better"]
        assert [one for one in dict.fromkeys(messages) if one in wanted] == wanted
        look = next(one for one in shown["interact_history"] if one["message"] == "look")
        assert (look["terminal_input"], look["terminal_output"], look["reported_by"]) == ("ls", "one.txt", "green")
        assert "too late" not in messages
        assert {one["agent_id"] for one in server.client.get("/agentbeats/agents").json()} == set(made["agents"])


async def test_only_whoever_was_given_the_address_may_report(runs: Path, home: Path) -> None:
    with battling_server(runs, home) as server:
        strangers = [Backend(f"{server.url}/agentbeats/by/tb_guess"), Backend(f"{server.url}/agentbeats")]
        for stranger in strangers:
            with pytest.raises(FetchError, match="401"):
                await stranger.register({"alias": "x", "agent_url": "http://127.0.0.1:1"})
            with pytest.raises(BattleOver):
                await stranger.tell("none", "hello")


async def test_the_agent_that_is_measured_reports_no_result_and_sees_no_other_battle(runs: Path, home: Path) -> None:
    told: dict[str, asyncio.Future[str]] = {
        name: asyncio.get_running_loop().create_future() for name in ("white", "green")
    }

    def listener(name: str) -> White:
        def say(turn: int, text: str) -> str:
            if not told[name].done():
                told[name].set_result(json.loads(text)["backend_url"])
            return f"answer {turn}"

        return White(say)

    with served(runs, battles=battle_config(runs, home), is_private=True) as server:
        key = add_key(server.held.database, "lab", ["submit"])
        known = Backend(f"{server.url}/agentbeats/by/{key}")
        async with (
            serve(listener("green"), GREEN_CARD, Place()) as green,
            serve(listener("white"), WHITE_CARD, Place()) as white,
        ):
            green_id = await known.register({"alias": "green", "agent_url": green.url, "is_green": True})
            white_id = await known.register({"alias": "white", "agent_url": white.url})
            order: dict[str, Any] = {"green_agent_id": green_id, "opponents": [{"name": "w", "agent_id": white_id}]}
            battle = await known.start(order)
            words = {name: Backend(await asyncio.wait_for(url, PATIENCE_S)) for name, url in told.items()}
            await words["white"].tell(battle, "I am at work")  # which our client says in the referee's name
            told_of: Any = (await words["white"].battle(battle))["interact_history"]
            (history,) = [one for one in told_of if one["message"] == "I am at work"]
            assert history["reported_by"] == "w"
            result: dict[str, Any] = {"message": "I won", "winner": "w", "detail": {"score": 1}, "table": ""}
            with pytest.raises(FetchError, match="403"):
                await words["white"].report(battle, **result)
            with pytest.raises(FetchError, match="401") as refused:
                await words["white"].set_ready(green_id)
            assert "/agentbeats/by/…/agents" in refused.value.message  # what opens a battle is not told
            for one in words.values():
                assert (await one.battle(battle))["battle_id"] == battle
                with pytest.raises(FetchError, match="401"):
                    await one.agents()
            with pytest.raises(FetchError, match="401"):
                await Backend(f"{server.url}/agentbeats/by/tb_guess").battle(battle)
            await words["green"].report(battle, **result | {"message": "it is solved"})
            server.client.headers["Authorization"] = f"Bearer {key}"
            found = await asyncio.to_thread(ended, server, battle)
    assert (found["state"], found["message"]) == ("finished", "it is solved")


async def test_a_battle_that_is_cancelled_takes_no_more_reports(runs: Path, home: Path) -> None:
    began: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def say(turn: int, text: str) -> str:
        told = json.loads(text)
        if told["type"] == "battle_start" and not began.done():
            began.set_result(told["green_battle_context"]["backend_url"])
        return f"answer {turn}"

    with battling_server(runs, home) as server:
        known = Backend(_address(server))
        async with (
            serve(White(say), GREEN_CARD, Place()) as green,
            serve(White(say), WHITE_CARD, Place()) as white,
        ):
            green_id = await known.register({"alias": "green", "agent_url": green.url, "is_green": True})
            white_id = await known.register({"alias": "white", "agent_url": white.url})
            battle = await known.start(
                {"green_agent_id": green_id, "opponents": [{"name": "w", "agent_id": white_id}], "config": {}}
            )
            backend = Backend(await asyncio.wait_for(began, PATIENCE_S))
            await backend.tell(battle, "it goes on")
            answer = await asyncio.to_thread(server.client.post, f"/api/battles/{battle}/cancel")
            assert answer.status_code == 200
            found = await asyncio.to_thread(ended, server, battle)
            assert (found["state"], found["message"]) == ("cancelled", "cancelled by lab")
            with pytest.raises(BattleOver):
                await backend.tell(battle, "too late")


async def test_several_agents_are_measured_in_one_battle_each_with_an_address_of_its_own(
    runs: Path, home: Path
) -> None:
    told: dict[str, list[dict[str, Any]]] = {"green": [], "red": [], "blue": []}
    began = asyncio.Event()

    def listener(name: str) -> White:
        def say(turn: int, text: str) -> str:
            told[name].append(json.loads(text))
            if told[name][-1]["type"] == "battle_start":
                began.set()
            return f"answer {turn}"

        return White(say)

    with battling_server(runs, home) as server:
        known = Backend(_address(server))
        async with contextlib.AsyncExitStack() as stack:
            urls, ids = dict[str, str](), dict[str, str]()
            for name in told:
                served = await stack.enter_async_context(serve(listener(name), GREEN_CARD, Place()))
                urls[name] = served.url
                ids[name] = await known.register({"alias": name, "agent_url": served.url, "is_green": name == "green"})
            opponents = [{"name": f"{name}_agent", "agent_id": ids[name]} for name in ("red", "blue")]
            order: dict[str, Any] = {"green_agent_id": ids["green"], "opponents": opponents, "config": {}}
            twice = {**order, "opponents": [opponents[0], opponents[0] | {"name": "again"}]}
            wrong = {**order, "opponents": [opponents[0], {"name": "x", "agent_id": ids["green"]}]}
            for bad in (twice, wrong):
                with pytest.raises(FetchError, match=r"40[09]"):
                    await known.start(bad)
            battle = await known.start(order)
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            start = told["green"][-1]
            assert start["opponent_infos"] == [{"name": name, "agent_url": urls[name]} for name in ("red", "blue")]
            contexts = start["red_battle_contexts"]
            addresses = {name: told[name][0]["backend_url"] for name in told}
            assert len(set(addresses.values())) == 3
            for name in ("red", "blue"):
                assert told[name][0]["agent_name"] == f"{name}_agent"
                assert contexts[urls[name]]["backend_url"] == addresses[name]
                await Backend(addresses[name]).tell(battle, f"{name} is at work")
                with pytest.raises(FetchError, match="401"):
                    await Backend(addresses[name]).set_ready(ids["blue" if name == "red" else "red"])
            assert server.client.delete(f"/api/contenders/{ids['blue']}").status_code == 409
            await Backend(addresses["green"]).report(
                battle, "blue is better", winner="blue_agent", detail={"score": 1}, table=""
            )
            found = await asyncio.to_thread(ended, server, battle)
        assert (found["state"], found["message"], found["others"]) == ("finished", "blue is better", ["blue_agent"])
        shown = server.client.get(f"/agentbeats/battles/{battle}").json()
        assert shown["opponents"] == server.client.get("/agentbeats/battles").json()[0]["opponents"] == opponents
        said = {one["message"]: one["reported_by"] for one in shown["interact_history"]}
        assert (said["red is at work"], said["blue is at work"]) == ("red_agent", "blue_agent")
        assert "With blue_agent." in server.page(f"/battles/{battle}")


async def test_our_referee_refuses_several_and_tells_the_backend(runs: Path, home: Path, tmp_path: Path) -> None:
    with battling_server(runs, home) as server:
        known = Backend(_address(server))
        async with (
            green_at(tmp_path, home) as green,
            serve(White(), WHITE_CARD, Place()) as red,
            serve(White(), WHITE_CARD, Place()) as blue,
        ):
            green_id = await known.register({"alias": "green", "agent_url": green.url, "is_green": True})
            ids = [await known.register({"alias": one.url, "agent_url": one.url}) for one in (red, blue)]
            opponents: Any = [{"name": name, "agent_id": id_} for name, id_ in zip(("red", "blue"), ids, strict=True)]
            battle = await known.start({"green_agent_id": green_id, "opponents": opponents, "config": {}})
            found = await asyncio.to_thread(ended, server, battle)
    assert found["result"]["winner"] == "draw"
    assert f"one white agent fights here at a time, not {red.url}, {blue.url}" in found["message"]
