"""`TerminalEnvironment`: a sandbox in a task's start state, for code that drives one itself."""

from __future__ import annotations

import shlex
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from elizaos_terminal_bench.dataset import home_of, task_of
from elizaos_terminal_bench.types import CommandStatus, TerminalCommand
from termarena.core.errors import SandboxFileError, UsageError
from termarena.sandbox.drivers import AUTO, choose_driver, open_driver
from termarena.sandbox.staging import Stage
from termarena.sandbox.terminal import TerminalOptions, open_terminal

if TYPE_CHECKING:
    from elizaos_terminal_bench.types import TerminalTask
    from termarena.sandbox.contract import Driver, Sandbox
    from termarena.sandbox.terminal import Terminal

__all__ = ["ScriptRun", "TerminalEnvironment"]

SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
STATE = "the environment is not started"


class ScriptRun(NamedTuple):
    """How a test script ended."""

    success: bool
    output: str
    exit_code: int


class TerminalEnvironment:
    """A sandbox with one shell that stays: `cd`, variables and background jobs last from command to command.

    This is no trial: nothing is recorded and nothing here becomes a score.
    """

    def __init__(
        self, *, timeout_seconds: float = 300.0, driver: str = AUTO, cache_dir: Path | str | None = None
    ) -> None:
        """`timeout_seconds` is for a command that names none."""
        self.timeout_seconds = timeout_seconds
        self._word = driver
        self._home = home_of(cache_dir)
        self._life = AsyncExitStack()
        self._driver: Driver | None = None
        self._box: Sandbox | None = None
        self._terminal: Terminal | None = None

    async def start(self, task: TerminalTask) -> None:
        """Come to the task's start state; raises what staging raises, UsageError where one is running already."""
        if self._box is not None:
            raise UsageError("the environment is started already", hint="await stop() first")
        whole = task_of(task)
        name = choose_driver(self._word, whole.environment, home=self._home).name
        async with AsyncExitStack() as life:
            driver = open_driver(name, home=self._home)
            life.push_async_callback(driver.aclose)
            stage = Stage(driver)
            life.push_async_callback(stage.aclose)
            state = await stage.prepare(whole.environment, folder=Path(whole.provenance.path), task=whole.id)
            box = await life.enter_async_context(state.start())
            terminal = await life.enter_async_context(open_terminal(box, TerminalOptions(shell_argv=SHELL)))
            self._life = life.pop_all()
            self._driver, self._box, self._terminal = driver, box, terminal

    async def stop(self) -> None:
        """End everything; raises what could not be ended."""
        self._driver = self._box = self._terminal = None
        await self._life.aclose()

    async def __aenter__(self) -> Self:
        """Itself; `start` is still to be called."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def execute(self, command: str, timeout: float | None = None) -> TerminalCommand:  # noqa: ASYNC109 - the name that users know
        """Run a command in the shell; both streams come as `stdout`, as on any terminal."""
        if self._terminal is None:
            raise UsageError(STATE, hint="await start(task) first")
        began = datetime.now(UTC)
        done = await self._terminal.run(command, timeout_s=timeout or self.timeout_seconds)
        ended = CommandStatus.SUCCESS if done.exit_status == 0 else CommandStatus.FAILED
        return TerminalCommand(
            command=command,
            stdout=done.text,
            stderr="",
            exit_code=done.exit_status,
            execution_time_ms=1000 * done.duration_s,
            timestamp=began,
            status=CommandStatus.TIMEOUT if done.timed_out else ended,
        )

    async def run_test(self, test_script: str) -> ScriptRun:
        """Run a script on a fork of the files, which leaves this environment as it is."""
        box, driver = self._started, self._driver
        if driver is None:
            raise UsageError(STATE, hint="await start(task) first")
        snapshot = await box.snapshot()
        try:
            async with driver.start(snapshot) as fork:
                await fork.write("/tmp/.test.sh", test_script.encode(), mode=0o755)  # noqa: S108 - in the fork alone
                words = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash $0 || exec sh $0", "/tmp/.test.sh"]  # noqa: S108
                done = await fork.exec(words, timeout_s=self.timeout_seconds)
        finally:
            snapshot.close()
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        return ScriptRun(done.exit_status == 0, output, done.exit_status)

    async def get_file_content(self, path: str) -> str:
        """A file's text; raises SandboxFileError."""
        return (await self._started.read(path)).decode("utf-8", "replace")

    async def write_file(self, path: str, content: str) -> None:
        """Replace a file's content, byte by byte as given; raises SandboxFileError."""
        await self._started.write(path, content.encode())

    async def list_directory(self, path: str = ".") -> list[str]:
        """The names in a folder, hidden ones too; raises SandboxFileError for what is no folder."""
        await self._require(path, "-d", "not a folder")
        done = await self.execute(f"ls -1A -- {shlex.quote(path)}")
        return done.stdout.splitlines()

    async def file_exists(self, path: str) -> bool:
        """Whether there is a regular file."""
        return await self._is(path, "-f")

    async def directory_exists(self, path: str) -> bool:
        """Whether there is a folder."""
        return await self._is(path, "-d")

    async def get_working_directory(self) -> str:
        """Where the shell is now."""
        return (await self.execute("pwd")).stdout.strip()

    @property
    def _started(self) -> Sandbox:
        if self._box is None:
            raise UsageError(STATE, hint="await start(task) first")
        return self._box

    async def _is(self, path: str, test: str) -> bool:
        return (await self.execute(f"test {test} {shlex.quote(path)}")).exit_code == 0

    async def _require(self, path: str, test: str, problem: str) -> None:
        if not await self._is(path, test):
            raise SandboxFileError("list", path, problem=problem)
