"""The workspace of a trial: an agent's reach into one sandbox, counted, recorded, and closed in time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeVar, runtime_checkable

from termarena.agents.own_files import OwnFiles
from termarena.agents.recording import Call, Told
from termarena.core.errors import SandboxBroken, SandboxFileError, TermArenaError, WorkspaceClosed
from termarena.sandbox.contract import ROOT_NAMES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from termarena.agents.recording import Recording
    from termarena.agents.terminals import RecordedTerminal
    from termarena.core.trajectory import Step
    from termarena.sandbox.contract import ExecResult, PtyProcess, Sandbox, TreeReport
    from termarena.sandbox.terminal import CastWriter, Terminal, TerminalOptions

__all__ = ["CLEAN_UP", "TrialWorkspace"]

T = TypeVar("T")

SCROLLBACK_LINES: Final = 50_000
"""Of a terminal whose options the agent leaves to us."""
LONGEST_ARGUMENT_BYTES: Final = 100_000
"""A longer script goes through a file: Linux takes 128 KiB in one argument."""
# The best shell that is there, found without a command of its own.
SCRIPT: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1" bash; exec sh -c "$1" sh'
SCRIPT_FILE: Final = 'command -v bash >/dev/null 2>&1 && exec bash "$1"; exec sh "$1"'
ANY_SHELL: Final = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec /bin/sh")
# Removes the folder unless a process that was left behind still stands in it or was started from it. The folder comes
# as a variable: as an argument, this very shell would be such a process. `read` leaves out the NULs between words; one
# program more for every process that is looked at would cost more than the script's own start.
CLEAN_UP: Final = """
for process in /proc/[0-9]*; do
  [ "$process" = "/proc/$$" ] && continue
  cd -P "$process/cwd" && case "$PWD" in *"$FOLDER"*) exit 0 ;; esac
  while read -r words || [ -n "$words" ]; do
    case "$words" in *"$FOLDER"*) exit 0 ;; esac
  done <"$process/cmdline"
