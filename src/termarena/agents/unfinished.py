"""The trajectory of an attempt that goes on: on disk at every step of its model, whatever then ends the harness."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from termarena.core.trajectory import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from termarena.core.trajectory import Step, TrajectoryAgent

__all__ = ["UnfinishedTrajectory"]

END: Final = b"\n]}\n"


class UnfinishedTrajectory:
    """A file that is a whole trajectory after every save; the end of the attempt replaces it.

    New steps are written over its end, with one call: replacing the file each time took five milliseconds on ext4,
    which flushes a file that replaces another.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is written yet."""
        self._path = path
        self._saved = 0
        self._bytes = 0
        """Without the end."""

    def save(self, agent: TrajectoryAgent, steps: Sequence[Step]) -> None:
        """Write what is new. A disk that refuses disturbs nobody: the end of the attempt tells it."""
        new = b",\n".join(
            step.model_dump_json(exclude_none=True).encode("utf-8", "replace") for step in steps[self._saved :]
        )
        if not self._saved:
            about = agent.model_dump_json(exclude_none=True)
            head = f'{{"schema_version":"{SCHEMA_VERSION}","notes":"unfinished","agent":{about},"steps":[\n'
            new = head.encode("utf-8", "replace") + new
        else:
            new = b",\n" + new
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                written = os.pwrite(descriptor, new + END, self._bytes)
            finally:
                os.close(descriptor)
            if written == len(new) + len(END):
                self._saved, self._bytes = len(steps), self._bytes + len(new)
