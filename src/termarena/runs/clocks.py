"""The clocks of a trial's phases."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from termarena.runs.journal import now
from termarena.runs.result import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.runs.outcome import Phase

__all__ = ["Clocks"]


class Clocks:
    """How long each phase took; one that is entered again, in a task of several steps, goes on."""

    def __init__(self) -> None:
        """No phase has begun; `current` is where a trial would fail that never got further."""
        self.current: Phase = "prepare"
        self._read: dict[Phase, Clock] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Time the block; `current` stays at it when the block raises."""
        self.current = name
        earlier = self._read.get(name)
        started_at = earlier.started_at if earlier else now()
        before_s = earlier.duration_s if earlier else 0.0
        began = time.monotonic()
        try:
            yield
        finally:
            self._read[name] = Clock(started_at=started_at, duration_s=before_s + time.monotonic() - began)

    def read(self) -> dict[Phase, Clock]:
        """Every phase that has ended, in the order in which they began."""
        return dict(self._read)
