"""The proxy of a recorded sandbox, asked directly."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from termarena.sandbox.fetches.authority import Authority
from termarena.sandbox.fetches.exchange import Answer, Asked
from termarena.sandbox.fetches.serving import FetchProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

A_WHILE = 200


class Slow:
    """A source that takes its time after the last byte, as one does that writes all of it down."""

    def __init__(self, answer: Answer) -> None:
        self.happened: list[str] = []
        self.told_answer = answer

    async def answer(self, _: Asked) -> Answer:
        given = self.told_answer
        return Answer(given.status, given.headers, given.length, self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        for _ in range(A_WHILE):
            await asyncio.sleep(0)
        self.happened.append("kept")
        if False:
            yield b""

    def told(self, asked: Asked, problem: str) -> None:
        raise AssertionError((asked, problem))


@pytest.mark.parametrize(
    ("method", "answer"), [("HEAD", Answer(200, {}, 1234)), ("GET", Answer(200, {}, 0)), ("GET", Answer(304, {}, None))]
)
async def test_an_answer_without_a_body_is_kept_before_the_client_has_it(method: str, answer: Answer) -> None:
    """The client is done with the last header, and its sandbox may end at once."""
    source = Slow(answer)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with FetchProxy(source, Authority()).serve(listener):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} http://somewhere.test/ HTTP/1.1\r\nHost: somewhere.test\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 %d" % answer.status)
        source.happened.append("told")
        writer.close()
    assert source.happened == ["kept", "told"]
