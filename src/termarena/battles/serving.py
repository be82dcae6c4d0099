"""An A2A server of ours: card, JSON-RPC for both protocol versions, and who may speak to it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from termarena.battles.cards import make_card
from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.context import ServerCallContext
    from a2a.types import Task
    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from termarena.battles.cards import CardText

__all__ = ["Place", "Served", "serve"]

MOST_TASKS: Final = 2000
"""A2A tasks that are remembered; the oldest go first."""
LARGEST_BODY_BYTES: Final = 16 << 20
OPEN_PATHS: Final = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json", "/healthz"})
BACKLOG: Final = 256


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens and who may speak to it."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    card_url: str | None = None
    """How others reach it, if not by host and port."""
    key: str | None = field(default=None, repr=False)
    """What callers send as `Authorization: Bearer`; beyond loopback there must be one."""
    hosts: tuple[str, ...] = ()
    """Further names that requests may be addressed to."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Raises `UsageError` for a server that anybody could use."""
        if not self.is_loopback and not self.key:
            hint = (
                "give a key (--key-file; green: TERMARENA_GREEN_KEY, white: TERMARENA_WHITE_KEY), and put TLS in front"
            )
            raise UsageError(f"{self.host} can be reached by others: a key is needed", hint=hint)


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    """How it is reached, without a slash at the end."""
    port: int


class _BoundedTasks(InMemoryTaskStore):
    """Forgets the oldest tasks: a referee lives longer than its battles."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[str, ServerCallContext] = {}

    async def save(self, task: Task, context: ServerCallContext) -> None:
        self._order.setdefault(task.id, context)
        await super().save(task, context)
        while len(self._order) > MOST_TASKS:
            oldest = next(iter(self._order))
            await super().delete(oldest, self._order.pop(oldest))


@contextlib.asynccontextmanager
async def serve(
    executor: AgentExecutor,
    text: CardText,
    place: Place,
    *,
    extra: Callable[[str], Sequence[BaseRoute]] = lambda _url: (),
    life: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
) -> AsyncIterator[Served]:
    """Serve until the block ends; listening when it begins. `extra` routes are made once the address is known.

    Raises `UsageError` where it cannot listen, or should not.
    """
    place.check()
    listener = _listen(place)
    port = listener.getsockname()[1]
    host = f"[{place.host}]" if ":" in place.host else place.host
    url = (place.card_url or f"http://{host}:{port}").rstrip("/")
    card = make_card(text, url, needs_key=place.key is not None)
    handler = DefaultRequestHandler(agent_executor=executor, task_store=_BoundedTasks(), agent_card=card)
    routes: list[BaseRoute] = [
        Route("/healthz", _healthy),
        *create_agent_card_routes(card),
        *create_agent_card_routes(card, card_url="/.well-known/agent.json"),
        *extra(url),
        *create_jsonrpc_routes(handler, rpc_url="/", enable_v0_3_compat=True),
    ]
    app = _Gate(Starlette(routes=routes), place, port, url)
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", access_log=False, timeout_graceful_shutdown=2, ws="none"
    )
    server = _Server(config)
    _silence()
    async with life():
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield Served(url, port)
        finally:
            server.should_exit = True
            server.force_exit = True
            await asyncio.shield(running)
            await handler.aclose()
            listener.close()


class _Server(uvicorn.Server):
    """Leaves signals to whoever started it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of them."""
        yield


def _silence() -> None:
    """What a broken peer makes the SDK log is in the battle's record."""
    for name in ("a2a", "mcp", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _listen(place: Place) -> socket.socket:
    try:
        family = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(family[4][:2], family=family[0], backlog=BACKLOG)
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(
            f"cannot listen at {place.host}:{place.port}: {problem}", hint="give another --port"
        ) from error
    # What it accepts inherits this. asyncio sets it itself, though not for a socket of an unnamed protocol, as this is:
    # an answer in two pieces would wait 40 ms for the acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.settimeout(0)
    return listener


async def _healthy(request: Request) -> JSONResponse:  # noqa: ARG001 - Starlette's signature
    return JSONResponse({"status": "ok"})


class _Gate:
    """Every request passes here: addressed to us, from no foreign page, not endless, and with the key."""

    def __init__(self, app: ASGIApp, place: Place, port: int, url: str) -> None:
        self._app = app
        self._key = place.key
        named = {place.host, url.partition("://")[2].partition("/")[0].rpartition(":")[0], *place.hosts}
        loopback = {"127.0.0.1", "localhost", "[::1]", "::1"} if place.is_loopback else set()
        bare = url.partition("://")[2].partition("/")[0]
        self._hosts = {host.lower() for host in {*named, *loopback, bare} if host}
        self._port = port
        self._takes_any_host = place.host in ("0.0.0.0", "::") and not place.card_url  # noqa: S104 - compared, not bound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or hand on."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            status, words = refusal
            await _refuse(send, status, words)
            return
        await self._app(scope, _Bounded(receive).receive, send)

    def _refusal(self, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        if not self._is_ours(headers.get("host", "")):
            return 421, "this server is not called so"
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(origin.partition("://")[2]):
            return 403, "pages of other origins may not speak to this server"
        size = headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > LARGEST_BODY_BYTES:
            return 413, f"a request has at most {LARGEST_BODY_BYTES} bytes"
        # Sessions over MCP have tokens of their own.
        if self._key is None or path in OPEN_PATHS or path == "/mcp" or path.startswith("/mcp/"):
            return None
        given = headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._key}".encode()):
            return 401, "send the key as Authorization: Bearer"
        return None

    def _is_ours(self, named: str) -> bool:
        named = named.lower()
        host, _, port = named.rpartition(":") if named.rpartition(":")[2].isdecimal() else (named, "", "")
        return self._takes_any_host or named in self._hosts or (host in self._hosts and port in ("", str(self._port)))


async def _refuse(send: Send, status: int, words: str) -> None:
    body = json.dumps({"error": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:  # noqa: PLR2004 - HTTP's
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Bounded:
    """A body without a length has the same limit."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._seen = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._seen > LARGEST_BODY_BYTES else message
