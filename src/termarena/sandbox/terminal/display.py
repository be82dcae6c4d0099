"""Where a terminal's output goes: out with the marks, then to the screen, the recording, and whoever waits for it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from termarena.sandbox.terminal.marks import MarkFilter
from termarena.sandbox.terminal.output import Capture, plain_text
from termarena.sandbox.terminal.screen import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.terminal.contract import TerminalOptions
    from termarena.sandbox.terminal.pulse import Pulse

__all__ = ["Display", "Watch"]

HIDDEN_BYTES: Final = 1 << 16
WATCHED_BYTES: Final = 1 << 16
TAIL_CHARACTERS: Final = 400
LABEL_CHARACTERS: Final = 200
_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class Watch:
    """The last bytes since somebody began to wait for a pattern."""

    def __init__(self) -> None:
        """Empty."""
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Take what was shown."""
        self._bytes += data
        if len(self._bytes) > 2 * WATCHED_BYTES:
            del self._bytes[:-WATCHED_BYTES]

    def text(self) -> str:
        """As plain text."""
        return plain_text(bytes(self._bytes))


class Display:
    """The receiving side of a terminal."""

    def __init__(self, options: TerminalOptions, pulse: Pulse, *, reply: Callable[[bytes], None]) -> None:
        """`reply` takes answers to the programs' queries."""
        self.emulator = Emulator(options.cols, options.rows, scrollback_lines=options.scrollback_lines, reply=reply)
        self.filter = MarkFilter()
        self.cast = options.cast
        self.watches: set[Watch] = set()
        self.total_bytes = 0
        self.last_output_at = time.monotonic()
        self.is_prompt_shown = False
        self.capture: Capture | None = None
        self._output_bytes = options.output_bytes
        self._pulse = pulse
        self.has_output_ended = False
        self._command = ""
        self._hidden: bytearray | None = bytearray()

    def take(self, data: bytes) -> None:
        """What came from the terminal."""
        self.total_bytes += len(data)
        self.last_output_at = time.monotonic()
        for piece in self.filter.feed(data):
            if isinstance(piece, bytes):
                self._take(piece)
            elif piece == "B":
                self._begin()
            elif piece == "E":
                self.has_output_ended = True
                self._hidden = None
            else:
                self.is_prompt_shown = self.has_output_ended
        self._pulse.beat()

    def _take(self, piece: bytes) -> None:
        if self._hidden is not None:
            self._hidden += piece[: HIDDEN_BYTES - len(self._hidden)]
            return
        if self.capture is not None and not self.has_output_ended:
            self.capture.add(piece)
        self._show(piece)

    def _show(self, piece: bytes) -> None:
        self.emulator.feed(piece)
        if self.cast is not None:
            self.cast.output(piece)
        for watch in self.watches:
            watch.add(piece)

    # What the harness and the shell say to each other is not shown; the command is, as if it had been typed.

    def hide(self, command: str = "") -> None:
        """From here to the next mark nothing is shown; at the beginning of its output the command is."""
        self._hidden = bytearray()
        self._command = command
        self.capture = None
        self.expect_prompt()

    def expect_prompt(self) -> None:
        """A command was given: a prompt counts again behind the end of its output; line editors redraw the old one."""
        self.has_output_ended = self.is_prompt_shown = False

    def reveal(self) -> None:
        """Show what was hidden: the marks that it was hidden for did not come."""
        if self._hidden is not None:
            hidden, self._hidden = bytes(self._hidden), None
            self._show(hidden)

    def _begin(self) -> None:
        self._hidden = None
        typed = _CONTROLS.sub(
            lambda found: f"^{chr(ord(found[0]) ^ 0x40)}" if found[0] != "\t" else "\t", self._command
        )
        # The line editor has left bracketed paste in what was hidden.
        end = "\x1b[?2004l" if self.emulator.is_bracketing else ""
        if self.cast is not None:
            self.cast.marker(self._command.strip().split("\n", 1)[0][:LABEL_CHARACTERS])
            self.cast.input(self._command.encode("utf-8", "surrogateescape") + b"\r")
        self._show((typed.replace("\n", "\r\n> ") + "\r\n" + end).encode("utf-8", "surrogateescape"))
        self.capture = Capture(self._output_bytes)

    def tail(self) -> str:
        """The end of what is on the screen, or of what was hidden, for an error message."""
        if self._hidden:
            return plain_text(bytes(self._hidden))[-TAIL_CHARACTERS:]
        return self.emulator.state().text[-TAIL_CHARACTERS:]

    def close(self, exit_status: int | None) -> None:
        """Show what was held back, end the recording, give the memory back."""
        if rest := self.filter.rest():
            self._show(rest)
        if self.cast is not None:
            self.cast.close(exit_status)
        self.emulator.close()
