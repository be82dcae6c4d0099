"""Pausing a container, and starting or ending commands in it, but never both at once.

An engine that pauses a container while a command is being started in it cannot unpause it again: runc's process in the
container is frozen, the shim waits for that process, and the order to go on waits for the shim. Such a container cannot
even be removed (Docker 20.10 with containerd 1.6 and runc 1.1).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from termarena.core.errors import EngineError, SandboxBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox.docker.client import Engine

__all__ = ["Pauses"]


class Pauses:
    """Of one container: many may start and end commands at the same time, a pause waits until none does."""

    def __init__(self, engine: Engine, container: str, name: str) -> None:
        """`name` is the sandbox's, for errors."""
        self._engine = engine
        self._container = container
        self._name = name
        self._busy = 0
        self._pausing = 0
        self._none_busy = asyncio.Event()
        self._no_pause = asyncio.Event()
        self._one_pause = asyncio.Lock()

    @asynccontextmanager
    async def unpaused(self) -> AsyncIterator[None]:
        """While a command is being started, up to its first word, or processes are being ended; not to be nested."""
        while self._pausing:
            self._no_pause.clear()
            await self._no_pause.wait()
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._none_busy.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """While the engine may pause the container on its own account."""
        self._pausing += 1
        try:
            async with self._one_pause:
                while self._busy:
                    self._none_busy.clear()
                    await self._none_busy.wait()
                yield
        finally:
            self._pausing -= 1
            self._no_pause.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """While nothing in the container runs; where the engine cannot pause, it runs on.

        Raises `SandboxBroken` when it could not be unpaused.
        """
        async with self.alone():
            try:
                await self._engine.call("POST", f"/containers/{self._container}/pause")
            except EngineError:
                yield
                return
            try:
                yield
            finally:
                await asyncio.shield(self._unpause())

    async def _unpause(self) -> None:
        try:
            await self._engine.call("POST", f"/containers/{self._container}/unpause")
        except EngineError as error:
            raise SandboxBroken(self._name, f"it stays paused: {error.problem}") from error
