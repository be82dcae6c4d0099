"""One engine as one event loop uses it: calls, and the engine's events handed to the sandboxes they concern."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError
from termarena.sandbox.docker.client import Body, Engine, Request
from termarena.sandbox.docker.labels import HARNESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.docker.address import Address

__all__ = ["Hub"]

Listener = "Callable[[dict[str, Any]], None]"
REOPENINGS: Final = 5


class Hub:
    """Holds the connections; whoever opened it closes it."""

    def __init__(self, address: Address, harness_id: str) -> None:
        """Connects in `open`."""
        self.engine = Engine(address)
        self._filters = {"label": [f"{HARNESS}={harness_id}"], "type": ["container"]}
        self._listeners: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._early: dict[str, list[dict[str, Any]]] = {}
        self._watching: asyncio.Task[None] | None = None
        self.holders = 0

    async def open(self) -> None:
        """Begin to hear events; raises `EngineError`."""
        heard = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch(heard))
        try:
            await heard
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.engine.close()

    def listen(self, container: str, listener: Callable[[dict[str, Any]], None]) -> None:
        """Hear of this container from now on, and what has been heard already."""
        self._listeners[container] = listener
        for event in self._early.pop(container, []):
            listener(event)

    def forget(self, container: str) -> None:
        """Hear no more of it."""
        self._listeners.pop(container, None)
        self._early.pop(container, None)

    async def _watch(self, heard: asyncio.Future[None]) -> None:
        since: int | None = None
        for _ in range(REOPENINGS):
            query = {"filters": self._filters, **({"since": since} if since else {})}
            try:
                async with self.engine.open(Request("GET", "/events", query)) as body:
                    if not heard.done():
                        heard.set_result(None)
                    since = await self._pass_on(body, since)
            except EngineError as error:
                if not heard.done():
                    heard.set_exception(error)
                    return
        self._give_up()

    async def _pass_on(self, body: Body, since: int | None) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            async for event in body.lines():
                since = event.get("time", since)
                self._tell(event)
        return since

    def _tell(self, event: dict[str, Any]) -> None:
        container = str(event.get("Actor", {}).get("ID", ""))
        listener = self._listeners.get(container)
        if listener is not None:
            listener(event)
        elif event.get("Action") == "die":
            self._early.setdefault(container, []).append(event)

    def _give_up(self) -> None:
        for listener in list(self._listeners.values()):
            listener({"Action": "engine-gone"})
