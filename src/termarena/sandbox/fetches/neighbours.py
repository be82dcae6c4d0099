"""Servers of the sandbox itself, asked by clients that send everything to the proxy: passed on, and not recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import h11

from termarena.sandbox.fetches.exchange import Answer
from termarena.sandbox.proxy import HEAD_LIMIT

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from termarena.sandbox.fetches.exchange import Asked

__all__ = ["ask_plainly"]

CHUNK: Final = 64 << 10
BAD_GATEWAY: Final = 502
OF_THE_CONNECTION: Final = frozenset({"connection", "proxy-connection", "keep-alive", "transfer-encoding", "te"})
NOT_SENT: Final = OF_THE_CONNECTION - {"connection"}


async def ask_plainly(sock: socket.socket, asked: Asked, *, path: str) -> Answer:
    """What the server at the other end of the socket answers; 502 where it does not. The socket is closed."""
    reader, writer = await asyncio.open_connection(sock=sock)
    wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    told = {**asked.headers, "connection": "close"}
    if asked.body:
        # Also where it came in pieces: it goes on as a whole.
        told["content-length"] = str(len(asked.body))
    kept = [(name.encode("ascii"), value.encode("latin-1")) for name, value in told.items() if name not in NOT_SENT]
    try:
        request = h11.Request(method=asked.method, target=path, headers=kept)
        for event in (request, h11.Data(data=asked.body), h11.EndOfMessage()):
            writer.write(wire.send(event) or b"")
        await writer.drain()
        head = await _next(wire, reader)
    except (OSError, h11.ProtocolError):
        head = None
    if not isinstance(head, h11.Response):
        writer.close()
        return Answer(BAD_GATEWAY)
    answered = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
    length = answered.pop("content-length", None)
    headers = {name: value for name, value in answered.items() if name not in OF_THE_CONNECTION}
    return Answer(head.status_code, headers, int(length) if length else None, _body(wire, reader, writer))


async def _next(wire: h11.Connection, reader: asyncio.StreamReader) -> object:
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(CHUNK))
        elif not isinstance(event, h11.InformationalResponse):
            return event


async def _body(
    wire: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncIterator[bytes]:
    try:
        while isinstance(event := await _next(wire, reader), h11.Data):
            yield bytes(event.data)
    except h11.ProtocolError as error:
        raise ConnectionError("the server broke off") from error
    finally:
        writer.close()
