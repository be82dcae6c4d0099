"""A door to the engine at DOCKER_HOST that loses what a network, a proxy or an engine's own faults may lose."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from termarena.sandbox.docker.address import Address, find_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class LossyEngine:
    """What goes wrong may be changed at any time."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.forgets_exits = False
        """No event tells the end of a command."""
        self.holds_ends = False
        """The stream of a command that has ended stays open."""
        self.is_silent = False
        """Nothing comes back any more."""
        self._events: set[asyncio.StreamWriter] = set()

    def cut_events(self) -> int:
        """Close the connections that carry events; how many there were."""
        cut = list(self._events)
        for writer in cut:
            writer.transport.abort()
        return len(cut)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        far_reader, far_writer = await asyncio.open_unix_connection(find_address().host)
        asking = asyncio.create_task(self._forward(reader, far_writer, back=writer))
        try:
            await self._back(far_reader, writer)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            self._events.discard(writer)
            for one in (writer, far_writer):
                one.close()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(1 << 16):
                if b"/events?" in piece:
                    self._events.add(back)
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_stream = False
        with contextlib.suppress(OSError):
            while piece := await reader.read(1 << 16):
                is_stream = is_stream or piece.startswith(b"HTTP/1.1 101")
                if self.is_silent:
                    continue
                # As long as the old word: the sizes around it stay right.
                writer.write(piece.replace(b"exec_die", b"exec_xxx") if self.forgets_exits else piece)
                await writer.drain()
            if self.is_silent or (is_stream and self.holds_ends):
                await asyncio.Event().wait()


@asynccontextmanager
async def lossy_engine(folder: Path) -> AsyncIterator[LossyEngine]:
    """The door, for the length of a test."""
    lossy = LossyEngine(Address("unix", str(folder / "engine.sock")))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(lossy.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_unix_server(accept, lossy.address.host)
    try:
        yield lossy
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
