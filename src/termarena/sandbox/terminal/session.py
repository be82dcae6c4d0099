"""A shell that the harness is attached to: commands with their status, in the shell that stays."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import NoExitStatus, TerminalEnded, TerminalTimeout
from termarena.sandbox.contract import TIMEOUT_STATUS
from termarena.sandbox.terminal import tty
from termarena.sandbox.terminal.contract import CommandResult
from termarena.sandbox.terminal.marks import bootstrap, init_script, new_token, pieces, trigger
from termarena.sandbox.terminal.wire import Wire

if TYPE_CHECKING:
    from termarena.sandbox.contract import ExecResult, PtyProcess, Sandbox
    from termarena.sandbox.terminal.contract import TerminalOptions
    from termarena.sandbox.terminal.display import Display
    from termarena.sandbox.terminal.marks import Report
    from termarena.sandbox.terminal.pulse import Pulse
    from termarena.sandbox.terminal.stream import PtyStream

__all__ = ["ShellSession"]

READY_S: Final = 5.0
"""How long a shell at its prompt may take to ask for a command; more means that something else reads the keys."""
PROMPT_S: Final = 0.25
"""How long the prompt may take to appear after the shell has said that it is there; it may have none."""
OUTPUT_S: Final = 5.0
"""How long the last output may take behind the news that it was written: an engine carries the two apart, and what has
not come by then is lost. It is waited for in vain only where something threw it away."""
INTERRUPT_S: Final = 1.0
"""Between Ctrl-C and SIGKILL, and between that and giving the shell up."""
LOOK_S: Final = 0.01
"""How often the foreground is looked at while that alone is waited for; the kernel does not tell."""
INTERRUPT: Final = b"\x03"
BUSY_HINT: Final = "a program may be running: send_keys('C-c'), or wait_idle()"


def _can_be_sent(command: str) -> bool:
    """Whether it has bytes: a surrogate that stands for none has not."""
    try:
        command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


class ShellSession:
    """Runs commands in a terminal's shell, one at a time."""

    def __init__(
        self,
        box: Sandbox,
        pty: PtyProcess,
        *,
        stream: PtyStream,
        display: Display,
        options: TerminalOptions,
        pulse: Pulse,
    ) -> None:
        """`attach` must follow."""
        self._box = box
        self._pty = pty
        self._stream = stream
        self._display = display
        self._options = options
        self._pulse = pulse
        self._turn = asyncio.Lock()
        self._wire: Wire | None = None
        self._token = self._held_token = ""
        self._script_length = 0
        self._piece: str | None = None
        self._status: int | None = None
        self._is_ready = False
        self._is_missed = False
        self._modes: list[Any] | None = None
        self.dialect: str | None = None
        """`bash`, `zsh` or `posix`, once attached."""
        self.is_at_prompt = False
        self.ended: asyncio.Task[ExecResult] = asyncio.ensure_future(pty.wait())
        self.ended.add_done_callback(lambda _: pulse.beat())

    # The state, as the reports tell it.

    def _take(self, report: Report) -> None:
        if report.kind == "H":
            self.dialect = report.word if report.number == self._script_length else None
        elif report.kind == "R":
            self._is_ready, self._is_missed = True, False
        elif report.kind == "L":
            self._piece = report.word
        elif report.word == self._token:
            self._held_token = self._token
            self._status = report.number if self._status is None else self._status
            self.is_at_prompt = report.kind == "P"
        elif report.word == self._held_token:  # what it was given last has not become a command
            self._is_missed = True
            self.is_at_prompt = report.kind == "P"

    def note_input(self, data: bytes) -> None:
        """Something was typed: after Enter or Ctrl-C, only the next prompt says that the shell is idle."""
        if any(key in data for key in (b"\r", b"\n", INTERRUPT)):
            self.is_at_prompt = False
            if self._status is not None:
                self._display.expect_prompt()

    def is_idle(self) -> bool:
        """Whether the shell is at its prompt and nothing else is in the foreground."""
        return self.is_at_prompt and tty.is_shell_in_front(self._pty) is not False

    def raise_if_ended(self) -> None:
        """Raises `TerminalEnded`, or `SandboxBroken` if the whole sandbox has ended."""
        if self.ended.done():
            raise TerminalEnded(self.ended.result().exit_status)

    # Attaching.

    async def attach(self) -> None:
        """Give the shell at its prompt the functions that report.

        Raises `TerminalTimeout` when it does not answer like a shell that can be used, `TerminalEnded`,
        `SandboxBroken`.
        """
        wire = await Wire.open(self._box, self._options, self._pulse)
        await self._drop_wire()
        self._wire = wire
        secret, self._token, self._held_token = new_token(), new_token(), ""
        self.dialect, self._status, self.is_at_prompt = None, None, False
        wire.listen(secret, self._take)
        self._display.hide()
        self._display.filter.attach(self._token)
        must_repair = tty.read_modes(self._pty) is None
        self._stream.write(bootstrap(wire.holder_pid))
        script = init_script(wire.holder_pid, secret=secret, token=self._token, must_repair=must_repair)
        self._script_length = len(script)
        wire.write(f"{script}\n.\n".encode("ascii"))
        timeout_s = self._options.open_timeout_s
        await self._pulse.until(lambda: self.is_at_prompt or self.ended.done(), timeout_s)
        tail = self._display.tail()
        if not self.is_at_prompt or self.dialect is None:
            self.is_at_prompt = False
            self._display.reveal()
            await self._drop_wire()
            self.raise_if_ended()
            shell = " ".join(self._options.shell_argv)
            raise TerminalTimeout(
                f"the prompt of {shell}", timeout_s=timeout_s, tail=tail, hint="use bash, zsh or a POSIX shell"
            )
        await self.until_prompt_shows()
        if self.dialect == "posix" and self._modes is None:  # a line editor changes them while it waits
            self._modes = tty.read_modes(self._pty)

    async def until_prompt_shows(self) -> None:
        """The news on the wire may be ahead of the screen: let that catch up with the prompt."""
        await self._pulse.until(lambda: self._display.is_prompt_shown or self.ended.done(), PROMPT_S)
        self._display.reveal()

    async def _reach_prompt(self, timeout_s: float) -> None:
        self.raise_if_ended()
        if self._wire is None or self._wire.has_ended:
            await self._until_in_front(timeout_s)
            await self.attach()
        if not await self._pulse.until(lambda: self.is_at_prompt or self.ended.done(), timeout_s):
            raise TerminalTimeout("the shell's prompt", timeout_s=timeout_s, tail=self._display.tail(), hint=BUSY_HINT)
        self.raise_if_ended()

    async def _until_in_front(self, timeout_s: float) -> None:
        def is_free() -> bool:
            return self.ended.done() or tty.is_shell_in_front(self._pty) is not False

        if not await self._pulse.until(is_free, timeout_s, look_every_s=lambda: LOOK_S):
            raise TerminalTimeout("the shell", timeout_s=timeout_s, tail=self._display.tail(), hint=BUSY_HINT)

    # Commands.

    async def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """See `Terminal.run`."""
        if "\0" in command:
            raise ValueError("a command cannot hold a NUL")
        if not _can_be_sent(command):
            raise ValueError("a command cannot hold half a character")
        async with self._turn:
            started = await self._give(command, timeout_s)
            try:
                timed_out = not await self._until_over(timeout_s)
                if timed_out:
                    await self._interrupt()
            except asyncio.CancelledError:
                await asyncio.shield(self._interrupt())
                raise
            self._raise_if_unknown(command)
            return await self._result(time.monotonic() - started, timed_out=timed_out)

    def _raise_if_unknown(self, command: str) -> None:
        if self._is_over():
            return
        if self._is_missed:
            raise self._not_taken()
        why = "the terminal's second line was cut" if self._is_lost() else "its shell cannot be reached again"
        raise NoExitStatus(command, why=why, tail=self._display.tail())

    def _not_taken(self) -> TerminalTimeout:
        return TerminalTimeout("the shell to take a command", timeout_s=READY_S, tail=self._display.tail())

    async def _give(self, command: str, timeout_s: float) -> float:
        """Have the shell take the command; when it did. A shell that has lost its functions is attached to again."""
        await self._reach_prompt(timeout_s)
        if not await self._hand_over(command):
            self.raise_if_ended()
            await self._leave_line()
            if tty.read_modes(self._pty) is None:
                await tty.repair_from_inside(self._box, self._pty.pid, user=self._options.user)
            await self.attach()
            if not await self._hand_over(command):
                await self._leave_line()
                await self._drop_wire()
                raise self._not_taken()
        return time.monotonic()

    async def _hand_over(self, command: str) -> bool:
        """Whether the shell has read the command as it is, and was told to run it."""
        try:
            return await self._offer(command)
        except asyncio.CancelledError:
            await asyncio.shield(self._drop_wire())
            self._display.reveal()
            raise

    async def _drop_wire(self) -> None:
        """A shell that waits there for the rest of a command goes back to its prompt; the next one attaches again."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def _offer(self, command: str) -> bool:
        if not await self._ask_for_ready(command):
            return False
        modes = tty.read_modes(self._pty)
        if self._modes is None:
            self._modes = modes
        else:
            tty.restore_modes(self._pty, self._modes)
        # One at a time: what a terminal echoes of the next piece could stand in the middle of a report.
        for piece in pieces(command):
            if not await self._is_read(piece):
                self._display.reveal()
                return False
        self._send(self._token)
        return True

    async def _leave_line(self) -> None:
        """Have a shell that got half a line come back to its prompt.

        One that reads a command does so when the wire ends. Ctrl-C is not for it: dash may abort on one while it works.
        """
        if not self._is_ready and not self._is_missed:
            self._stream.write(INTERRUPT)
            await self._pulse.until(lambda: self.is_at_prompt or self.ended.done(), PROMPT_S)

    async def _is_read(self, piece: str) -> bool:
        self._piece = None
        self._send(piece)
        await self._pulse.until(
            lambda: self._piece is not None or self._is_missed or self._is_lost() or self.ended.done(), READY_S
        )
        return self._piece == piece

    def _send(self, line: str) -> None:
        assert self._wire is not None  # noqa: S101 - `_reach_prompt` attached
        self._wire.write(f"{line}\n".encode("ascii"))

    async def _ask_for_ready(self, command: str) -> bool:
        if self.dialect == "posix" and self._modes is not None:
            tty.restore_modes(self._pty, self._modes)
        self._token = new_token()
        self._status, self._is_ready, self._is_missed, self.is_at_prompt = None, False, False, False
        self._display.filter.expect(self._token)
        self._display.hide(command)
        self._stream.write(trigger(self.dialect))
        await self._pulse.until(lambda: self._is_ready or self._is_missed or self.ended.done(), READY_S)
        if not self._is_ready:
            self._display.reveal()
        return self._is_ready

    def _is_over(self) -> bool:
        return self.ended.done() or (self._status is not None and tty.is_shell_in_front(self._pty) is not False)

    def _is_lost(self) -> bool:
        return self._wire is None or self._wire.has_ended

    async def _until_over(self, timeout_s: float) -> bool:
        """Whether the command ended in time. A status that comes while something else is in front has to wait."""
        await self._pulse.until(
            lambda: self._is_over() or (self._status is None and (self._is_lost() or self._is_missed)),
            timeout_s,
            look_every_s=lambda: timeout_s if self._status is None else LOOK_S,
        )
        return self._is_over() or self._is_lost() or self._is_missed

    async def _interrupt(self) -> None:
        """Ctrl-C; SIGINT to the shell and SIGKILL to what is in front; a shell without our functions attached to again;
        the shell ended."""
        self._stream.discard_input()
        self._stream.write(INTERRUPT)
        if await self._until_over(INTERRUPT_S):
            return
        await tty.end_foreground(self._box, self._pty.pid, user=self._options.user)
        if await self._until_over(INTERRUPT_S):
            return
        try:
            await self.attach()
        except TerminalTimeout:
            await self._pty.kill()
            await self._pulse.until(self.ended.done, OUTPUT_S)

    async def _result(self, duration_s: float, *, timed_out: bool) -> CommandResult:
        display = self._display
        if self.ended.done():
            status = self.ended.result().exit_status
            await self._pulse.until(self._stream.has_ended.is_set, PROMPT_S)
        else:
            assert self._status is not None  # noqa: S101 - `_is_over` said so
            status = self._status
            await self._pulse.until(lambda: display.has_output_ended, OUTPUT_S)
            await self._pulse.until(lambda: self.is_at_prompt or self.ended.done(), PROMPT_S)
            await self.until_prompt_shows()
        capture, display.capture = display.capture, None
        return CommandResult(
            exit_status=TIMEOUT_STATUS if timed_out else status,
            output=b"" if capture is None else capture.kept(),
            output_bytes=0 if capture is None else capture.total_bytes,
            duration_s=duration_s,
            timed_out=timed_out,
            shell_ended=self.ended.done(),
        )

    async def close(self) -> None:
        """Let the wire go."""
        await self._drop_wire()
