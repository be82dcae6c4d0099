"""The wire: a second terminal of the sandbox, over which harness and shell speak out of sight."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxBroken, TerminalTimeout
from termarena.sandbox.terminal.marks import ReportReader
from termarena.sandbox.terminal.stream import PtyStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.contract import PtyProcess, Sandbox
    from termarena.sandbox.terminal.contract import TerminalOptions
    from termarena.sandbox.terminal.marks import Report
    from termarena.sandbox.terminal.pulse import Pulse

__all__ = ["Wire"]

END_OF_INPUT: Final = b"\x04" * 4
"""Ctrl-D for each read that a shell may still try: the rest of a line, a piece of a command, the token."""
# It holds the terminal open and takes no processor time; whoever wakes it, it stops again.
HOLDER: Final = ("/bin/sh", "-c", "echo; while :; do kill -s STOP $$; done")


class Wire:
    """One wire, for one attachment to a shell."""

    def __init__(self, pty: PtyProcess, pulse: Pulse) -> None:
        """Made by `open`."""
        self._pty = pty
        self._pulse = pulse
        self._reader: ReportReader | None = None
        self._on_report: Callable[[Report], None] = lambda _: None
        self._has_spoken = False
        self._stream = PtyStream(pty, self._take, on_end=pulse.beat)

    @classmethod
    async def open(cls, box: Sandbox, options: TerminalOptions, pulse: Pulse) -> Wire:
        """Start the holder and wait until it holds. Raises what `open_pty` raises, and `TerminalTimeout`."""
        pty = await box.open_pty(HOLDER, cols=80, rows=24, user=options.user, cwd="/")
        wire = cls(pty, pulse)
        try:
            await pulse.until(lambda: wire._has_spoken or wire.has_ended, options.open_timeout_s)
        except BaseException:
            await wire.close()
            raise
        if not wire._has_spoken:
            await wire.close()
            raise TerminalTimeout("a process that holds the terminal's second line", timeout_s=options.open_timeout_s)
        return wire

    def listen(self, secret: str, on_report: Callable[[Report], None]) -> None:
        """Hand on the reports of the shell that was given this secret."""
        self._reader = ReportReader(secret)
        self._on_report = on_report

    @property
    def holder_pid(self) -> int:
        """The process through which the shell finds the wire."""
        return self._pty.pid

    @property
    def has_ended(self) -> bool:
        """Whether the holder is gone and nothing more can come."""
        return self._stream.has_ended.is_set()

    def write(self, data: bytes) -> None:
        """Send to the shell."""
        self._stream.write(data)

    def _take(self, data: bytes) -> None:
        self._has_spoken = True
        for report in self._reader.feed(data) if self._reader is not None else ():
            self._on_report(report)
        self._pulse.beat()

    async def close(self) -> None:
        """End the holder. A shell that reads from the wire is told that nothing more comes.

        The end of a holder tells nobody: its terminal hangs up when the master is closed, and an engine that has the
        master may do so much later.
        """
        self._stream.discard_input()
        self._stream.write(END_OF_INPUT)
        self._stream.close()
        try:
            with contextlib.suppress(SandboxBroken):
                await self._pty.kill()
        finally:
            self._pty.close()
