"""A person's own terminal, attached to a program on a terminal of a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING

from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from termarena.sandbox import PtyProcess
    from termarena.sandbox.terminal import CastWriter

__all__ = ["attach", "raw_mode", "require_terminal", "size_here", "write_all"]

# Mouse reports and bracketed paste off, cursor shown, plain text: what a program that was killed leaves switched on.
LEAVE = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"
LAST_OUTPUT_S = 0.2
READ_BYTES = 1 << 16


def require_terminal(
    what: str = "a shell", *, hint: str = "run it without pipes; `docker run` and `ssh` need -t"
) -> None:
    """Raises `UsageError` unless stdin and stdout are a terminal; `what` needs one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{what} needs a terminal", hint=hint)


def size_here() -> tuple[int, int]:
    """Columns and rows of the person's terminal; 80x24 where it does not say."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return (size.columns, size.lines) if size.columns and size.lines else (80, 24)


@contextlib.contextmanager
def raw_mode(*, leave: bytes = LEAVE) -> Iterator[None]:
    """Every key and every byte as it is, for the length of the block; `leave` is written to the terminal at its end."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        write_all(sys.stdout.fileno(), leave)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


async def attach(pty: PtyProcess, cast: CastWriter | None = None, *, records_input: bool = False) -> int:
    """Pass keys in and output out until the program ends; its exit status.

    The person's terminal is put back however this ends, SIGTERM and SIGHUP included, which cancel. With
    `records_input` keys are recorded, except those of a line that is typed blind. Raises `SandboxBroken`.
    """
    from termarena.sandbox.terminal.stream import PtyStream
    from termarena.sandbox.terminal.tty import is_typed_blind

    loop = asyncio.get_running_loop()
    keys, view = sys.stdin.fileno(), sys.stdout.fileno()

    def show(data: bytes) -> None:
        if cast is not None:
            cast.output(data)
        write_all(view, data)

    stream = PtyStream(pty, show, on_end=lambda: None)

    known_size = size_here()

    def follow_size() -> None:
        nonlocal known_size
        size = size_here()
        if size == known_size:
            return
        known_size = size
        pty.resize(*size)
        if cast is not None:
            cast.resize(*size)

    def typed() -> None:
        data = os.read(keys, READ_BYTES)
        follow_size()  # the signal may be behind keys that were typed later
        if not data:
            loop.remove_reader(keys)
        if cast is not None and records_input and not is_typed_blind(pty):
            cast.input(data)
        stream.write(data)

    with raw_mode(), _signals(loop, follow_size):
        loop.add_reader(keys, typed)
        try:
            ended = await pty.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stream.has_ended.wait(), LAST_OUTPUT_S)
        finally:
            loop.remove_reader(keys)
            stream.close()
    return ended.exit_status


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, resized: Callable[[], None]) -> Iterator[None]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - called from a coroutine
    loop.add_signal_handler(signal.SIGWINCH, resized)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however slow the terminal is."""
    # The person's terminal may be slow or stopped; nothing else in this program has to go on meanwhile. It may also
    # have been made non-blocking by another program on it.
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            select.select([], [fd], [])
