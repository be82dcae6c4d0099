"""The command of a step while it runs: its output as lines, and its disk.

No quota of the host's holds a step, so what it wrote is added up meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from termarena.sandbox.contract import ExecResult
    from termarena.sandbox.namespace.box import NamespaceSandbox

__all__ = ["Lines", "bounded"]

LONGEST_LINE: Final = 64 << 10
LOOK_S: Final = 1.0
"""How long a step runs before it is looked at, and between looks."""
WORK_SHARE: Final = 20
"""A look that takes long is followed by a pause of so many times as long."""


async def bounded(
    box: NamespaceSandbox, command: Coroutine[Any, Any, ExecResult], *, disk_bytes: int, places: Sequence[str]
) -> ExecResult | None:
    """The result of a command of this sandbox; None when it wrote more, to its changes and to `places`, and was ended.

    It may write more than that before it is noticed.
    """
    running = asyncio.create_task(command)
    pause_s = LOOK_S
    try:
        while not (await asyncio.wait({running}, timeout=pause_s))[0]:
            began = time.monotonic()
            written = await box.layer_job("measure", "/", places=list(places))
            if int(written["size_bytes"]) > disk_bytes:
                return None
            pause_s = max(LOOK_S, WORK_SHARE * (time.monotonic() - began))
        return running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})


class Lines:
    """Output as whole lines; one that does not end comes in pieces."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        """`hear` gets them."""
        self._hear = hear
        self._rest = b""

    def take(self, chunk: bytes) -> None:
        """More of the output."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._hear(line.decode("utf-8", "replace").rstrip("\r"))

    def finish(self) -> None:
        """What is left without its end."""
        if self._rest:
            self._hear(self._rest.decode("utf-8", "replace"))
            self._rest = b""
