"""Where a person sits who tries a task: their own terminal, with the task shown before and the time in the title."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from termarena.cli.attaching import attach, size_here, write_all
from termarena.cli.output import say
from termarena.reports.telling import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.agents.contract import Brief
    from termarena.sandbox import PtyProcess
    from termarena.sandbox.terminal import CastWriter

__all__ = ["OwnTerminal"]

TITLE_EVERY_S: Final = 5.0
READ_BYTES: Final = 4096


class OwnTerminal:
    """A `Seat` at the terminal that the command was typed in."""

    def __init__(self) -> None:
        """Nobody sits yet."""
        self.is_abandoned = False
        """The person left and did not want to be graded."""

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return size_here()

    async def attach(self, brief: Brief, pty: PtyProcess, cast: CastWriter) -> int:
        """Show the task, hand over the shell, and ask at its end whether that is the solution."""
        ends_s = time.monotonic() + brief.timeout_s
        for line in ("", brief.task_id, "", *brief.instruction.strip().splitlines(), ""):
            say(line)
        say(f"you have {duration(brief.timeout_s)}; leave the shell with exit or Ctrl-D when you are done")
        try:
            with _title_tells_time(brief.task_id, ends_s):
                status = await attach(pty, cast)
            if not await _is_yes("submit? [Y/n] "):
                self.is_abandoned = True
                # As if Ctrl-C had been typed: whoever carries out the run stops it and cleans up.
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if time.monotonic() >= ends_s:
                say("")
                say("the time is up: what is there now is graded")
            raise
        say("grading …")
        return status


@contextmanager
def _title_tells_time(task_id: str, ends_s: float) -> Iterator[None]:
    """Keep the time that is left in the title of the window: there it disturbs no program on the screen."""
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle | None = None
    name = "".join(char for char in task_id if char.isprintable())

    def tell() -> None:
        nonlocal handle
        left_s = max(0.0, ends_s - time.monotonic())
        write_all(sys.stdout.fileno(), f"\x1b]0;{name}: {duration(left_s)} left\x07".encode())
        handle = loop.call_later(TITLE_EVERY_S, tell)

    tell()
    try:
        yield
    finally:
        if handle is not None:
            handle.cancel()
        write_all(sys.stdout.fileno(), b"\x1b]0;\x07")


async def _is_yes(question: str) -> bool:
    """Ask on the terminal; nothing typed is yes. An end of input is no."""
    loop, keys = asyncio.get_running_loop(), sys.stdin.fileno()
    answer: asyncio.Future[bytes] = loop.create_future()

    def typed() -> None:
        if not answer.done():
            answer.set_result(os.read(keys, READ_BYTES))

    sys.stderr.write(question)
    sys.stderr.flush()
    loop.add_reader(keys, typed)
    try:
        line = await answer
    finally:
        loop.remove_reader(keys)
    return line.strip().lower() in (b"", b"y", b"yes") and line != b""
