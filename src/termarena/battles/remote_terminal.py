"""The session's terminal, seen from the agent's end: commands at once, keys when something is waited for."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from termarena.core.errors import AgentError, TerminalTimeout
from termarena.sandbox.terminal import CommandResult, ScreenState
from termarena.sandbox.terminal.contract import Cursor

if TYPE_CHECKING:
    from termarena.battles.remote import RemoteWorkspace
    from termarena.core.records import Json

__all__ = ["RemoteTerminal"]

COLS: Final = 160
ROWS: Final = 40


class RemoteTerminal:
    """See `AgentTerminal`. What is typed is sent with the next wait; the screen is the one that came last."""

    shell = "posix"
    has_ended = False

    def __init__(self, workspace: RemoteWorkspace) -> None:
        """One per session: there is one terminal."""
        self._workspace = workspace
        self._typed: list[dict[str, Json]] = []
        self._screen = ""
        self.output_bytes = 0

    def screen(self) -> ScreenState:
        """What the referee showed last."""
        lines = self._screen.split("\n")[:ROWS]
        lines += [""] * (ROWS - len(lines))
        return ScreenState(COLS, ROWS, tuple(lines), Cursor(0, 0), title="", is_alternate=False)

    def scrollback(self, max_lines: int = 1000) -> tuple[str, ...]:  # noqa: ARG002 - the contract's
        """The protocol has none."""
        return ()

    def send_keys(self, *names: str) -> None:
        """Sent with the next wait."""
        self._typed.append({"kind": "keys", "keys": list(names)})

    def type_text(self, text: str) -> None:
        """Sent with the next wait."""
        self._typed.append({"kind": "keys", "text": text})

    def paste(self, text: str) -> None:
        """As if it were typed."""
        self.type_text(text)

    def resize(self, cols: int, rows: int) -> None:
        """The protocol has no other size."""

    async def run(self, command: str, *, timeout_s: float = 60.0) -> CommandResult:
        """A command in the shell that stays."""
        await self._flush(0.0)
        began = time.monotonic()
        told = await self._workspace.run(command, timeout_s=timeout_s)
        output = (str(told.get("stdout", "")) + str(told.get("stderr", ""))).encode("utf-8", "replace")
        status, total = told.get("exit_code"), told.get("total_bytes")
        if not isinstance(status, int):
            raise AgentError(f"the referee told no exit status: {str(told)[:300]}")
        self.output_bytes += len(output)
        return CommandResult(
            exit_status=status,
            output=output,
            output_bytes=max(total, len(output)) if isinstance(total, int) else len(output),
            duration_s=time.monotonic() - began,
            timed_out=told.get("timed_out") is True,
        )

    async def wait_quiet(self, quiet_s: float = 0.25, *, timeout_s: float = 60.0) -> None:  # noqa: ARG002 - the contract's
        """Send what was typed, and see the screen once it is quiet."""
        await self._flush(timeout_s)

    async def wait_idle(self, *, timeout_s: float = 60.0) -> None:
        """The protocol cannot tell a prompt from silence."""
        await self._flush(timeout_s)

    async def wait_for(self, pattern: str | re.Pattern[str], *, timeout_s: float = 60.0) -> None:
        """Look at the screen until it is there."""
        found = re.compile(re.escape(pattern)) if isinstance(pattern, str) else pattern
        deadline = time.monotonic() + timeout_s
        await self._flush(1.0)
        while not found.search(self._screen):
            if time.monotonic() > deadline:
                raise TerminalTimeout(repr(found.pattern), timeout_s=timeout_s, tail=self._screen[-400:])
            self._typed.append({"kind": "keys", "keys": []})
            await self._flush(1.0)

    async def close(self) -> None:
        """The session's terminal ends with the session."""

    async def _flush(self, wait_s: float) -> None:
        if self._typed and "keys" not in self._workspace.errand.actions:
            raise AgentError("this referee takes no keys, only commands")
        typed, self._typed = self._typed, []
        for number, table in enumerate(typed, 1):
            is_last = number == len(typed)
            told = await self._workspace.request({**table, "wait": wait_s if is_last and wait_s > 0 else 0.1})
            self._screen = str(told.get("screen", self._screen))
