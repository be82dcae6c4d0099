"""A model server on loopback that does as it is told, also the wrong thing: real HTTP, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from termarena.core.records import Json


@dataclass
class Turn:
    """One answer."""

    body: Any = None
    """Sent as JSON; bytes as they are."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stalls: bool = False
    """Half of the body comes, and no end."""
    hangs_up: bool = False
    """Half of the body comes, and the end of the connection."""

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def said(
    content: str | None = "", *, calls: Iterable[tuple[str, Any]] = (), finish: str | None = None, **message: Json
) -> Turn:
    """A well-formed answer of the OpenAI interface, with usage."""
    made = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for place, (name, given) in enumerate(calls, 1)
    ]
    reply: dict[str, Any] = {"role": "assistant", "content": content, **message}
    if made:
        reply["tool_calls"] = made
    return Turn(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "toy-1",
            "choices": [{"index": 0, "message": reply, "finish_reason": finish or ("tool_calls" if made else "stop")}],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "total_tokens": 110,
                "prompt_tokens_details": {"cached_tokens": 40},
            },
        }
    )


def declined(status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None) -> Turn:
    """An error as the OpenAI interface tells it."""
    return Turn({"error": {"message": message, "code": code}}, status=status, headers=headers or {})


class ModelServer:
    """Answers the turns in order, the last one again and again; `requests` holds what it was asked."""

    def __init__(self, *turns: Turn, models: tuple[str, ...] = ("toy",), key: str | None = None) -> None:
        self.turns = list(turns)
        self.models = models
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.open_requests = 0
        self.most_at_once = 0
        self.on_request: Callable[[int], Turn] | None = None
        """Gives the answer to the nth request instead of the turns."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self._over: asyncio.Event | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_over())

    async def _until_over(self) -> None:
        self._over = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._over.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = {name.lower(): value for name, _, value in (row.partition(": ") for row in head.split("\r\n")[1:])}
        content = await reader.readexactly(int(fields.get("content-length", 0)))
        turn = self._answer(head, fields, content)
        self.open_requests += 1
        self.most_at_once = max(self.most_at_once, self.open_requests)
        await asyncio.sleep(0)
        try:
            return await self._send(turn, writer)
        finally:
            self.open_requests -= 1

    def _answer(self, head: str, fields: Mapping[str, str], content: bytes) -> Turn:
        if self.key is not None and fields.get("authorization") != f"Bearer {self.key}":
            return declined(401, "Incorrect API key provided")
        if head.startswith("GET /v1/models"):
            return Turn(
                {
                    "data": [{"id": name} for name in self.models],
                    "models": [{"name": f"models/{name}"} for name in self.models],
                }
            )
        self.requests.append(json.loads(content))
        self.heads.append(head)
        number = len(self.requests)
        if self.on_request is not None:
            return self.on_request(number)
        return self.turns[min(number, len(self.turns)) - 1]

    async def _send(self, turn: Turn, writer: asyncio.StreamWriter) -> bool:
        content = turn.content
        rows = {"Content-Type": "application/json", "Content-Length": str(len(content)), **turn.headers}
        head = f"HTTP/1.1 {turn.status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in rows.items())
        is_half = turn.stalls or turn.hangs_up
        writer.write(head.encode() + b"\r\n" + (content[: len(content) // 2] if is_half else content))
        await writer.drain()
        if turn.stalls:
            assert self._over is not None
            await self._over.wait()
        return not turn.hangs_up
