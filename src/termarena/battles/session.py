"""A session: one agent's terminal for one attempt at one task, whichever door it comes through.

State stays between commands: folder, variables, background jobs. Requests are done one after the other.
"""

from __future__ import annotations

import asyncio
import base64
import posixpath
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from termarena.agents.truncation import head_and_tail
from termarena.battles.shell_v1 import ACTIONS, PROTOCOL, Exec, Keys, ListDir, ReadFile, Submit, WriteFile
from termarena.core.errors import (
    NoExitStatus,
    NotFound,
    SandboxFileError,
    TerminalEnded,
    TerminalTimeout,
    WorkspaceClosed,
)
from termarena.sandbox.contract import TIMEOUT_STATUS
from termarena.sandbox.terminal import TerminalOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.agents.contract import AgentTerminal, Brief, Workspace
    from termarena.battles.shell_v1 import Request
    from termarena.core.records import Json
    from termarena.sandbox.terminal import CommandResult

__all__ = ["Session", "SessionLimits", "Tally"]

COLS: Final = 160
ROWS: Final = 40
# A program that pages its output would wait for a key that no agent presses.
QUIET: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat"}
QUIET_S: Final = 0.15
LIST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one session allows."""

    default_timeout_s: float = 30.0
    """For a command that sets none, as everybody has it who speaks the protocol."""
    max_timeout_s: float = 3600.0
    """The longest of one command; the task's own time is shorter, mostly."""
    max_output_bytes: int = 64 << 10
    """Of one output, for the agent: its beginning and its end; the trajectory has more."""
    max_file_bytes: int = 1 << 20
    """Of one file that is read."""
    max_turns: int = 1000


