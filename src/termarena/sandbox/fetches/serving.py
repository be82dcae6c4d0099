"""The proxy that a recorded sandbox talks to: it reads every request, also those inside TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import h11

from termarena.sandbox.fetches.exchange import Answer, Asked
from termarena.sandbox.fetches.neighbours import ask_plainly
from termarena.sandbox.proxy import HEAD_LIMIT, RefusedError, accepting, split_address

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from termarena.sandbox.fetches.authority import Authority
    from termarena.sandbox.fetches.exchange import Source
    from termarena.sandbox.proxy import Inside

__all__ = ["FetchProxy"]

CHUNK: Final = 64 << 10
BODY_LIMIT: Final = 64 << 20
"""Of what a client sends: the wants and haves of a clone are far below it."""
BARE: Final = (204, 304)
"""An answer of these has no body."""
HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443


class FetchProxy:
    """Answers the requests of one sandbox out of a source."""

    def __init__(self, source: Source, authority: Authority, *, inside: Inside | None = None) -> None:
        """Serves nothing yet. `inside` connects to what is the sandbox's own, and has None for any other host."""
        self._inside = inside
        self._source = source
        self._authority = authority

    @asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[None]:
        """Accept on the listener, which is closed in the end, with every connection."""
        async with accepting(listener, self._serve_one):
            yield

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(_Client(reader, writer))
        except (OSError, h11.ProtocolError, asyncio.IncompleteReadError, ValueError):
            # The client broke off, or spoke something else: the connection closes, as it would directly.
            pass
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _converse(self, client: _Client) -> None:
        while (request := await client.next_request()) is not None:
            if request.method == b"CONNECT" and not client.origin:
                await self._open_tunnel(client, request.target.decode("ascii"))
                continue
            asked = Asked(
                request.method.decode("ascii"),
                client.origin + request.target.decode("ascii"),
                {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers},
                await client.body(),
            )
            answer = await self._own(asked) or await self._source.answer(asked)
            await client.send(answer, has_body=asked.method != "HEAD")
            if not client.goes_on():
                return

    async def _own(self, asked: Asked) -> Answer | None:
        """What a server of the sandbox itself answers, to a client that asks the proxy for it; None for all others."""
        scheme, _, rest = asked.url.partition("://")
        if self._inside is None or scheme != "http":
            return None
        host, port = split_address(rest.partition("/")[0], HTTP_PORT)
        try:
            sock = await self._inside(host, port)
        except RefusedError as error:
            return Answer(error.status)
        return None if sock is None else await ask_plainly(sock, asked, path="/" + rest.partition("/")[2])

    async def _open_tunnel(self, client: _Client, target: str) -> None:
        host, port = split_address(target, HTTPS_PORT)
        origin = f"https://{target if port != HTTPS_PORT else target.removesuffix(f':{port}')}"
        context = await asyncio.to_thread(self._authority.context_for, host)
        try:
            await client.start_tls(context, origin)
        except ssl.SSLError as error:
            problem = f"no TLS, or a client that does not trust the recording: {error.reason or error}"
            self._source.told(Asked("CONNECT", f"{origin}/", {}), problem)
            raise


class _Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self.origin = ""
        """Of the host that the client believes to talk to through a tunnel."""

    async def _next(self) -> object:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            self._wire.receive_data(await self._reader.read(CHUNK))
        return event

    async def next_request(self) -> h11.Request | None:
        """None once the client has closed."""
        event = await self._next()
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> bytes:
        """What the client sends with it. Raises `ValueError` beyond the limit."""
        if self._wire.they_are_waiting_for_100_continue:
            self._writer.write(self._wire.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        found = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            found += event.data
            if len(found) > BODY_LIMIT:
                raise ValueError(f"more than {BODY_LIMIT} bytes were sent")
        return bytes(found)

    async def start_tls(self, context: ssl.SSLContext, origin: str) -> None:
        """Become the server that the client asked a tunnel to."""
        self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._writer.drain()
        await self._writer.start_tls(context)
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self.origin = origin

    async def send(self, answer: Answer, *, has_body: bool) -> None:
        """Answer; the body is read to its end even if the client has gone, so that a recording has it whole.

        Where none is sent, the client is done with the last header, and may be gone with its sandbox: it is read first.
        """
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in answer.headers.items()]
        if answer.length is not None:
            headers.append((b"content-length", str(answer.length).encode()))
        if not has_body or answer.length == 0 or answer.status in BARE:
            async for _ in answer.body:
                pass
        try:
            await self._put(h11.Response(status_code=answer.status, headers=headers))
            async for chunk in answer.body:
                if has_body:
                    await self._put(h11.Data(data=chunk))
            await self._put(h11.EndOfMessage())
        except OSError:
            async for _ in answer.body:
                pass
            raise

    async def _put(self, event: h11.Event) -> None:
        self._writer.write(self._wire.send(event) or b"")
        await self._writer.drain()

    def goes_on(self) -> bool:
        """Whether the client may ask again on this connection."""
        if self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
            return False
        self._wire.start_next_cycle()
        return True
