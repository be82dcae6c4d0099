"""What goes back to an agent, and how it is sent."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

__all__ = ["Streamed", "Whole", "send_reply"]

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer in one piece."""

    document: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer as it comes."""

    blocks: AsyncGenerator[bytes, None]
    content_type: str = EVENTS


async def send_reply(reply: Whole | Streamed, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """As ASGI wants it."""
    if isinstance(reply, Whole):
        body = json.dumps(reply.document).encode("utf-8", "replace")
        head = {"content-type": JSON, "content-length": str(len(body)), **reply.headers}
        await send(_start(reply.status, head))
        await send({"type": "http.response.body", "body": body})
        return
    await send(_start(200, {"content-type": reply.content_type, "cache-control": "no-cache"}))
    async with aclosing(reply.blocks) as blocks:
        async for block in blocks:
            await send({"type": "http.response.body", "body": block, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _start(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    rows = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": rows}
