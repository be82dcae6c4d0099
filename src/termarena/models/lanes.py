"""Lanes: how many requests, and how many tokens a minute, go to one endpoint with one key."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Lane"]


class Lane:
    """Shared by all trials of a run that use the same endpoint and key; who comes first goes first."""

    def __init__(self, *, at_once: int | None = None, tokens_per_minute: int | None = None) -> None:
        """None is no limit."""
        self._places = asyncio.Semaphore(at_once) if at_once is not None else None
        self._per_minute = tokens_per_minute
        self._tokens = float(tokens_per_minute or 0)
        self._counted_at = time.monotonic()
        self._closed_until = 0.0
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncIterator[None]:
        """Room for one request of about so many tokens; waits for it."""
        if self._places is not None:
            await self._places.acquire()
        try:
            await self._wait(tokens)
            yield
        finally:
            if self._places is not None:
                self._places.release()

    async def _wait(self, tokens: int) -> None:
        async with self._turn:
            while (wait_s := self._wait_s(tokens)) > 0:  # noqa: ASYNC110 - it waits for the clock, and for nothing else
                await asyncio.sleep(wait_s)
            self._tokens -= tokens

    def _wait_s(self, tokens: int) -> float:
        now = time.monotonic()
        paused_s = self._closed_until - now
        if self._per_minute is None:
            return paused_s
        rate = self._per_minute / 60
        self._tokens = min(self._tokens + (now - self._counted_at) * rate, float(self._per_minute))
        self._counted_at = now
        # One request that is larger than a whole minute's room waits for a full minute, not for ever.
        return max(paused_s, (min(tokens, self._per_minute) - self._tokens) / rate)

    def settle(self, *, estimated: int, used: int | None) -> None:
        """Correct an estimate by what was used; None is unknown, and leaves the estimate."""
        if used is not None:
            self._tokens -= used - estimated

    def close_for(self, seconds: float) -> None:
        """Let nobody ask for a while: the provider has said that it is too much."""
        self._closed_until = max(self._closed_until, time.monotonic() + seconds)
