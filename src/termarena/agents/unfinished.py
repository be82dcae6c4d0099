"""The trajectory of an attempt that goes on: on disk at every step of its model, whatever then ends the harness."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from termarena.core.trajectory import Trajectory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from termarena.core.trajectory import Step, TrajectoryAgent

__all__ = ["UnfinishedTrajectory"]

EVERY_STEP_BYTES: Final = 8 << 20
"""Up to this size it is written at every step, which takes some milliseconds; beyond, when it has grown by a tenth."""


class UnfinishedTrajectory:
    """Each step is put into JSON once. The whole file is replaced; readers see the old one or the new one."""

    def __init__(self, path: Path) -> None:
        """Nothing is written yet."""
        self._path = path
        self._steps: list[bytes] = []
        self._bytes = 0
        self._written = 0

    def save(self, agent: TrajectoryAgent, steps: Sequence[Step]) -> None:
        """Write what there is. A disk that refuses disturbs nobody: the end of the attempt tells it."""
        for step in steps[len(self._steps) :]:
            self._steps.append(step.model_dump_json(exclude_none=True).encode("utf-8", "replace"))
            self._bytes += len(self._steps[-1])
        if self._bytes > EVERY_STEP_BYTES and self._bytes < self._written * 1.1:
            return
        whole = Trajectory(agent=agent, steps=steps[:1], notes="unfinished").model_dump_json(exclude_none=True).encode()
        first = self._steps[0]
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        with suppress(OSError):
            temporary.write_bytes(whole.replace(first, b",\n".join(self._steps), 1))
            temporary.replace(self._path)
            self._written = self._bytes
