"""A small HTTP/1.1 client for the Engine API: calls, streamed bodies both ways, and connections that are taken over."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from termarena.core.errors import EngineError
from termarena.sandbox.docker.address import ADVICE
from termarena.sandbox.docker.streams import PATIENCE_S, Stream, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Mapping

    from termarena.sandbox.docker.address import Address

__all__ = ["LONG_S", "Answer", "Body", "Engine", "Request"]

API: Final = "/v1.40"
"""Docker 19.03 and Podman 4 speak it, and every later engine still does."""
LONG_S: Final = 3600.0
"""The patience for what an engine does without a word: a step of a build, an archive of a container's changes."""
IDLE_KEPT: Final = 16
NO_CONTENT: Final = (204, 304)
UPGRADED: Final = 101
REFUSED_FROM: Final = 400


@dataclass(frozen=True, slots=True)
class Request:
    """One question; `json` or `body`, not both."""

    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    json: object = None
    body: bytes | AsyncIterable[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    api: str = API
    patience_s: float | None = PATIENCE_S
    """How long the engine may be silent, or take nothing, before it counts as broken; None: for ever."""

    def head(self) -> bytes:
        """The request line and headers."""
        pairs = {key: _query_value(value) for key, value in self.query.items() if value is not None}
        target = (
            self.api
            + quote(self.path, safe="/:@")
            + ("?" + urlencode(pairs, errors="surrogateescape") if pairs else "")
        )
        lines = [f"{self.method} {target} HTTP/1.1", "Host: docker", *(f"{k}: {v}" for k, v in self.headers.items())]
        if self.json is not None:
            lines.append("Content-Type: application/json")
        elif self.body is not None:
            lines.append("Content-Type: application/x-tar")
        content = self.content()
        if content is not None:
            lines.append(f"Content-Length: {len(content)}")
        else:
            lines.append("Transfer-Encoding: chunked")
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def content(self) -> bytes | None:
        """The body where it is known as a whole."""
        if self.json is not None:
            return json.dumps(self.json).encode()
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else None


def _query_value(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:  # noqa: ANN401 - foreign JSON, checked by its users
        """The content, parsed."""
        return json.loads(self.content)


class Body:
    """The answer to a request, its content still to be read."""

    def __init__(self, status: int, headers: dict[str, str], stream: Stream, *, has_content: bool, engine: str) -> None:
        """Reads the rest of the answer from the stream; `engine` is the address, for errors."""
        self.status = status
        self._engine = engine
        self.headers = headers
        self.is_finished = not has_content
        self._stream = stream
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        self._left = int(length) if length is not None and not self._is_chunked else None
        if self._left == 0:
            self.is_finished = True
        self._chunk_left = 0

    @property
    def can_be_reused(self) -> bool:
        """Whether the connection may carry another request."""
        has_end = self._is_chunked or self._left is not None or self.is_finished
        return self.is_finished and has_end and self.headers.get("connection", "").lower() != "close"

    async def read(self) -> bytes:
        """Some of the content; none at the end. Raises `EngineError` where it breaks off."""
        if self.is_finished:
            return b""
        try:
            return await (self._read_chunk() if self._is_chunked else self._read_plain())
        except (OSError, ValueError) as error:
            raise _broken(self._engine, error) from error

    async def _read_plain(self) -> bytes:
        content = await self._stream.up_to(self._left if self._left is not None else 1 << 30)
        if self._left is None:
            self.is_finished = not content
            return content
        self._left -= len(content)
        if not content:
            raise ConnectionError("the answer broke off")
        self.is_finished = self._left == 0
        return content

    async def _read_chunk(self) -> bytes:
        if self._chunk_left == 0:
            line = await self._stream.until(b"\r\n")
            if not line:
                raise ConnectionError("the answer broke off")
            self._chunk_left = int(line.split(b";")[0], 16)
            if self._chunk_left == 0:
                await self._stream.until(b"\r\n")
                self.is_finished = True
                return b""
        content = await self._stream.up_to(self._chunk_left)
        if not content:
            raise ConnectionError("the answer broke off")
        self._chunk_left -= len(content)
        if self._chunk_left == 0:
            await self._stream.until(b"\r\n")
        return content

    async def all(self) -> bytes:
        """The rest of the content."""
        parts = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        """The content as JSON values, one per line, as they come."""
        rest = b""
        while part := await self.read():
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                if line.strip():
                    yield json.loads(line)
        if rest.strip():
            yield json.loads(rest)


class Engine:
    """An engine as one event loop uses it; connections are kept for the next call."""

    def __init__(self, address: Address) -> None:
        """Connects at the first call."""
        self.address = address
        self._idle: list[Stream] = []
        self._is_closed = False

    async def close(self) -> None:
        """Close the connections that wait for a next call."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for stream in idle:
            await stream.close()

    async def call(self, method: str, path: str, **rest: Any) -> Answer:  # noqa: ANN401 - the fields of Request
        """Ask and take the whole answer. Raises `EngineError`, with the status where the engine refused."""
        async with self.open(Request(method, path, **rest)) as body:
            return Answer(body.status, body.headers, await body.all())

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Body]:
        """Ask, and read the answer bit by bit. Raises `EngineError`."""
        stream, body = await self._ask(request)
        try:
            yield body
        finally:
            if body.can_be_reused and not self._is_closed and len(self._idle) < IDLE_KEPT:
                self._idle.append(stream)
            else:
                await asyncio.shield(stream.close())

    async def take_over(self, request: Request) -> Stream:
        """Ask for a connection of one's own, as attach and exec have it; raises `EngineError`."""
        stream, body = await self._ask(request)
        if body.status == UPGRADED or "raw-stream" in body.headers.get("content-type", ""):
            # A command may be silent for as long as it runs.
            stream.patience_s = None
            return stream
        await stream.close()
        raise EngineError(str(self.address), f"no stream came of {request.path}", status=body.status)

    async def _ask(self, request: Request) -> tuple[Stream, Body]:
        stream = self._idle.pop() if self._idle else await connect(self.address)
        try:
            body = await self._exchange(stream, request)
            if body is None and stream.was_used and not _is_used_up(request):
                # The engine closed a connection that was kept: nothing of the request was answered.
                await stream.close()
                stream = await connect(self.address)
                body = await self._exchange(stream, request)
            return stream, await self._checked(stream, body)
        except BaseException as error:
            await asyncio.shield(stream.close())
            if isinstance(error, _SourceError):
                raise error.problem from None
            if isinstance(error, OSError | ValueError) and not isinstance(error, EngineError):
                raise _broken(str(self.address), error) from error
            raise

    async def _checked(self, stream: Stream, body: Body | None) -> Body:
        if body is None:
            raise ConnectionError(stream.complaint() or "the connection was closed without an answer")
        stream.was_used = True
        if body.status >= REFUSED_FROM:
            raise EngineError(str(self.address), _problem(await body.all()), status=body.status)
        return body

    async def _exchange(self, stream: Stream, request: Request) -> Body | None:
        """Send and read the head of the answer; None when the connection was closed instead. Raises `TimeoutError`."""
        stream.patience_s = PATIENCE_S if request.patience_s is None else request.patience_s
        # An engine that refuses early closes its ear, but says why.
        with contextlib.suppress(ConnectionError):
            await _send(stream, request)
        head = b"HTTP/1.1 100"
        while head.startswith(b"HTTP/1.1 100"):
            try:
                head = await stream.until(b"\r\n\r\n")
            except ConnectionError:
                return None
        stream.patience_s = request.patience_s
        if not head:
            return None
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
        status = int(status_line.split(" ", 2)[1])
        has_content = request.method != "HEAD" and status not in NO_CONTENT
        return Body(status, headers, stream, has_content=has_content, engine=str(self.address))


def _is_used_up(request: Request) -> bool:
    return request.body is not None and not isinstance(request.body, bytes)


async def _send(stream: Stream, request: Request) -> None:
    content = request.content()
    if content is not None:
        await stream.send(request.head() + content)
        return
    await stream.send(request.head())
    if request.body is not None and not isinstance(request.body, bytes):
        async with contextlib.aclosing(_source(request.body)) as parts:
            async for part in parts:
                if part:
                    await stream.send(b"%x\r\n%b\r\n" % (len(part), part))
    await stream.send(b"0\r\n\r\n")


class _SourceError(Exception):
    """What a request's content comes from failed, not the connection: the engine would wait for the rest for ever."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(str(problem))
        self.problem = problem


async def _source(parts: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        async for part in parts:
            yield part
    except OSError as error:
        raise _SourceError(error) from error
    finally:
        # A thread may stand behind it that waits until someone takes what it writes.
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()


def _broken(engine: str, error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    return EngineError(engine, str(error) or type(error).__name__, hint=ADVICE)


def _problem(content: bytes) -> str:
    try:
        message = json.loads(content)["message"]
    except (ValueError, KeyError, TypeError):
        message = content.decode(errors="replace")
    return " ".join(str(message).split()) or "refused without a word"
