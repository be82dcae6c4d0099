"""One engine as one event loop uses it: calls, and the engine's events handed to the sandboxes they concern."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError
from termarena.sandbox.docker.client import Engine, Request
from termarena.sandbox.docker.labels import HARNESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.docker.address import Address

__all__ = ["Hub"]

Listener = "Callable[[dict[str, Any]], None]"
REOPENINGS: Final = 5
STEADY_S: Final = 10.0
REMEMBERED: Final = 256
"""As many events as an engine itself remembers."""


class Hub:
    """Holds the connections; whoever opened it closes it."""

    def __init__(self, address: Address, harness_id: str) -> None:
        """Connects in `open`."""
        self.engine = Engine(address)
        self._filters = {"label": [f"{HARNESS}={harness_id}"], "type": ["container"]}
        self._listeners: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._early: dict[str, list[dict[str, Any]]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._since = 0
        self._told: deque[tuple[object, ...]] = deque(maxlen=REMEMBERED)
        self.holders = 0

    async def open(self) -> None:
        """Begin to hear events; raises `EngineError`."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch(heard))
        try:
            await asyncio.wait({heard, self._watching}, return_when=asyncio.FIRST_COMPLETED)
            if not heard.done():
                await self._watching
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
        failures = 0
        try:
            while failures < REOPENINGS:
                begun = time.monotonic()
                try:
                    await self._listen(heard)
                except (EngineError, ValueError):
                    if not heard.done():
                        raise
                # A way to a far engine may cut what is silent for some minutes, again and again.
                failures = 0 if time.monotonic() - begun > STEADY_S else failures + 1
        finally:
            # However it comes that nothing is heard any more, nobody may go on waiting for a word.
            self._give_up()

    async def _listen(self, heard: asyncio.Future[None]) -> None:
        query = {"filters": self._filters, **({"since": self._since} if self._since else {})}
        async with self.engine.open(Request("GET", "/events", query, patience_s=None)) as body:
            # What happens before the first event, while the connection is lost, is asked for by the engine's own clock.
            if not self._since and "date" in body.headers:
                self._since = int(parsedate_to_datetime(body.headers["date"]).timestamp())
            if not heard.done():
                heard.set_result(None)
            async for event in body.lines():
                self._since = event.get("time", self._since)
                self._tell(event)

    def _tell(self, event: dict[str, Any]) -> None:
        # A connection that was opened again repeats the events of a whole second.
        told = (event.get("timeNano"), event.get("Action"), json.dumps(event.get("Actor"), sort_keys=True))
        if told in self._told:
            return
        self._told.append(told)
        container = str(event.get("Actor", {}).get("ID", ""))
        listener = self._listeners.get(container)
        if listener is not None:
            listener(event)
        elif event.get("Action") == "die":
            self._early.setdefault(container, []).append(event)

    def _give_up(self) -> None:
        for listener in list(self._listeners.values()):
            listener({"Action": "engine-gone"})
