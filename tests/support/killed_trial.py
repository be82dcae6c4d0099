"""One trial of the oracle in a process that kills itself, with SIGKILL, when it opens a file of a given name.

    python -m support.killed_trial TASK ATTEMPT HOME NAME

The task's own files do not count; NAME is what the file's name begins with.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from support.trials import try_task
from termarena.tasks import load_task


def _watch(task: str, name: str) -> None:
    def look(event: str, given: tuple[object, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes):
            path = os.fsdecode(given[0])
            if os.path.basename(path).startswith(name) and not path.startswith(task):  # noqa: PTH119 - any path will do
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


if __name__ == "__main__":
    where, attempt, home, begins_with = sys.argv[1:]
    _watch(where, begins_with)
    asyncio.run(try_task(load_task(where), "oracle", Path(attempt), home=Path(home)))
