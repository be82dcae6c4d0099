"""The MCP door of battles that this server referees. Sessions live on the hall's event loop, requests come on the web
server's: what is said goes from one to the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import Message, Receive, Scope, Send

    from termarena.arena.hall import Hall

__all__ = ["MCP_PATH", "mcp_route"]

MCP_PATH = "/mcp"
Value = TypeVar("Value")


def mcp_route(hall: Hall) -> Route:
    """Everything under /mcp; 404 while no battle is fought here."""
    return Route(f"{MCP_PATH}{{rest:path}}", _Door(hall), include_in_schema=False)


class _Door:
    """A class, so that Starlette takes it as an application and not as a function of a request."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, answered over there."""
        far = self._hall.mcp
        if far is None:
            problem = {"error": {"kind": "NotFound", "message": "no battle is fought here", "hint": None}}
            await JSONResponse(problem, 404)(scope, receive, send)
            return
        here = asyncio.get_running_loop()

        async def far_receive() -> Message:
            return await _elsewhere(receive(), here)

        async def far_send(message: Message) -> None:
            await _elsewhere(send(message), here)

        plain = {name: value for name, value in scope.items() if name not in ("app", "router", "endpoint", "state")}
        await _elsewhere(far.app(plain, far_receive, far_send), far.loop)


async def _elsewhere(work: Awaitable[Value], loop: asyncio.AbstractEventLoop) -> Value:
    """What comes of it on another loop; cancelled here, it is cancelled there."""

    async def done() -> Value:
        return await work

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(done(), loop))
