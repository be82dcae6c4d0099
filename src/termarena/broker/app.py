"""The broker's HTTP application: which paths there are, whose token it is, what may be asked."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs

from termarena.broker.asking import asked_of_model
from termarena.broker.contract import Asked, Exchanged, Refusal
from termarena.broker.dialects.chat import ChatDialect
from termarena.broker.dialects.gemini import GeminiDialect
from termarena.broker.dialects.messages import MessagesDialect
from termarena.broker.dialects.responses import ResponsesDialect
from termarena.broker.relaying import relayed
from termarena.broker.replies import Streamed, Whole, send_reply
from termarena.broker.screening import at_usual_price, handed_on, refuse_depth
from termarena.models.http import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from termarena.broker.contract import Dialect
    from termarena.broker.seats import Seat, Seats

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

__all__ = ["BrokerApp", "dialect_at"]

LARGEST_BODY_BYTES: Final = 32 << 20
LONGEST_BODY_S: Final = 60.0
SHOWN_BYTES: Final = 64 << 10
"""Of a request that was refused, in the record."""
_CHAT: Final = ChatDialect()
_PATHS: Final[tuple[tuple[str, re.Pattern[str], Dialect, str], ...]] = (
    ("POST", re.compile(r"(?:/v1)?/chat/completions"), _CHAT, "answer"),
    ("POST", re.compile(r"(?:/v1)?/responses"), ResponsesDialect(), "answer"),
    ("POST", re.compile(r"(?:/v1)?/responses/input_tokens"), ResponsesDialect(), "count"),
    ("POST", re.compile(r"(?:/v1)?/messages"), MessagesDialect(), "answer"),
    ("POST", re.compile(r"(?:/v1)?/messages/count_tokens"), MessagesDialect(), "count"),
    ("POST", re.compile(r"/v1(?:beta|alpha)?/models/[^/:]+:generateContent"), GeminiDialect(), "answer"),
    ("POST", re.compile(r"/v1(?:beta|alpha)?/models/[^/:]+:streamGenerateContent"), GeminiDialect(), "stream"),
    ("POST", re.compile(r"/v1(?:beta|alpha)?/models/[^/:]+:countTokens"), GeminiDialect(), "count"),
    ("GET", re.compile(r"/v1(?:beta|alpha)/models"), GeminiDialect(), "list"),
    ("GET", re.compile(r"/v1(?:beta|alpha)/models/[^/:]+"), GeminiDialect(), "show"),
    ("GET", re.compile(r"(?:/v1)?/models"), _CHAT, "list"),
    ("GET", re.compile(r"(?:/v1)?/models/[^:]+"), _CHAT, "show"),
)


class _Call(NamedTuple):
    """A request that was let in."""

    seat: Seat
    dialect: Dialect
    action: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


class BrokerApp:
    """An ASGI application. Whatever is wrong with a request is told to the agent in the words of its interface."""

    def __init__(self, seats: Seats) -> None:
        """`seats` are those whose tokens are taken."""
        self._seats = seats
        self.strangers = 0
        """Requests without a token of ours."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        path = str(scope["path"])
        dialect = dialect_at(path) or _CHAT
        try:
            call = self._let_in(scope)
            with _place_at(call.seat):  # before its body comes: bodies are held in memory
                body = await _read_body(receive)
                async with _while_connected(receive):
                    await send_reply(await self._reply(call, body), send)
        except Refusal as refusal:
            await send_reply(Whole(dialect.problem(refusal), refusal.status), send)

    def _let_in(self, scope: dict[str, Any]) -> _Call:
        """Raises `Refusal` for a stranger, and for a path that is not on the list."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qs(scope["query_string"].decode("latin-1"))
        seat = self._seats.find(_token(headers, query))
        if seat is None:
            self.strangers += 1
            raise Refusal(401, "this is no token of a running trial", kind="authentication_error")
        method, path = scope["method"], str(scope["path"])
        for known, form, dialect, action in _PATHS:
            if known == method and form.fullmatch(path):
                return _Call(seat, dialect, action, path, query, headers)
        refusal = Refusal(404, f"{method} {path} is not served here", kind="not_found_error")
        seat.keep(Exchanged(path, None, refusal.status, None, 0.0, problem=refusal.message))
        raise refusal

    async def _reply(self, call: _Call, body: bytes) -> Whole | Streamed:
        if call.seat.is_closed:
            raise Refusal(401, "the trial is over", kind="authentication_error")
        if call.action in ("list", "show"):
            one = _shown(call)
            return Whole(one if call.action == "show" else _listed(call, one))
        asked = _asked(call, body)
        if call.action == "count":
            tokens = estimate_tokens(asked.dialect.read(asked.body))
            return Whole({"object": "response.input_tokens", "input_tokens": tokens, "totalTokens": tokens})
        line = call.seat.line
        if line is not None and asked.dialect.name in call.seat.natives:
            return await relayed(call.seat, line, asked)
        return await asked_of_model(call.seat, asked)


def dialect_at(path: str) -> Dialect | None:
    """The interface that a path belongs to; None for a path that is not served."""
    return next((known for _, form, known, _ in _PATHS if form.fullmatch(path)), None)


def _token(headers: Mapping[str, str], query: Mapping[str, list[str]]) -> str:
    """Where each interface has its key."""
    bearer = headers.get("authorization", "")
    if bearer.lower().startswith("bearer "):
        return bearer[7:].strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or "".join(query.get("key", ())[:1])


def _asked(call: _Call, content: bytes) -> Asked:
    """Raises `Refusal`, which is recorded, for a body that is none or asks for what is not allowed."""
    try:
        clean, stripped = call.dialect.screen(_object(content))
    except Refusal as refusal:
        shown = content[:SHOWN_BYTES].decode("utf-8", "replace")
        call.seat.keep(Exchanged(call.path, shown, refusal.status, None, 0.0, problem=refusal.message))
        raise
    clean, dear = at_usual_price(clean)
    if call.seat.longest_reply is not None and call.action != "count":
        clean = call.dialect.shortened(clean, call.seat.longest_reply)
    headers, betas = handed_on(call.headers)
    is_event_stream = call.dialect.name != "gemini" or call.query.get("alt") == ["sse"]
    wants_stream = call.action == "stream" or (call.dialect.name != "gemini" and bool(clean.get("stream")))
    taken_out = (*stripped, *dear, *betas)
    return Asked(call.dialect, call.path, clean, wants_stream, is_event_stream, taken_out, len(content), headers)


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "the body is no JSON") from error
    if not isinstance(body, dict):
        raise Refusal(400, "the body is no JSON object")
    refuse_depth(body)
    return body


def _no_number(name: str) -> None:
    """Python reads NaN and Infinity, which are no JSON: the record could not hold them."""
    raise ValueError(f"{name} is no number")


def _is_googles(call: _Call) -> bool:
    """Google's own client lists models at OpenAI's path, and is known by its header."""
    return call.dialect.name == "gemini" or "x-goog-api-key" in call.headers


def _shown(call: _Call) -> dict[str, Any]:
    """The run's model, by whatever name it was asked for."""
    name = call.seat.model.name
    if _is_googles(call):
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": ["generateContent"]}
    if "anthropic-version" in call.headers:
        return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": "termarena"}


