"""A terminal in a sandbox, held from outside: keys in, a screen out, commands with their status."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxBroken, TerminalTimeout
from termarena.sandbox.sides import check_size
from termarena.sandbox.terminal.contract import TerminalOptions
from termarena.sandbox.terminal.display import Display, Watch
from termarena.sandbox.terminal.keys import encode_key, encode_paste, encode_text
from termarena.sandbox.terminal.pulse import Pulse
from termarena.sandbox.terminal.screen import load_emulator
from termarena.sandbox.terminal.session import BUSY_HINT, LOOK_S, ShellSession
from termarena.sandbox.terminal.stream import PtyStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox.contract import PtyProcess, Sandbox
    from termarena.sandbox.terminal.contract import CommandResult, ScreenState

__all__ = ["Terminal", "open_terminal"]

DEFAULT_TIMEOUT_S: Final = 60.0
HANGUP_S: Final = 2.0
LAST_WORDS_S: Final = 0.5


class Terminal:
    """One terminal with one shell; made by `open_terminal`.

    Every method that sends or waits raises `TerminalEnded` once the shell has ended, `SandboxBroken` once the sandbox
    has; what was shown can still be looked at. Every wait has a deadline and raises `TerminalTimeout` at it.
    """

    def __init__(self, box: Sandbox, pty: PtyProcess, options: TerminalOptions) -> None:
        """Takes over the process; `open_terminal` attaches."""
        self._pty = pty
        self._pulse = Pulse()
        self._display = Display(options, self._pulse, reply=self._answer)
        self._stream = PtyStream(pty, self._display.take, on_end=self._pulse.beat)
        self._session = ShellSession(
            box, pty, stream=self._stream, display=self._display, options=options, pulse=self._pulse
        )
        if options.cast is not None:
            options.cast.begin(options.cols, options.rows)

    def _answer(self, data: bytes) -> None:
        self._stream.answer(data)

    # What it shows.

    def screen(self) -> ScreenState:
        """What a person would see now."""
        return self._display.emulator.state()

    def scrollback(self, max_lines: int = 1000) -> tuple[str, ...]:
        """The last lines that have scrolled off the screen, oldest first; those of the alternate screen never do."""
        return self._display.emulator.scrollback(max_lines)

    @property
    def output_bytes(self) -> int:
        """How much the terminal has received since it was opened."""
        return self._display.total_bytes

    @property
    def shell(self) -> str | None:
        """`bash`, `zsh` or `posix`."""
        return self._session.dialect

    @property
    def shell_pid(self) -> int:
        """The shell's number inside the sandbox."""
        return self._pty.pid

    @property
    def has_ended(self) -> bool:
        """Whether the shell has ended."""
        return self._session.ended.done()

    # What is typed.

    def send_keys(self, *names: str) -> None:
        """Press keys: `send_keys("C-c")`, `send_keys("Up", "Enter")`; raises `NotFound` for a name that is no key."""
        is_application = self._display.emulator.is_application
        self._send(b"".join(encode_key(name, is_application=is_application) for name in names))

    def type_text(self, text: str) -> None:
        """Type text as a person would; a newline is the Enter key, a tab completes."""
        self._send(encode_text(text))

    def paste(self, text: str) -> None:
        """Paste text: bracketed if the program in front asked for that; a shell then does not run it line by line."""
        self._send(encode_paste(text, is_bracketed=self._display.emulator.is_bracketing))

    def mark(self, label: str) -> None:
        """Put a marker into the recording."""
        if self._display.cast is not None:
            self._display.cast.marker(label)

    def _send(self, data: bytes) -> None:
        self._session.raise_if_ended()
        self._session.note_input(data)
        if self._display.cast is not None:
            self._display.cast.input(data)
        self._stream.write(data)

    def resize(self, cols: int, rows: int) -> None:
        """Another size, for the programs, the screen and the recording; raises `TerminalSizeError`."""
        check_size(cols, rows)
        self._session.raise_if_ended()
        self._pty.resize(cols, rows)
        self._display.emulator.resize(cols, rows)
        if self._display.cast is not None:
            self._display.cast.resize(cols, rows)

    # Waiting.

    async def wait_quiet(self, quiet_s: float = 0.25, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Until nothing has come for `quiet_s`, counted from the call at the earliest."""
        called = time.monotonic()

        def left() -> float:
            return max(self._display.last_output_at, called) + quiet_s - time.monotonic()

        def is_quiet() -> bool:
            if left() <= 0:
                self._stream.take()  # what came while the machine kept this process waiting has not been seen yet
            return left() <= 0

        if not await self._pulse.until(is_quiet, timeout_s, look_every_s=left):
            raise self._late("quiet", timeout_s)

    async def wait_for(self, pattern: str | re.Pattern[str], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Until a text, or a compiled pattern, is on the screen or has come since the call.

        Of what came since, the last 64 KiB are searched.
        """
        found = re.compile(re.escape(pattern)) if isinstance(pattern, str) else pattern
        watch = Watch()
        self._display.watches.add(watch)

        def is_there() -> bool:
            return bool(found.search(self.screen().text) or found.search(watch.text()))

        try:
            await self._pulse.until(lambda: is_there() or self.has_ended, timeout_s)
            if self.has_ended:  # its last words may still be on their way
                await self._pulse.until(lambda: is_there() or self._stream.has_ended.is_set(), LAST_WORDS_S)
            if not is_there():
                self._session.raise_if_ended()
                raise self._late(f"{found.pattern!r}", timeout_s)
        finally:
            self._display.watches.discard(watch)

    async def wait_idle(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Until the shell is back at its prompt and its process group in the foreground.

        Of several lines sent at once, the end of the first may be what is seen: `paste` them instead.
        """
        session = self._session
        await self._pulse.until(
            lambda: session.is_idle() or self.has_ended,
            timeout_s,
            look_every_s=lambda: LOOK_S if session.is_at_prompt else timeout_s,
        )
        session.raise_if_ended()
        if not session.is_idle():
            raise self._late("the shell's prompt", timeout_s, hint=BUSY_HINT)
        await session.until_prompt_shows()

    def _late(self, awaited: str, timeout_s: float, *, hint: str | None = None) -> TerminalTimeout:
        return TerminalTimeout(awaited, timeout_s=timeout_s, tail=self._display.tail(), hint=hint)

    # Commands.

    async def run(self, command: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> CommandResult:
        """Run a command in the shell, as if it had been typed there, and wait for its end.

        The folder, variables, functions, options and background jobs it leaves are there for the next one. It may be
        any number of lines and of any length; one that is not complete is a syntax error. The screen and the recording
        show it after the prompt. The terminal's modes are put back before each command. At the timeout the program in
        front gets Ctrl-C, after a second SIGKILL. Nothing more of the command runs then; what it started in the
        background goes on.

        Raises `ValueError` for a NUL and for half a character; `TerminalTimeout` if the shell was not at its prompt in
        `timeout_s`, before anything ran; `NoExitStatus` if the command ran, or may have, and its status cannot be
        known. Cancelling sends Ctrl-C; a command that the shell has not taken by then does not run.
        """
        return await self._session.run(command, timeout_s=timeout_s)

    async def close(self) -> None:
        """Hang up, as when a window is closed: the shell and its jobs get SIGHUP. Safe to call again."""
        if self._pty.master_fd < 0:
            return
        self._stream.close()
        await self._session.close()
        self._pty.close()
        await asyncio.wait({self._session.ended}, timeout=HANGUP_S)
        self._display.close(self._shell_status())

    def _shell_status(self) -> int | None:
        """How the shell ended, if that is known; a driver may stop watching it once its terminal is closed."""
        ended = self._session.ended
        if not ended.done():
            ended.cancel()
        if ended.cancelled() or not ended.done() or isinstance(ended.exception(), SandboxBroken):
            return None
        return ended.result().exit_status


@contextlib.asynccontextmanager
async def open_terminal(box: Sandbox, options: TerminalOptions | None = None) -> AsyncIterator[Terminal]:
    """A terminal with a shell at its prompt, for the length of an `async with`.

    Raises what `Sandbox.open_pty` raises; `TerminalEnded` for a shell that cannot be started; `TerminalTimeout` for
    one that does not come to a prompt or is neither bash, zsh nor a POSIX shell.
    """
    chosen = options or TerminalOptions()
    await asyncio.to_thread(load_emulator)
    pty = await box.open_pty(
        chosen.shell_argv, cols=chosen.cols, rows=chosen.rows, user=chosen.user, cwd=chosen.cwd, env=chosen.env
    )
    try:
        terminal = Terminal(box, pty, chosen)
    except BaseException:
        pty.close()
        raise
    try:
        await terminal._session.attach()  # noqa: SLF001 - the maker's part of the constructor, which cannot wait
        yield terminal
    finally:
        await asyncio.shield(terminal.close())
