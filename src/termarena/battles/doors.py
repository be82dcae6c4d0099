"""The second door to a session: an MCP endpoint on the referee's own port, with a token per session.

Clients of today come to `/mcp` with the token in a header. Older ones, which know SSE and an address and nothing else,
come to `/mcp/sse/TOKEN`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import mcp_types as mcp
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import JSONResponse
from starlette.routing import Route

from termarena import __version__
from termarena.battles.shell_v1 import Malformed, read_request
from termarena.core.errors import TermArenaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from mcp.server import ServerRequestContext
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from termarena.battles.session import Session
    from termarena.core.records import Json

__all__ = ["MCP_PATH", "Doors"]

MCP_PATH: Final = "/mcp"
SSE_PATH: Final = "/mcp/sse"
MOST_STREAMS: Final = 8
"""Of one session over SSE, at once: each holds a connection."""
_SESSION: Final = "termarena.session"
_TEXT: Final[Json] = {"type": "string"}
_SECONDS: Final[Json] = {"type": "number", "description": "seconds"}


def _tool(name: str, description: str, required: tuple[str, ...], **properties: Json) -> mcp.Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return mcp.Tool(name=name, description=description, input_schema=schema)


_KINDS: Final = {
    "execute_command": "exec_request",
    "read_file": "read_file",
    "write_file": "write_file",
    "list_directory": "list_dir",
    "send_keys": "keys",
    "submit_solution": "submit",
}
_TOOLS: Final = [
    _tool(
        "execute_command",
        "Run a command in a shell that stays: folder, variables and background jobs are there for the next one.",
        ("command",),
        command=_TEXT,
        timeout=_SECONDS,
    ),
    _tool("read_file", "A file's content.", ("path",), path=_TEXT),
    _tool(
        "write_file",
        "Replace a file's content, or make the file and the folders above it.",
        ("path", "content"),
        path=_TEXT,
        content=_TEXT,
        encoding={"type": "string", "enum": ["utf-8", "base64"]},
    ),
    _tool("list_directory", "The names in a folder; those of folders end with a slash.", (), path=_TEXT),
    _tool(
        "send_keys",
        "Press keys by name (C-c, Up, Enter), type a text, and see the screen.",
        (),
        keys={"type": "array", "items": {"type": "string"}},
        text=_TEXT,
        wait=_SECONDS,
    ),
    _tool("submit_solution", "Say that the work is done. Nothing can be changed afterwards.", (), output=_TEXT),
]


@dataclass(slots=True)
class _Door:
    """What one token opens."""

    session: Session
    sse: SseServerTransport
    streams: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the streams that are open: their client might never do it."""

    async def received(self, receive: Receive) -> Message:
        """What a stream's client sends next; that it has gone, once the door is closed."""
        heard, closed = asyncio.ensure_future(receive()), asyncio.ensure_future(self.closed.wait())
        try:
            await asyncio.wait({heard, closed}, return_when=asyncio.FIRST_COMPLETED)
            return heard.result() if heard.done() else {"type": "http.disconnect"}
        finally:
            heard.cancel()
            closed.cancel()