def _listed(call: _Call, one: dict[str, Any]) -> dict[str, Any]:
    """The only one that there is."""
    if _is_googles(call):
        return {"models": [one]}
    if "anthropic-version" in call.headers:
        return {"data": [one], "has_more": False, "first_id": one["id"], "last_id": one["id"]}
    return {"object": "list", "data": [one]}


async def _read_body(receive: Receive) -> bytes:
    """Raises `Refusal` for one that is too large or does not come."""
    content = bytearray()
    try:
        async with asyncio.timeout(LONGEST_BODY_S):
            while True:
                message = await receive()
                content += message.get("body", b"")
                if len(content) > LARGEST_BODY_BYTES:
                    raise Refusal(413, f"the request is larger than {LARGEST_BODY_BYTES} bytes")
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return bytes(content)
    except TimeoutError as error:
        raise Refusal(408, "the request did not come to its end") from error


@asynccontextmanager
async def _while_connected(receive: Receive) -> AsyncIterator[None]:
    """Give the work up when the agent has hung up: nobody would read the rest of a stream that is paid for."""
    working = asyncio.current_task()
    has_left = False

    async def watch() -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            pass
        has_left = True
        if working is not None:
            working.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not has_left or working is None or working.uncancel() > 0:
            raise
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


class _place_at:  # noqa: N801 - a word of a `with`
    """One of the places that a trial has for requests side by side. Entering raises `Refusal` when all are taken."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    def __enter__(self) -> None:
        if self._seat.under_way >= self._seat.at_once:
            raise Refusal(429, f"more than {self._seat.at_once} requests at once", kind="rate_limit_error")
        self._seat.under_way += 1

    def __exit__(self, *_: object) -> None:
        self._seat.under_way -= 1
