"""Agents that behave as no agent should, and one that types."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from termarena.agents.contract import AgentReport, Usage
from termarena.core.errors import SandboxBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.agents.contract import Brief, Workspace


class _Named:
    version = "1"

    @property
    def name(self) -> str:
        return type(self).__name__


class TypesIntoATerminal(_Named):
    """Solves the task of `support.tasks` in a terminal."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        async with workspace.terminal() as terminal:
            await terminal.run("echo 1 >/app/one.txt")
        return AgentReport()


class SaysASecretAndWaits(_Named):
    """Says something in a terminal, then does nothing until it is stopped."""

    words = "correct-horse-battery"
    has_spoken: ClassVar = threading.Event()

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        async with workspace.terminal() as terminal:
            await terminal.run(f"echo {self.words}")
            self.has_spoken.set()
            await asyncio.Event().wait()
        return AgentReport()


class LeavesAVariable(_Named):
    """Leaves something in its shell and nowhere else."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        async with workspace.terminal() as terminal:
            await terminal.run("export LEFT=here")
        return AgentReport()


class Spends(_Named):
    """Writes what each step of the parts' task asks for, and says what that cost."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        number = 1 if brief.step == "first" else 2
        await workspace.write(f"/app/{number}.txt", f"{number}\n".encode())
        return AgentReport(usage=Usage(input_tokens=100, cost_usd=0.5))


class Blocks(_Named):
    """Never gives the event loop back."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief, workspace
        time.sleep(20)  # noqa: ASYNC251 - what it is for
        return AgentReport()


class SolvesAndCrashes(_Named):
    """Does its work and then fails."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        await workspace.write("/app/one.txt", b"1\n")
        return AgentReport(message=str(1 / 0))


class FillsTheDisk(_Named):
    """Solves the task of `support.tasks`, writes until it may no more, and does not expect that."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        async with workspace.terminal() as terminal:
            fills = "while head -c 2000000 /dev/urandom >>/app/big; do :; done"
            await terminal.run(f"echo 1 >/app/one.txt; {fills}", timeout_s=300)
            await terminal.run("echo the shell is still there")
        await workspace.write("/app/more", b"more")
        return AgentReport()


class BlamesTheSandbox(_Named):
    """Raises what a broken sandbox would."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        await workspace.exec(["true"])
        raise SandboxBroken("mine", "gone")


class IsNotToBeStopped(_Named):
    """Leaves a daemon that does the work later, and returns as if it had ended by itself when its time is up."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        await workspace.exec("setsid sh -c 'sleep 1.5; echo 1 >/app/one.txt; sleep 60' >/dev/null 2>&1 </dev/null &")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return AgentReport()


class LooksForKeys(_Named):
    """Solves the task, and reports every place of this machine and of the sandbox where a key can be read."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        del brief
        secret = os.environ["EXAMPLE_API_KEY"]
        running = asyncio.ensure_future(workspace.exec("echo 1 >/app/one.txt; env; cat /proc/*/environ; sleep 0.5"))
        seen = await asyncio.to_thread(_command_lines_with, secret, until=running.done)
        inside = await running
        seen += ["the sandbox"] if secret.encode() in inside.stdout else []
        return AgentReport(message=json.dumps(seen))


def _command_lines_with(secret: str, *, until: Callable[[], bool]) -> list[str]:
    found: set[str] = set()
    while not until():
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if secret.encode() in process.read_bytes():
                    found.add(str(process))
            except OSError:
                continue
    return sorted(found)
