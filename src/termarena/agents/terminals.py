"""A terminal of the sandbox as an agent has it: every key counted, every wait bound by the deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.agents.recording import Call, Told
from termarena.core.errors import TermArenaError, WorkspaceClosed
from termarena.sandbox.terminal.wire import HOLDER

if TYPE_CHECKING:
    import re
    from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
    from contextlib import AsyncExitStack

    from termarena.agents.workspace import TrialWorkspace
    from termarena.sandbox.contract import ProcessInfo
    from termarena.sandbox.terminal import CommandResult, ScreenState, Terminal

__all__ = ["RecordedTerminal"]

WAIT_S: Final = 60.0


class RecordedTerminal:
    """See `AgentTerminal`; it outlives the agent's use of it while something runs there."""

    def __init__(self, workspace: TrialWorkspace, terminal: Terminal, life: AsyncExitStack, *, number: int) -> None:
        """`life` ends the terminal; `number` is its recording's."""
        self._workspace = workspace
        self.terminal = terminal
        self._life = life
        self.number = number
        self._is_left = False

    # What it shows.

    def _look(self) -> Terminal:
        self._workspace.require_open()
        if self._is_left:
            raise WorkspaceClosed("this terminal was left")
        return self.terminal

    @property
    def shell(self) -> str | None:
        """`bash`, `zsh` or `posix`."""
        return self._look().shell

    @property
    def has_ended(self) -> bool:
        """Whether the shell has ended."""
        return self._look().has_ended

    @property
    def output_bytes(self) -> int:
        """How much the terminal has received since it was opened."""
        return self._look().output_bytes

    def screen(self) -> ScreenState:
        """What a person would see now."""
        return self._look().screen()

    def scrollback(self, max_lines: int = 1000) -> tuple[str, ...]:
        """The last lines that have scrolled off the screen, oldest first."""
        return self._look().scrollback(max_lines)

    # What is typed.

    def _typed(self, name: str, arguments: dict[str, object], do: Callable[[], None]) -> None:
        self._look()
        call = self._call(name, arguments)
        told = Told(error="it was not sent")
        try:
            do()
            told = Told()
        except TermArenaError as error:
            told = Told(error=str(error))
            raise
        finally:
            self._workspace.record(call, told)

    def _call(self, name: str, arguments: dict[str, object]) -> Call:
        return Call(f"terminal.{name}", {"terminal": self.number, **arguments})

    def send_keys(self, *names: str) -> None:
        """Press keys by name."""
        self._typed("send_keys", {"keys": list(names)}, lambda: self.terminal.send_keys(*names))

    def type_text(self, text: str) -> None:
        """Type text; a newline is the Enter key."""
        self._typed("type_text", {"text": text}, lambda: self.terminal.type_text(text))

    def paste(self, text: str) -> None:
        """Paste text."""
        self._typed("paste", {"text": text}, lambda: self.terminal.paste(text))

    def resize(self, cols: int, rows: int) -> None:
        """Another size."""
        self._look().resize(cols, rows)

    # What takes time.

    async def run(self, command: str, *, timeout_s: float = WAIT_S) -> CommandResult:
        """Run a command in the shell that stays."""
        terminal = self._look()
        return await self._workspace.carry_out(
            self._call("run", {"command": command, "timeout_s": timeout_s}),
            lambda: terminal.run(command, timeout_s=self._workspace.within(timeout_s)),
            _ran,
        )

    async def wait_quiet(self, quiet_s: float = 0.25, *, timeout_s: float = WAIT_S) -> None:
        """Until nothing has come for a while."""
        await self._wait(lambda: self.terminal.wait_quiet(quiet_s, timeout_s=self._workspace.within(timeout_s)))

    async def wait_for(self, pattern: str | re.Pattern[str], *, timeout_s: float = WAIT_S) -> None:
        """Until a text or a compiled pattern is there."""
        await self._wait(lambda: self.terminal.wait_for(pattern, timeout_s=self._workspace.within(timeout_s)))

    async def wait_idle(self, *, timeout_s: float = WAIT_S) -> None:
        """Until the shell is back at its prompt."""
        await self._wait(lambda: self.terminal.wait_idle(timeout_s=self._workspace.within(timeout_s)))

    async def _wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._look()
        await self._workspace.carry_out(None, wait)

    async def close(self) -> None:
        """Hang up."""
        await self._workspace.carry_out(None, self.hang_up)

    # For the workspace.

    def leave(self) -> None:
        """The agent has no more to do with it."""
        self._is_left = True

    async def hang_up(self) -> None:
        """End the terminal, whatever runs in it; safe to call again."""
        await self._life.aclose()

    @property
    def shell_pid(self) -> int:
        """The shell's number inside the sandbox."""
        return self.terminal.shell_pid

    def is_used(self, processes: Sequence[ProcessInfo], shells: Container[int]) -> bool:
        """Whether something runs that may have been started in it: what is below its shell, and what is below none.

        A daemon has no parent to tell by, and may still write to the terminal.
        """
        parents = {process.pid: process.parent for process in processes}
        return any(
            _shell_above(process.pid, parents, shells) in (self.shell_pid, None)
            for process in processes
            if process.pid not in shells and process.argv != HOLDER
        )


def _shell_above(pid: int, parents: Mapping[int, int], shells: Container[int]) -> int | None:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid in shells:
            return pid
    return None


def _ran(result: CommandResult) -> Told:
    return Told(
        output=result.text.encode("utf-8", "replace"),
        output_bytes=result.output_bytes,
        exit_status=result.exit_status,
        timed_out=result.timed_out,
        facts={"shell_ended": True} if result.shell_ended else {},
    )
