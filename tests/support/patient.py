"""An agent that solves its task when it is told to: it shows that it began, leaves a process running, and waits.
A judge of recordings that does the same.

It runs in the harness's process, on whichever node that is, and sees the files of the test.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.agents.contract import AgentReport

if TYPE_CHECKING:
    from termarena.agents.contract import Brief, Workspace
    from termarena.forge.casts import Loaded

MARK = "43210.25"
"""How long the process sleeps that is left running: no other does."""


class Patient:
    name = "patient"
    version = "1"

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        place = Path(os.environ["PATIENT_PLACE"])
        await workspace.exec(["sh", "-c", f"sleep {MARK} >/dev/null 2>&1 & echo 1 >/app/one.txt"])
        (place / f"began-{brief.task_id}-{os.getpid()}").touch()
        while not (place / "go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
        return AgentReport(message="done")


def judge_patiently(loaded: Loaded, **_: object) -> None:
    place = Path(os.environ["PATIENT_PLACE"])
    (place / f"began-{Path(loaded.path).stem}-{os.getpid()}").touch()
    while not (place / "go").exists():
        time.sleep(0.05)
