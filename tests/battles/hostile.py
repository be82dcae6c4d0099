"""White agents that keep to no protocol: a card that looks right, and a socket behind it that does what it likes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from a2a.server.request_handlers.response_helpers import agent_card_to_dict

from termarena.battles.cards import WHITE_CARD, make_card

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

FINAL = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": '{"kind": "final"}'}]}
ENDLESS = {"floods": b": " + b"x" * (1 << 20) + b"\n", "endless-line": b"data: " + b"x" * (1 << 20)}
LINES = {
    "breaks-off": b'data: {"jsonrpc": "2.0", "id": "1", "result": {"tas',
    "deep": b"data: " + b"[" * 200_000 + b"\n\n",
    "garbage": b"data: [[[[[[ not json\n\n",
}
RESULTS: dict[str, dict[str, Any]] = {
    "nonsense": {"message": {"parts": "none", "role": 17}},
    "other-context": {"message": {**FINAL, "contextId": "somebody-elses", "taskId": "theirs"}},
    "twice": {"message": FINAL},
}


class Hostile:
    """`manner` says what it does with every message; `card-503` is a status in the place of its card."""

    def __init__(self, manner: str) -> None:
        self.manner = manner
        self.url = ""
        self.asked = 0
        self._server: asyncio.Server | None = None
        self._held: set[asyncio.Task[None]] = set()

    async def listen(self) -> asyncio.Server:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=64 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self._server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._held.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length")), 0
            )
            body = await reader.readexactly(length)
            if head.startswith("GET"):
                await self._card(writer)
            else:
                self.asked += 1
                await self._answer(writer, json.loads(body))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the test is over, or the referee hung up
        finally:
            self._held.discard(task)
            writer.close()

    async def _card(self, writer: asyncio.StreamWriter) -> None:
        if self.manner.startswith("card-"):
            status = self.manner.removeprefix("card-").encode()
            writer.write(b"HTTP/1.1 %s Sorry\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
            return
        body = json.dumps(agent_card_to_dict(make_card(WHITE_CARD, self.url))).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()

    async def _answer(self, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        if self.manner == "silent":
            await asyncio.Event().wait()
        if self.manner in ("hangs-up", "leaves"):
            if self.manner == "leaves" and self._server is not None:
                self._server.close()
            return
        if self.manner == "leads-away":
            nowhere = b"Location: http://127.0.0.1:9/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            writer.write(b"HTTP/1.1 307 Elsewhere\r\n" + nowhere)
            return
        if self.manner == "error":
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        writer.write(STREAM)
        if self.manner in ENDLESS:
            while True:
                writer.write(ENDLESS[self.manner])
                await writer.drain()
        result = RESULTS.get(self.manner)
        writer.write(LINES[self.manner] if result is None else _event(request, result))
        if self.manner == "twice":
            writer.write(_event(request, RESULTS["twice"]))
        await writer.drain()

    async def aclose(self) -> None:
        for task in tuple(self._held):
            task.cancel()
        if self._held:
            await asyncio.wait(self._held)


def _event(request: dict[str, Any], result: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result})}\n\n".encode()


@contextlib.asynccontextmanager
async def hostile_at(manner: str) -> AsyncIterator[Hostile]:
    """One of them, listening."""
    hostile = Hostile(manner)
    server = await hostile.listen()
    try:
        yield hostile
    finally:
        server.close()
        await hostile.aclose()