done 2>/dev/null
cd / && exec rm -rf "$FOLDER"
"""


@runtime_checkable
class _Clearing(Protocol):
    """A sandbox that can remove a folder without running anything."""

    async def clear_away(self, path: str) -> bool: ...


def _nothing(_: object) -> Told:
    return Told()


class TrialWorkspace:
    """See `Workspace`. As an `async with` it is closed and hung up at the end; `close` ends the agent's reach
    sooner."""

    def __init__(
        self,
        box: Sandbox,
        recording: Recording,
        *,
        deadline: float,
        user: str | None = None,
        keeps_terminals: bool = False,
    ) -> None:
        """`deadline` is in the time of `time.monotonic`; `user` is who the agent is, by default the sandbox's own.

        With `keeps_terminals` no terminal is hung up before `hang_up`: tests will be typed into the last one.
        """
        self._box = box
        self._recording = recording
        self._deadline = deadline
        self._user = user
        self._under_way: dict[asyncio.Future[Any], asyncio.Event] = {}
        self._keeps_terminals = keeps_terminals
        self._terminals: set[RecordedTerminal] = set()
        self._why_closed: str | None = None
        self._last_error: BaseException | None = None

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it and hang up every terminal."""
        await self.close()
        await self.hang_up()

    # Time.

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(self._deadline - time.monotonic(), 0.0)

    def within(self, timeout_s: float | None) -> float:
        """No longer than until the deadline."""
        return self.seconds_left if timeout_s is None else min(timeout_s, self.seconds_left)

    def require_open(self) -> None:
        """Raises `WorkspaceClosed`."""
        if self._why_closed is not None:
            raise WorkspaceClosed(self._why_closed)
        if self.seconds_left <= 0:
            raise WorkspaceClosed("the time is up")

    # What an agent does.

    async def exec(
        self,
        argv: Sequence[str] | str,
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """See the contract."""
        what = {"script": argv} if isinstance(argv, str) else {"argv": list(argv)}
        how = {
            "stdin": stdin or None,
            "timeout_s": timeout_s,
            "user": user,
            "cwd": cwd,
            "env": dict(env) if env else None,
        }

        async def run() -> ExecResult:
            async with self._words(argv) as words:
                return await self._box.exec(
                    words, stdin=stdin, timeout_s=self.within(timeout_s), user=user or self._user, cwd=cwd, env=env
                )

        return await self.carry_out(Call("exec", {**what, **how}), run, _executed)

    @contextlib.asynccontextmanager
    async def _words(self, argv: Sequence[str] | str) -> AsyncIterator[Sequence[str]]:
        if not isinstance(argv, str):
            yield argv
        elif len(argv.encode("utf-8", "surrogateescape")) <= LONGEST_ARGUMENT_BYTES:
            yield ["/bin/sh", "-c", SCRIPT, "sh", argv]
        else:
            path = f"/tmp/.script-{os.urandom(8).hex()}"  # noqa: S108 - inside the sandbox, by a name of its own
            await self._box.write(path, argv.encode("utf-8", "surrogateescape"), user=self._user)
            yield ["/bin/sh", "-c", SCRIPT_FILE, "sh", path]
            await self._box.exec(["rm", "-f", path], cwd="/", user=self._user)

    @contextlib.asynccontextmanager
    async def terminal(self, options: TerminalOptions | None = None) -> AsyncIterator[RecordedTerminal]:
        """See the contract; raises `ValueError` for options with a recording of their own."""
        from termarena.sandbox.terminal import TerminalOptions  # noqa: PLC0415 - many agents open none

        chosen = options or TerminalOptions(scrollback_lines=SCROLLBACK_LINES)
        if tuple(chosen.shell_argv) == TerminalOptions().shell_argv:
            chosen = dataclasses.replace(chosen, shell_argv=ANY_SHELL)
        if chosen.cast is not None:
            raise ValueError("the workspace records its terminals itself")
        size = {"cols": chosen.cols, "rows": chosen.rows, "shell_argv": list(chosen.shell_argv)}
        opened: RecordedTerminal = await self.carry_out(
            Call("terminal", size), lambda: self._open(dataclasses.replace(chosen, user=chosen.user or self._user))
        )
        try:
            yield opened
        finally:
            opened.leave()
            if self._why_closed is None:
                await asyncio.shield(self._leave(opened))

    async def _open(self, options: TerminalOptions) -> RecordedTerminal:
        from termarena.agents.terminals import RecordedTerminal  # noqa: PLC0415 - as above
        from termarena.sandbox.terminal import open_terminal  # noqa: PLC0415 - as above

        number, cast = self._recording.new_cast()
        life = AsyncExitStack()
        try:
            terminal = await life.enter_async_context(open_terminal(self._box, dataclasses.replace(options, cast=cast)))
        except BaseException:
            self._recording.drop_cast(number)
            raise
        opened = RecordedTerminal(self, terminal, life, number=number)
        self._terminals.add(opened)
        return opened

    async def attend(self, person: Callable[[PtyProcess, CastWriter], Awaitable[int]], *, cols: int, rows: int) -> int:
        """A shell on a terminal that somebody else reads and writes, recorded; the status that they return.

        Not for agents: what is typed is in the recording alone. It is hung up at the end.
        """

        async def sit() -> int:
            number, cast = self._recording.new_cast()
            try:
                pty = await self._box.open_pty(ANY_SHELL, cols=cols, rows=rows, user=self._user)
            except BaseException:
                self._recording.drop_cast(number)
                raise
            try:
                cast.begin(cols, rows)
                return await person(pty, cast)
            finally:
                pty.close()
                cast.close()

        call = Call("person", {"cols": cols, "rows": rows})
        return await self.carry_out(call, sit, lambda status: Told(exit_status=status))

    async def read(self, path: str) -> bytes:
        """See the contract."""
        return await self.carry_out(
            Call("read", {"path": path}),
            lambda: self._read(path),
            lambda content: Told(output=content, output_bytes=len(content)),
        )

    async def write(self, path: str, content: bytes) -> None:
        """See the contract."""
        await self.carry_out(
            Call("write", {"path": path, "content": content}),
            lambda: self._write(path, content),
            _nothing,
        )

    async def _read(self, path: str) -> bytes:
        who = self._user or self._box.spec.user
        if who in ROOT_NAMES:
            return await self._box.read(path)
        return await OwnFiles(self._box, who).read(path, timeout_s=self.seconds_left)

    async def _write(self, path: str, content: bytes) -> None:
        who = self._user or self._box.spec.user
        if who in ROOT_NAMES:
            await self._box.write(path, content)
        else:
            await OwnFiles(self._box, who).write(path, content, timeout_s=self.seconds_left)

    async def put_tree(self, source: Path, target: str) -> TreeReport:
        """See the contract."""
        return await self.carry_out(
            Call("put_tree", {"target": target}),
            lambda: self._box.put_tree(source, target, user=self._user),
            lambda report: Told(facts={"files": report.files, "size_bytes": report.size_bytes}),
        )

    async def clean_up(self, folder: str) -> None:
        """Remove what the harness laid down for the agent, unless something that was left running needs it.

        It is no command of the agent's. Raises `WorkspaceClosed`, and what `exec` raises.
        """
        await self.carry_out(Call("clean_up", {"path": folder}), lambda: self._clean_up(folder))

    async def _clean_up(self, folder: str) -> None:
        box = self._box
        if isinstance(box, _Clearing):
            with contextlib.suppress(SandboxFileError):
                if await box.clear_away(folder):
                    return
        words, env = ["/bin/sh", "-c", CLEAN_UP], {"FOLDER": folder}
        await box.exec(words, env=env, user="root", cwd="/", timeout_s=self.seconds_left)

    def note(self, step: Step) -> None:
        """See the contract."""
        self.require_open()
        self._recording.note(step)

    def message(self, direction: Literal["sent", "received"], content: object) -> None:
        """See the contract."""
        self.require_open()
        self._recording.message(direction, content)

    # How it is done.

    async def carry_out(
        self, call: Call | None, work: Callable[[], Awaitable[T]], told: Callable[[T], Told] = _nothing
    ) -> T:
        """Do it, unless the workspace is closed meanwhile; how a call ended is recorded, whichever way.

        Raises `WorkspaceClosed`, and what the work raises.
        """
        self.require_open()
        task = asyncio.ensure_future(work())
        ended = self._under_way[task] = asyncio.Event()
        outcome = Told(error="interrupted")
        try:
            result = await task
            outcome = told(result)
        except asyncio.CancelledError:
            outcome = Told(error=f"ended: {self._why_closed or 'the agent gave it up'}")
            if self._why_closed is not None and not _is_cancelled():
                raise WorkspaceClosed(self._why_closed) from None
            raise
        except (TermArenaError, OSError, ValueError) as error:
            outcome = Told(error=f"{type(error).__name__}: {error}")
            self._last_error = error
            raise
        finally:
            del self._under_way[task]
            if call is not None:
                self._recording.add(call, outcome)
            ended.set()
        return result

    def has_raised(self, error: BaseException) -> bool:
        """Whether an error that an agent ended by is the last one that it was given here, and not one of its own."""
        return error is self._last_error

    def record(self, call: Call, told: Told) -> None:
        """Keep a call that took no time."""
        self._recording.add(call, told)

    # The end.

    async def close(self, why: str = "the work is sealed") -> None:
        """End the agent's reach: every further call raises `WorkspaceClosed`, those under way are ended inside.

        Terminals in which nothing runs are hung up; the others stay until `hang_up`. Safe to call again.
        """
        if self._why_closed is None:
            self._why_closed = why
        for task in self._under_way:
            task.cancel()
        for ended in tuple(self._under_way.values()):
            await ended.wait()
        await self._leave(*self._terminals)

    async def _leave(self, *terminals: RecordedTerminal) -> None:
        """Hang up those in which nothing runs."""
        if not terminals or self._keeps_terminals:
            return
        try:
            processes = await self._box.processes()
        except SandboxBroken:
            processes = ()
        shells = {terminal.shell_pid for terminal in self._terminals}
        for terminal in terminals:
            if not terminal.is_used(processes, shells):
                await terminal.hang_up()
                self._terminals.discard(terminal)

    @property
    def last_terminal(self) -> Terminal | None:
        """The one that was opened last and is still there, as the sandbox has it: for tests, never for agents."""
        last = max(self._terminals, key=lambda terminal: terminal.number, default=None)
        return last.terminal if last is not None else None

    async def hang_up(self) -> None:
        """End every terminal that is still there."""
        while self._terminals:
            await self._terminals.pop().hang_up()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _executed(result: ExecResult) -> Told:
    output = result.stdout
    if result.stderr:
        output += (b"" if not output or output.endswith(b"\n") else b"\n") + b"[stderr]\n" + result.stderr
    return Told(
        output=output,
        output_bytes=result.stdout_bytes + result.stderr_bytes,
        exit_status=result.exit_status,
        timed_out=result.timed_out,
        facts={"stderr_bytes": result.stderr_bytes, **({"oom_killed": True} if result.oom_killed else {})},
    )
