"""The MCP door, with the official client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, cast

import httpx
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from battles.greens import green_at
from battles.whites import FINAL, White, white_at
from termarena.battles.doors import Doors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping
    from pathlib import Path

    from termarena.battles.session import Session

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.timeout(300)]


@contextlib.asynccontextmanager
async def opened(offered: dict[str, Any]) -> AsyncIterator[ClientSession]:
    async with (
        httpx2.AsyncClient(headers=offered["headers"]) as http,
        streamable_http_client(offered["url"], http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


async def call(session: ClientSession, name: str, **arguments: object) -> dict[str, Any]:
    result = await session.call_tool(name, arguments)
    found: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]  # ours are texts
    assert result.is_error is (found["kind"] == "error")
    return found


async def test_the_six_tools_share_one_session_and_submitting_ends_it(tmp_path: Path, home: Path) -> None:
    seen: dict[str, Any] = {}

    async def works(_turn: int, text: str) -> str:
        offered = json.loads(text)["mcp"]
        seen["offered"] = offered
        async with opened(offered) as session:
            seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            await call(session, "execute_command", command="cd /tmp && export WORD=kept")
            seen["state"] = await call(session, "execute_command", command="echo $WORD in $PWD")
            seen["late"] = await call(session, "execute_command", command="echo early; sleep 60", timeout=2)
            await call(session, "write_file", path="one.txt", content="1\n")
            seen["read"] = await call(session, "read_file", path="/app/one.txt")
            seen["gone"] = await call(session, "read_file", path="/tests/test.sh")
            seen["listed"] = await call(session, "list_directory", path="/app")
            seen["screen"] = await call(session, "send_keys", text="echo typed\n", wait=5)
            seen["wrong"] = await call(session, "write_file", path="x")
            seen["end"] = await call(session, "submit_solution", output="by MCP")
        return ""

    async with green_at(tmp_path, home) as green, white_at(White(works)) as url:
        result = await green.battle(url)
        async with httpx.AsyncClient() as http:
            after = await http.post(seen["offered"]["url"], headers=seen["offered"]["headers"], json={})
    assert result["score"] == 1, result
    assert seen["tools"] == [
        *("execute_command", "read_file", "write_file", "list_directory", "send_keys", "submit_solution"),
    ]
    assert seen["state"]["stdout"] == "kept in /tmp\n"
    assert (seen["late"]["exit_code"], seen["late"]["timed_out"]) == (124, True)
    assert seen["late"]["stdout"].startswith("early\n")
    assert (seen["read"]["content"], seen["gone"]["code"], seen["listed"]["entries"]) == (
        "1\n",
        "file_error",
        ["one.txt"],
    )
    assert "typed" in seen["screen"]["screen"]
    assert seen["wrong"]["code"] == "bad_request"
    assert seen["end"]["accepted"] is True
    assert after.status_code == 401
    kept = "".join(path.read_text() for path in green.battles.rglob("*.json*"))
    assert seen["offered"]["headers"]["Authorization"].removeprefix("Bearer ") not in kept


async def test_no_token_and_foreign_tokens_are_refused(tmp_path: Path, home: Path) -> None:
    async with green_at(tmp_path, home) as green, httpx.AsyncClient() as http:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
            assert (await http.post(f"{green.url}/mcp", headers=headers, json={})).status_code == 401
        rebound = await http.post(f"{green.url}/mcp", headers={"Host": "evil.example"}, json={})
        foreign = await http.post(green.url, headers={"Origin": "https://evil.example"}, json={})
    assert (rebound.status_code, foreign.status_code) == (421, 403)


@settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 1), max_size=30), st.text(max_size=60))
def test_a_token_opens_its_own_session_and_only_while_it_lasts(steps: list[int], guess: str) -> None:
    doors, living = Doors(), list[tuple[Any, str, contextlib.ExitStack]]()
    doors.routes("http://127.0.0.1:1")
    ended: list[str] = []
    for number, step in enumerate(steps):
        if step and living:
            _, header, life = living.pop(number % len(living))
            life.close()
            ended.append(header)
        else:
            life, session = contextlib.ExitStack(), object()
            offered: Any = life.enter_context(doors.open(session))["mcp"]  # type: ignore[arg-type]  # only handed out
            living.append((session, offered["headers"]["Authorization"], life))
        assert all(doors.session_of(header) is session for session, header, _ in living)
        assert not any(doors.session_of(header) for header in ended)
    assert len({header for _, header, _ in living} | {*ended}) == len(living) + len(ended)
    assert doors.session_of(guess) is None
    assert doors.session_of(f"Bearer {guess}") is None


async def test_an_old_client_has_an_address_and_nothing_else(tmp_path: Path, home: Path) -> None:
    seen: dict[str, Any] = {}
    still_open = contextlib.AsyncExitStack()

    async def works(_turn: int, text: str) -> dict[str, Any]:
        url = seen["url"] = json.loads(text)["mcp_sse"]["url"]
        async with sse_client(url) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            seen["tools"] = len((await session.list_tools()).tools)
            await call(session, "execute_command", command="cd /app && WORD=1")
            seen["ran"] = await call(session, "execute_command", command="echo $WORD >one.txt; echo $PWD")
        seen["left"] = await still_open.enter_async_context(http.stream("GET", url))
        return FINAL

    async with (
        still_open,
        httpx.AsyncClient(timeout=60) as http,
        green_at(tmp_path, home) as green,
        white_at(White(works)) as white,
    ):
        result = await green.battle(white)
        assert seen["left"].status_code == 200
        assert b"endpoint" in await seen["left"].aread()  # its end comes with the session's
        after = [(await http.get(seen["url"])).status_code, (await http.post(f"{seen['url']}/messages")).status_code]
        wrong = await http.get(f"{green.url}/mcp/sse/sk-nobodys")
    assert (result["score"], result["rows"][0]["n_commands"], seen["tools"]) == (1, 2, 6), result
    assert (seen["ran"]["stdout"], after, wrong.status_code) == ("/app\n", [401, 401], 401)
    token = seen["url"].rpartition("/")[2]
    assert token not in "".join(path.read_text() for path in green.battles.rglob("*.json*"))


async def test_a_white_may_use_both_doors(tmp_path: Path, home: Path) -> None:
    async def works(turn: int, text: str) -> dict[str, Any]:
        if turn > 1:
            return FINAL
        async with opened(json.loads(text)["mcp"]) as session:
            await call(session, "execute_command", command="cd /app && WORD=1")
        return {"kind": "exec_request", "command": "echo $WORD >one.txt"}

    async with green_at(tmp_path, home) as green, white_at(White(works)) as url:
        result = await green.battle(url)
    assert (result["score"], result["rows"][0]["n_commands"]) == (1, 2)


async def test_behind_a_server_that_adds_a_beginning_old_clients_find_their_way() -> None:
    doors, said = Doors(), asyncio.Queue[bytes]()
    doors.routes("https://green.example/behind")

    async def send(message: MutableMapping[str, Any]) -> None:
        said.put_nowait(message.get("body", b""))

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("it never hangs up")

    with doors.open(cast("Session", object())) as offered:
        address = cast("dict[str, str]", offered["mcp_sse"])["url"]
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
        scope["path_params"] = {"token": address.rpartition("/")[2]}
        stream = asyncio.create_task(doors.handle_sse(scope, receive, send))
        body = b""
        while b"messages" not in body:
            body += await said.get()
    await stream
    assert f"data: {address.removeprefix('https://green.example')}/messages?".encode() in body
