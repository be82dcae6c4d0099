"""What stands before every request: names, origins, sizes and rates are checked; every answer says what a browser may
do with it."""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from termarena.core.errors import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from termarena.arena.config import ArenaConfig, Rate

__all__ = ["CSP", "Buckets", "Guard"]

# The player is WebAssembly and is compiled in the page; nothing is taken from another host, nothing inline is run.
CSP: Final = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_ADDRESSES: Final = 10_000
LARGEST_WORDS_BYTES: Final = 16 << 20
"""Of a body that is read at once, a form or JSON, before anyone asks who sends it."""
STREAMED: Final = re.compile(r"/api/(bundles|proofs|runs/[^/]+/archive)")
"""Where a body is taken piece by piece, from whoever has a key."""
SESSIONS: Final = "/mcp"
"""Where agents work, each in a session of its own: a turn counts as a read does."""


class Buckets:
    """One bucket of tokens per address; the addresses that were not heard of for longest are forgotten."""

    def __init__(self, rate: Rate) -> None:
        """All are full."""
        self._rate = rate
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, *, at: float | None = None) -> float:
        """Take a token: 0, or the seconds until there is one."""
        moment = time.monotonic() if at is None else at
        tokens, since = self._held.pop(address, (float(self._rate.burst), moment))
        tokens = min(float(self._rate.burst), tokens + (moment - since) * self._rate.per_s)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._rate.per_s
        self._held[address] = (tokens - 1 if tokens >= 1 else tokens, moment)
        if len(self._held) > MOST_ADDRESSES:
            self._held.popitem(last=False)
        return wait_s


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, config: ArenaConfig) -> None:
        """`app` is asked only for what is let through."""
        self._app = app
        self._names = {*LOOPBACK, config.host, *config.host_names}
        self._reads, self._writes = Buckets(config.reads), Buckets(config.writes)
        self._limit_bytes = config.upload_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or refuse in a sentence."""
        if scope["type"] == "websocket":
            # A page of another site may open one, and its answers are the page's to read: it is refused as a write is.
            refused = self._refusal(scope, is_write=False, is_own_only=True)
            await (send({"type": "websocket.close", "code": 1008}) if refused else self._app(scope, receive, send))
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        is_write = scope["method"] not in SAFE_METHODS
        refusal = self._refusal(scope, is_write=is_write, is_own_only=is_write)
        if refusal is not None:
            await _refuse(send_guarded, *refusal)
            return
        await self._app(scope, _Capped(receive, self._limit_of(scope)), send_guarded)

    def _limit_of(self, scope: Scope) -> int:
        is_streamed = STREAMED.fullmatch(scope.get("path", "")) is not None
        return self._limit_bytes if is_streamed else min(self._limit_bytes, LARGEST_WORDS_BYTES)

    def _refusal(self, scope: Scope, *, is_write: bool, is_own_only: bool) -> tuple[int, str, dict[str, str]] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if "*" not in self._names and _name(host) not in self._names:
            return 421, "this server is not asked for by this name", {}
        origin = headers.get("origin")
        if is_own_only and origin is not None and urlsplit(origin).netloc != host:
            return 403, "a page of another site may not write here", {}
        length = headers.get("content-length", "0")
        limit_bytes = self._limit_of(scope)
        if not length.isdecimal() or int(length) > limit_bytes:
            return 413, f"at most {limit_bytes:,} bytes are taken", {}
        client = scope.get("client")
        is_said = is_write and not scope.get("path", "").startswith(SESSIONS)
        wait_s = (self._writes if is_said else self._reads).take(client[0] if client else "")
        if wait_s:
            return 429, "too many requests", {"Retry-After": str(int(wait_s) + 1)}
        return None


class _Capped:
    """What a client sends, up to a limit: one that does not tell its length is cut off."""

    def __init__(self, receive: Receive, limit_bytes: int) -> None:
        self._receive = receive
        self._left_bytes = limit_bytes

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left_bytes -= len(message.get("body", b""))
        if self._left_bytes < 0:
            raise Refused("this is more than is taken at once", status=413)
        return message


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _refuse(send: Send, status: int, message: str, headers: dict[str, str]) -> None:
    body = json.dumps({"error": {"kind": "Refused", "message": message, "hint": None}}).encode()
    told = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
