"""What comes to its end: sessions after a submission, turns, calls of a backend."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import pytest

from termarena.agents.contract import Brief
from termarena.battles import backend
from termarena.battles.backend import Backend
from termarena.battles.session import Session, SessionLimits
from termarena.battles.shell_v1 import Submit, WriteFile
from termarena.core.errors import FetchError, WorkspaceClosed

if TYPE_CHECKING:
    from termarena.agents.contract import Workspace

BRIEF = Brief("one", "Write 1.", 60.0, workdir="/app")
WRITE = WriteFile("one.txt", b"1")


class Paper:
    """As much of a workspace as writing takes."""

    seconds_left = 60.0

    def __init__(self) -> None:
        self.written: list[str] = []

    async def write(self, path: str, content: bytes) -> None:  # noqa: ARG002 - the workspace's signature
        await asyncio.sleep(0)
        self.written.append(path)


def _session(paper: Paper, limits: SessionLimits | None = None) -> Session:
    return Session(cast("Workspace", paper), BRIEF, limits)


async def test_nothing_is_done_after_a_submission_not_even_what_waited_behind_it() -> None:
    paper = Paper()
    async with _session(paper) as session:
        done = await asyncio.gather(
            *(session.do(request) for request in (WRITE, Submit("done"), WRITE, Submit("again"))),
            return_exceptions=True,
        )
        assert session.submitted.result() == "done"
    assert [isinstance(one, WorkspaceClosed) for one in done] == [False, False, True, True]
    assert paper.written == ["/app/one.txt"]


async def test_requests_side_by_side_use_no_more_turns_than_there_are() -> None:
    paper = Paper()
    async with _session(paper, SessionLimits(max_turns=2)) as session:
        done = await asyncio.gather(*(session.do(WRITE) for _ in range(5)))
    assert [one.get("code") for one in done] == [None, None, *["no_turns_left"] * 3]
    assert len(paper.written) == session.tally.turns == 2


async def _backend(answer: Any) -> tuple[asyncio.Server, Backend]:  # noqa: ANN401 - a callback of asyncio's
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, Backend(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", token="the-users")  # noqa: S106 - a test's


async def test_a_backend_that_answers_drop_by_drop_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "POST_S", 0.3)
    monkeypatch.setattr(backend, "TRIES", 1)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)

    server, dripping = await _backend(drip)
    async with asyncio.timeout(30), server:
        with pytest.raises(FetchError, match="TimeoutError"):
            await dripping.battle("b")


@pytest.mark.parametrize("name", ["../users/me", "..", "a?admin=1", "a#b", "a/b"])
async def test_a_name_from_outside_is_one_part_of_a_path(name: str) -> None:
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server, told = await _backend(answer)
    async with server:
        await told.set_ready(name)
    assert asked[0].startswith("/agents/")
    assert not set(asked[0].removeprefix("/agents/")) & set("/?#")
    assert asked[0] != "/agents/.."
