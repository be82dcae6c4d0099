"""The asynchronous conversation with the process 1 of one sandbox: numbered requests, answers in any order."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxBroken
from termarena.sandbox.namespace.inside import wire

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["ANSWER_TIMEOUT_S", "Channel"]

ANSWER_TIMEOUT_S: Final = 60.0
"""Process 1 answers at once; only to end processes it may take ten seconds."""
UNASKED: Final = 0
"""The number of what answers no request."""
MUTE: Final = "its process 1 does not answer"


class Channel:
    """Owns the control socket; lives in one event loop."""

    def __init__(self, sandbox: str, sock: socket.socket, *, on_event: Callable[[wire.Received], None]) -> None:
        """`on_event` takes messages that answer no request, but for the first one; call `open` to begin."""
        self.sandbox = sandbox
        self.ended: str | None = None
        self._socket = sock
        self._on_event = on_event
        self._waiting: dict[int, asyncio.Future[wire.Received]] = {}
        self._room: asyncio.Future[None] | None = None
        self._last = 0
        self._loop = asyncio.get_running_loop()

    def open(self) -> asyncio.Future[wire.Received]:
        """Begin to listen; the first message that answers no request, or `SandboxBroken`."""
        self._socket.settimeout(0)
        self._loop.add_reader(self._socket, self._read)
        first = self._waiting[UNASKED] = self._loop.create_future()
        return first

    def close(self, reason: str) -> None:
        """Stop; every waiting request fails with `SandboxBroken`."""
        if self.ended is None:
            self.ended = reason
            self._loop.remove_reader(self._socket)
            self._make_room()
            self._socket.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(SandboxBroken(self.sandbox, reason))
                    # Not every waiter is still there to look at it.
                    future.exception()
            self._waiting.clear()

    def number(self) -> int:
        """A fresh request number."""
        self._last += 1
        return self._last

    async def begin(self, request: wire.Message, fds: tuple[int, ...] = ()) -> asyncio.Future[wire.Received]:
        """Send a request that has a number; the future gives the answer. Raises `SandboxBroken`."""
        future: asyncio.Future[wire.Received] = self._loop.create_future()
        give_up = self._loop.time() + ANSWER_TIMEOUT_S
        while True:
            if self.ended is not None:
                raise SandboxBroken(self.sandbox, self.ended)
            try:
                wire.send(self._socket, request, fds)
            except BlockingIOError:
                await self._writable(give_up)
            except OSError as error:
                self.close(f"its control socket failed: {error}")
            else:
                self._waiting[request["id"]] = future
                return future

    async def ask(self, request: wire.Message, fds: tuple[int, ...] = ()) -> wire.Received:
        """Send a request and wait for its answer; one that does not come ends the channel. Raises `SandboxBroken`."""
        answer = await self.begin({**request, "id": self.number()}, fds)
        try:
            return await asyncio.wait_for(answer, ANSWER_TIMEOUT_S)
        except TimeoutError as error:
            self.close(MUTE)
            raise SandboxBroken(self.sandbox, MUTE) from error

    async def _writable(self, give_up: float) -> None:
        """Wait for room in the socket; any number of senders may wait at once."""
        if self._room is None:
            self._room = self._loop.create_future()
            self._loop.add_writer(self._socket, self._make_room)
        await asyncio.wait({self._room}, timeout=max(0.0, give_up - self._loop.time()))
        if self._loop.time() >= give_up:
            self.close(MUTE)

    def _make_room(self) -> None:
        if self._room is not None:
            self._loop.remove_writer(self._socket)
            self._room.set_result(None)
            self._room = None

    def _read(self) -> None:
        while self.ended is None:
            try:
                received = wire.receive(self._socket)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # it ended with something unread; what it said before, and its end, come after that
            except (OSError, ValueError) as error:
                self.close(f"its control socket failed: {error}")
                return
            if received is None:
                self.close("its process 1 has ended")
                return
            self._deliver(received)

    def _deliver(self, received: wire.Received) -> None:
        future = self._waiting.pop(received.message.get("re", UNASKED), None)
        if future is not None and not future.done():
            future.set_result(received)
        elif future is not None:
            for fd in received.fds:
                with contextlib.suppress(OSError):
                    os.close(fd)
        else:
            self._on_event(received)