@dataclass(slots=True)
class Tally:
    """What happened so far."""

    turns: int = 0
    commands: int = 0
    timeouts: int = 0
    parse_errors: int = 0
    transport_retries: int = 0

    def plus(self, other: Tally | None) -> Tally:
        """Both together."""
        if other is None:
            return self
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class Session:
    """See the module. As an `async with`; a shell is opened when the first command comes."""

    def __init__(self, workspace: Workspace, brief: Brief, limits: SessionLimits | None = None) -> None:
        """The workspace says how much time is left, and closes when it is over."""
        self._workspace = workspace
        self.brief = brief
        self.limits = limits or SessionLimits()
        self.tally = Tally()
        self.submitted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._turn = asyncio.Lock()
        self._life = AsyncExitStack()
        self._terminal: AgentTerminal | None = None

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the shell; what runs in it goes on. Nobody waits for the agent's submission any more."""
        self.submitted.cancel()
        await self._life.aclose()

    @property
    def is_exhausted(self) -> bool:
        """Whether every turn is used."""
        return self.tally.turns >= self.limits.max_turns

    def task_message(self) -> dict[str, Json]:
        """What the agent is told at the beginning."""
        return {
            "kind": "task",
            "protocol": PROTOCOL,
            "instruction": self.brief.instruction,
            "task_id": self.brief.task_id,
            "step": self.brief.step,
            "cwd": self.brief.workdir,
            "user": self.brief.user,
            "network": self.brief.network,
            "deadline_sec": round(self._workspace.seconds_left, 1),
            "max_turns": self.limits.max_turns,
            "default_timeout": self.limits.default_timeout_s,
            "max_timeout": self.limits.max_timeout_s,
            "max_output_bytes": self.limits.max_output_bytes,
            "actions": list(ACTIONS),
        }

    async def do(self, request: Request) -> dict[str, Json]:
        """Carry a request out; what came of it, as the protocol tells it.

        Raises `WorkspaceClosed` after a submission, and what says that the workspace or the sandbox is gone.
        """
        async with self._turn:
            if self.submitted.done():
                raise WorkspaceClosed("the work was handed in")
            if self.is_exhausted:
                return {"kind": "error", "code": "no_turns_left", "message": "all turns are used"}
            self.tally.turns += 1
            try:
                told = await self._do(request)
            except SandboxFileError as error:
                told = {"kind": "error", "code": "file_error", "message": str(error)}
            except NotFound as error:
                told = {"kind": "error", "code": "no_such_key", "message": error.message}
        return {**told, "time_left_sec": round(self._workspace.seconds_left, 1), "turn": self.tally.turns}

    async def _do(self, request: Request) -> dict[str, Json]:
        if isinstance(request, Exec):
            return await self._exec(request)
        if isinstance(request, ReadFile):
            return await self._read(request.path)
        if isinstance(request, WriteFile):
            path = self._path(request.path)
            await self._workspace.write(path, request.content)
            return {"kind": "write_file_result", "path": path, "size_bytes": len(request.content)}
        if isinstance(request, ListDir):
            return await self._list(request.path)
        if isinstance(request, Keys):
            return await self._press(request)
        return self._submit(request)

    def _path(self, path: str) -> str:
        return posixpath.join(self.brief.workdir or "/", path)

    def _submit(self, request: Submit) -> dict[str, Json]:
        if not self.submitted.done():
            self.submitted.set_result(request.output)
        return {"kind": "submit_result", "accepted": True}

    # Commands.

    async def _exec(self, request: Exec) -> dict[str, Json]:
        self.tally.commands += 1
        asked_s = request.timeout_s or self.limits.default_timeout_s
        terminal = await self._shell()
        try:
            done = await terminal.run(request.command, timeout_s=min(asked_s, self.limits.max_timeout_s))
        except (TerminalTimeout, TerminalEnded, NoExitStatus) as error:
            return await self._lost(error)
        if done.shell_ended:
            await self._drop()
        return self._ran(done)

    def _ran(self, done: CommandResult) -> dict[str, Json]:
        self.tally.timeouts += done.timed_out
        text, limit = done.text, self.limits.max_output_bytes
        missing = max(done.output_bytes - len(done.output), 0)
        return {
            "kind": "exec_result",
            "exit_code": done.exit_status,
            "stdout": head_and_tail(text, limit, already_missing=missing),
            "stderr": "",
            "timed_out": done.timed_out,
            "truncated": bool(missing) or len(text) > limit,
            "total_bytes": done.output_bytes,
            "duration_ms": round(done.duration_s * 1000),
            **({"shell_ended": True} if done.shell_ended else {}),
        }

    async def _lost(self, error: TerminalTimeout | TerminalEnded | NoExitStatus) -> dict[str, Json]:
        """The shell does not come back to its prompt, or is gone: the next command gets a new one."""
        self.tally.timeouts += isinstance(error, TerminalTimeout)
        await self._drop()
        return {
            "kind": "exec_result",
            "exit_code": TIMEOUT_STATUS,
            "stdout": head_and_tail(str(getattr(error, "tail", "")), self.limits.max_output_bytes),
            "stderr": "",
            "timed_out": isinstance(error, TerminalTimeout),
            "error": f"{error}; the next command gets a new shell",
        }

    async def _shell(self) -> AgentTerminal:
        if self._terminal is None:
            options = TerminalOptions(cols=COLS, rows=ROWS, env=QUIET)
            self._terminal = await self._life.enter_async_context(self._workspace.terminal(options))
        return self._terminal

    async def _drop(self) -> None:
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            await terminal.close()

    async def _press(self, request: Keys) -> dict[str, Json]:
        terminal = await self._shell()
        try:
            if request.names:
                terminal.send_keys(*request.names)
            if request.text:
                terminal.type_text(request.text)
            await terminal.wait_quiet(QUIET_S, timeout_s=max(request.wait_s, QUIET_S * 2))
        except TerminalTimeout:
            pass  # it goes on changing: what is there now is what the agent gets
        except TerminalEnded as error:
            await self._drop()
            return {"kind": "error", "code": "shell_ended", "message": str(error)}
        screen = terminal.screen()
        return {
            "kind": "keys_result",
            "screen": screen.text,
            "cursor": {"column": screen.cursor.column, "row": screen.cursor.row},
        }

    # Files.

    async def _read(self, path: str) -> dict[str, Json]:
        content = await self._workspace.read(self._path(path))
        told: dict[str, Json] = {
            "kind": "read_file_result",
            "path": self._path(path),
            "size_bytes": len(content),
            "truncated": len(content) > self.limits.max_file_bytes,
        }
        return {**told, **_spelled(content[: self.limits.max_file_bytes])}

    async def _list(self, path: str) -> dict[str, Json]:
        there = self._path(path)
        listed = await self._workspace.exec(["ls", "-1Ap", "--", there], timeout_s=LIST_S)
        if listed.exit_status != 0:
            problem = listed.stderr.decode("utf-8", "replace").strip()[:500]
            return {"kind": "error", "code": "file_error", "message": problem or f"cannot list {there}"}
        text = listed.stdout[: self.limits.max_file_bytes].decode("utf-8", "replace")
        entries: list[Json] = list(text.splitlines())
        is_cut = listed.stdout_bytes > self.limits.max_file_bytes
        return {"kind": "list_dir_result", "path": there, "entries": entries, "truncated": is_cut}


def _spelled(content: bytes) -> Mapping[str, Json]:
    try:
        return {"content": content.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"content": base64.b64encode(content).decode(), "encoding": "base64"}
