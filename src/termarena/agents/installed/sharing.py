"""What the installed agents of one run share: the broker and the layers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from termarena.agents.installed.layers import Layers
from termarena.broker import Broker

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.broker import Seat
    from termarena.models import RunModels

__all__ = ["InstalledRun"]


class InstalledRun:
    """Nothing starts before the first agent asks; `aclose` ends everything."""

    def __init__(self, models: RunModels, home: Path) -> None:
        """`models` are the run's, `home` is the cache folder."""
        self.models = models
        self.layers = Layers(home)
        self._broker: Broker | None = None
        self._opening = asyncio.Lock()

    async def broker(self) -> Broker:
        """The run's broker, serving. Raises `MissingExtra`."""
        async with self._opening:
            if self._broker is None:
                self._broker = await Broker(self.models).__aenter__()
            return self._broker

    def leave(self, seat: Seat) -> None:
        """A trial's agent has had its time."""
        if self._broker is not None:
            self._broker.leave(seat)

    async def aclose(self) -> None:
        """End the broker, and whatever is being installed."""
        await self.layers.aclose()
        if self._broker is not None:
            await self._broker.aclose()
            self._broker = None
