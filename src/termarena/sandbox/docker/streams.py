"""Byte streams to an engine whose sending half can be closed alone, which asyncio's own TLS transport cannot do."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Final, TypeVar

from termarena.core.errors import EngineError
from termarena.sandbox.docker.address import ADVICE, dial, tls_context

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from termarena.sandbox.docker.address import Address, Dialled

__all__ = ["PATIENCE_S", "Stream", "connect"]

CHUNK: Final = 1 << 18
PATIENCE_S: Final = 120.0
"""How long an engine may be silent, or take nothing, where nothing else is said."""


T = TypeVar("T")


class Stream:
    """One connection: bytes in order, both ways, with a buffer for parsers."""

    def __init__(self, dialled: Dialled, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes over the connection; made by `connect`."""
        self._dialled = dialled
        self._reader = reader
        self._writer = writer
        self._buffer = b""
        self._is_open = True
        self.was_used = False
        self.patience_s: float | None = PATIENCE_S
        """How long one wait may last before it fails with `TimeoutError`, an `OSError`; None: for ever."""

    async def receive(self) -> bytes:
        """Some bytes; none at the end. Raises `OSError`."""
        if self._buffer:
            taken, self._buffer = self._buffer, b""
            return taken
        return await self._receive()

    async def _receive(self) -> bytes:
        return await self._in_time(self._reader.read(CHUNK))

    async def _in_time(self, awaited: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self.patience_s):
                return await awaited
        except TimeoutError as error:
            raise TimeoutError(f"nothing moved for {self.patience_s:g} s") from error

    async def send(self, content: bytes | memoryview) -> None:
        """Write and wait until there is room again. Raises `OSError`."""
        self._writer.write(content)
        await self._in_time(self._writer.drain())

    async def finish_sending(self) -> None:
        """Tell the other side that nothing more will come."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def until(self, mark: bytes, *, limit: int = 1 << 20) -> bytes:
        """Everything up to and with the mark; empty when the stream ended first. Raises `ValueError` beyond `limit`."""
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > limit:
                raise ValueError("a line without end")
            more = await self._receive()
            if not more:
                return b""
            self._buffer += more
        found, self._buffer = self._buffer[: at + len(mark)], self._buffer[at + len(mark) :]
        return found

    async def up_to(self, size: int) -> bytes:
        """At least one and at most `size` bytes; none at the end."""
        content = await self.receive()
        if len(content) > size:
            content, self._buffer = content[:size], content[size:]
        return content

    def unread(self, content: bytes) -> None:
        """Put bytes back."""
        self._buffer = content + self._buffer

    def complaint(self) -> str:
        """What the process that carries the stream said, if one does."""
        return self._dialled.said()

    async def close(self) -> None:
        """Close it; safe to call again."""
        if not self._is_open:
            return
        self._is_open = False
        with contextlib.suppress(OSError):
            self._writer.transport.abort()
            await self._writer.wait_closed()
        if self._dialled.process is None:
            self._dialled.close()
        else:
            await asyncio.to_thread(self._dialled.close)


class _TlsStream(Stream):
    """TLS spoken by hand through memory, so that "no more" can be said while answers still come."""

    def begin(self, context: ssl.SSLContext, hostname: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)

    async def _flush(self) -> None:
        if pending := self._outgoing.read():
            await Stream.send(self, pending)

    async def _feed(self) -> None:
        await self._flush()
        raw = await super()._receive()
        if raw:
            self._incoming.write(raw)
        else:
            self._incoming.write_eof()

    async def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._feed()
            else:
                return await self._flush()

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._feed()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError, ssl.SSLSyscallError):
                return b""

    async def send(self, content: bytes | memoryview) -> None:
        view = memoryview(content)
        for at in range(0, len(view), CHUNK):
            self._tls.write(view[at : at + CHUNK])
            await self._flush()

    async def finish_sending(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        with contextlib.suppress(OSError):
            await self._flush()


async def connect(address: Address) -> Stream:
    """A new connection; raises `EngineError` when nothing answers or TLS fails."""
    # A Unix socket connects at once; the others may take their time, which is a thread's.
    dialled = dial(address) if address.scheme == "unix" else await asyncio.to_thread(dial, address)
    try:
        dialled.socket.settimeout(0)
        reader, writer = await asyncio.open_connection(sock=dialled.socket, limit=CHUNK)
    except BaseException:
        dialled.close()
        raise
    if address.scheme != "tls":
        return Stream(dialled, reader, writer)
    stream = _TlsStream(dialled, reader, writer)
    try:
        stream.begin(tls_context(address), address.host)
        await stream.shake_hands()
    except BaseException as error:
        await asyncio.shield(stream.close())
        if isinstance(error, OSError) and not isinstance(error, EngineError):
            raise EngineError(str(address), f"TLS: {error}", hint=ADVICE) from error
        raise
    return stream