class Doors:
    """Which token opens which session. Routes are for one server, which runs inside `life`."""

    def __init__(self) -> None:
        """No session is open yet."""
        self._doors: dict[bytes, _Door] = {}
        self._url = ""
        self._server: Server[Any] = Server(
            "termarena", version=__version__, on_list_tools=_list_tools, on_call_tool=_call_tool
        )
        self._manager = StreamableHTTPSessionManager(self._server, stateless=True)

    def routes(self, url: str) -> list[BaseRoute]:
        """The endpoints; `url` is how the server is reached."""
        self._url = url
        return [
            Route(MCP_PATH, _Endpoint(self.handle)),
            Route(f"{SSE_PATH}/{{token}}", _Endpoint(self.handle_sse)),
            Route(f"{SSE_PATH}/{{token}}/messages", _Endpoint(self.handle_sse)),
        ]

    @contextlib.asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """While the server runs."""
        async with self._manager.run():
            yield

    @contextlib.contextmanager
    def open(self, session: Session) -> Iterator[Mapping[str, Json]]:
        """A door to this session until the block ends; what the agent is told of it: nothing where no server has the
        routes."""
        if not self._url:
            yield {}
            return
        token = f"sk-{secrets.token_urlsafe(32)}"  # by this shape the scrubber knows it in an address
        # A client takes it as a path of the host: behind a server that adds a beginning, it has that too.
        messages = f"{urlsplit(self._url).path}{SSE_PATH}/{token}/messages"
        door = self._doors[_digest(token)] = _Door(session, SseServerTransport(messages))
        offered: dict[str, Json] = {
            "url": f"{self._url}{MCP_PATH}",
            "transport": "streamable-http",
            "headers": {"Authorization": f"Bearer {token}"},
        }
        try:
            yield {"mcp": offered, "mcp_sse": {"url": f"{self._url}{SSE_PATH}/{token}", "transport": "sse"}}
        finally:
            del self._doors[_digest(token)]
            door.closed.set()

    def session_of(self, authorization: str) -> Session | None:
        """The session that a header opens."""
        scheme, _, token = authorization.partition(" ")
        door = self._door_of(token.strip()) if scheme.lower() == "bearer" else None
        return door.session if door is not None else None

    def _door_of(self, token: str) -> _Door | None:
        """Looked up by digest: how long that takes tells nothing of the token."""
        return self._doors.get(_digest(token))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request over streamable HTTP."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        session = self.session_of(headers.get(b"authorization", ""))
        if session is None:
            await _refuse(scope, receive, send)
            return
        scope[_SESSION] = session
        await self._manager.handle_request(scope, receive, send)

    async def handle_sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A stream, or a message that belongs to one of this token's streams."""
        door = self._door_of(scope["path_params"]["token"])
        if door is None:
            await _refuse(scope, receive, send)
            return
        scope[_SESSION] = door.session
        if scope["method"] == "POST":
            await door.sse.handle_post_message(scope, receive, send)
        elif door.streams >= MOST_STREAMS:
            await JSONResponse({"error": "this session has too many streams"}, 429)(scope, receive, send)
        else:
            await self._stream(door, scope, receive, send)

    async def _stream(self, door: _Door, scope: Scope, receive: Receive, send: Send) -> None:
        door.streams += 1
        try:
            async with door.sse.connect_sse(scope, lambda: door.received(receive), send) as (read, write):
                await self._server.run(read, write, self._server.create_initialization_options())
        finally:
            door.streams -= 1
        if door.closed.is_set():  # the client is still there, whatever the transport was told
            await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    problem = {"error": "the token opens no session, or its session has ended"}
    await JSONResponse(problem, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)


class _Endpoint:
    """A class, so that Starlette takes it as an application and not as a function of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


async def _list_tools(context: ServerRequestContext[Any], params: object) -> mcp.ListToolsResult:  # noqa: ARG001 - MCP's signature
    return mcp.ListToolsResult(tools=_TOOLS)


async def _call_tool(context: ServerRequestContext[Any], params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
    session: Session = context.request.scope[_SESSION]  # type: ignore[union-attr]  # over HTTP there is a request
    request = read_request((), [{**(params.arguments or {}), "kind": _KINDS.get(params.name, params.name)}])
    if isinstance(request, Malformed):
        return _said({"kind": "error", "code": request.code, "message": request.problem}, is_error=True)
    try:
        told = await session.do(request)
    except TermArenaError as error:
        return _said({"kind": "error", "code": "session_ended", "message": error.message}, is_error=True)
    return _said(told, is_error=told.get("kind") == "error")


def _said(told: Mapping[str, Json], *, is_error: bool) -> mcp.CallToolResult:
    text = json.dumps(told, ensure_ascii=False)
    return mcp.CallToolResult(content=[mcp.TextContent(text=text)], structured_content=dict(told), is_error=is_error)
