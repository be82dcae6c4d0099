"""The real AgentBeats 1.2.6 backend, and clients and whites of a2a-sdk 0.3."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from battles.greens import green_at
from battles.whites import White, white_at
from support.tasks import make_task
from termarena.battles.asking import Asked, ask_backend
from termarena.battles.backend import Backend, BattleOver
from termarena.battles.cards import WHITE_CARD
from termarena.battles.launching import Launcher, find_agent
from termarena.battles.serving import Place, serve
from termarena.battles.white import Bench, WhiteExecutor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.needs("user-namespaces", "agentbeats"), pytest.mark.timeout(300)]

HERE = Path(__file__).parent


async def old_client(url: str, text: str, manner: str) -> dict[str, Any]:
    words = [os.environ["TERMARENA_A2A_03_PYTHON"], str(HERE / "old_client.py"), url, text, manner]
    done = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await done.communicate()
    assert done.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


@contextlib.asynccontextmanager
async def old_white() -> AsyncIterator[str]:
    words = [os.environ["TERMARENA_A2A_03_PYTHON"], str(HERE / "old_white.py")]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize("manner", ["stream", "send"])
async def test_an_old_client_has_a_battle_with_an_old_white(tmp_path: Path, home: Path, manner: str) -> None:
    async with green_at(tmp_path, home) as green, old_white() as white:
        told = await old_client(green.url, json.dumps({"participants": {"agent": f"{white}/"}, "config": {}}), manner)
    assert told["states"][-1] == "completed"
    (result,) = told["tables"]
    assert (result["score"], result["max_score"]) == (1, 1)


async def test_the_backend_registers_starts_and_keeps_a_battle(tmp_path: Path, home: Path) -> None:
    backend = Backend(os.environ["TERMARENA_AGENTBEATS"])
    task = make_task(tmp_path / "tasks" / "one")
    white = WhiteExecutor(Bench("oracle", (task,)))
    launchers = [Launcher(backend, alias=f"white {tmp_path.name}", is_green=False)]
    said: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(
            serve(white, WHITE_CARD, Place(), extra=lambda _: launchers[0].routes())
        )
        launchers.append(Launcher(backend, alias="green", is_green=True))
        green = await stack.enter_async_context(green_at(tmp_path, home, tasks=(task,), more=launchers[1].routes()))
        for launcher, url in zip(launchers, (served.url, green.url), strict=True):
            stack.push_async_callback(launcher.aclose)
            await launcher.register(url)
        result = await ask_backend(backend, Asked(green.url, served.url, {"tasks": ["one"]}), said.append)
        agents = await backend.agents()
    assert (result["score"], result["max_score"]) == (1, 1)
    assert any("one: solved" in text for text in said), said
    winner = find_agent(agents, served.url)
    assert winner is not None
    assert winner["elo"]["rating"] == 1015  # type: ignore[index]  # the backend's own


async def test_a_battle_that_the_backend_does_not_know_is_over() -> None:
    backend = Backend(os.environ["TERMARENA_AGENTBEATS"])
    with pytest.raises(BattleOver):
        await backend.tell("no-such-battle", "hello")


async def test_our_white_answers_the_backends_greeting() -> None:
    async with white_at(White()) as _, serve(WhiteExecutor(Bench("nop")), WHITE_CARD, Place()) as served:
        info = {"type": "battle_info", "battle_id": "b", "agent_name": "white_agent", "backend_url": "http://x"}
        told = await old_client(served.url, json.dumps(info), "stream")
    assert "ready" in told["texts"]
