"""Waiting for something to become true, looked at whenever something happened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pulse"]


class Pulse:
    """Wakes those who wait; what they wait for is theirs to look at."""

    def __init__(self) -> None:
        """Belongs to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Something happened."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def until(
        self, is_so: Callable[[], bool], timeout_s: float, *, look_every_s: Callable[[], float] | None = None
    ) -> bool:
        """Whether it became so in time; `look_every_s` is for what changes without a beat."""
        deadline = self._loop.time() + timeout_s
        while not is_so():
            left = deadline - self._loop.time()
            if left <= 0:
                return False
            pause = left if look_every_s is None else min(left, look_every_s())
            await self._next_beat(pause)
        return True

    async def _next_beat(self, timeout_s: float) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait({future}, timeout=timeout_s)
        finally:
            self._waiting.discard(future)
