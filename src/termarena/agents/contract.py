"""The agent contract: what an agent is given, what it may touch, and what it tells at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from termarena.core.trajectory import Step
    from termarena.sandbox.contract import Driver, ExecResult, TreeReport
    from termarena.sandbox.spec import SandboxSpec
    from termarena.sandbox.staging import StartState
    from termarena.sandbox.terminal import CommandResult, ScreenState, TerminalOptions
    from termarena.tasks.model import McpServer

__all__ = [
    "Agent",
    "AgentEnd",
    "AgentReport",
    "AgentTerminal",
    "Brief",
    "Elsewhere",
    "Ground",
    "Metered",
    "OwnEnd",
    "Resident",
    "Usage",
    "Workspace",
]

AgentEnd = Literal["submitted", "timeout", "error", "parse_error", "refused", "resource_limit", "cancelled"]
OwnEnd = Literal["submitted", "parse_error", "refused", "resource_limit", "timeout"]
"""Those that an agent can tell itself; `timeout` where it stopped shortly before its time was up."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What an agent knows of the task: the instruction and its limits. Never tests, solution or grading."""

    task_id: str
    instruction: str
    timeout_s: float
    """How long the agent has, from the call of `solve`; the workspace closes then, whatever the agent does."""
    step: str | None = None
    """The name of the step, in a task of several."""
    workdir: str | None = None
    user: str | None = None
    network: Literal["none", "allowlist", "model_only", "public"] = "none"
    mcp_servers: tuple[McpServer, ...] = ()
    skills_dir: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What the agent's model consumed; None is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, other: Usage) -> Usage:
        """Both together; what one of them does not know is unknown."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.cost_usd, other.cost_usd),
        )


Number = TypeVar("Number", int, float)


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class AgentReport:
    """How the agent sees its own end. A wrong answer is a report too; only a crash is an exception."""

    end: OwnEnd = "submitted"
    message: str = ""
    """Its last words."""
    usage: Usage = Usage()
    model: str | None = None


@runtime_checkable
class AgentTerminal(Protocol):
    """A terminal as an agent has it: that of the sandbox, where what is typed is recorded as steps.

    Raises what `termarena.sandbox.terminal.Terminal` raises; no wait and no command lasts beyond the deadline.
    """

    @property
    def shell(self) -> str | None:
        """`bash`, `zsh` or `posix`."""

    @property
    def has_ended(self) -> bool:
        """Whether the shell has ended."""

    @property
    def output_bytes(self) -> int:
        """How much the terminal has received since it was opened."""

    def screen(self) -> ScreenState:
        """What a person would see now."""

    def scrollback(self, max_lines: int = 1000) -> tuple[str, ...]:
        """The last lines that have scrolled off the screen, oldest first."""

    def send_keys(self, *names: str) -> None:
        """Press keys by name: `C-c`, `Up`, `Enter`."""

    def type_text(self, text: str) -> None:
        """Type text; a newline is the Enter key."""

    def paste(self, text: str) -> None:
        """Paste text; a shell does not run it line by line."""

    def resize(self, cols: int, rows: int) -> None:
        """Another size."""

    async def run(self, command: str, *, timeout_s: float = 60.0) -> CommandResult:
        """Run a command in the shell that stays, and wait for its end."""

    async def wait_quiet(self, quiet_s: float = 0.25, *, timeout_s: float = 60.0) -> None:
        """Until nothing has come for a while."""

    async def wait_for(self, pattern: str | re.Pattern[str], *, timeout_s: float = 60.0) -> None:
        """Until a text or a compiled pattern is there."""

    async def wait_idle(self, *, timeout_s: float = 60.0) -> None:
        """Until the shell is back at its prompt."""

    async def close(self) -> None:
        """Hang up: the shell and its jobs get SIGHUP."""


@runtime_checkable
class Workspace(Protocol):
    """An agent's reach into the sandbox, for the length of one `solve`.

    Every call is counted and becomes a step of the trajectory. After the deadline, and after the trial has sealed the
    sandbox, every method raises `WorkspaceClosed`. There is no door to tests, solution or grader output.
    """

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""

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
        """Run a program; a string is a script for bash where the sandbox has it, else for sh; nothing is quoted.

        A timeout later than the deadline is the deadline.
        """

    def terminal(self, options: TerminalOptions | None = None) -> AbstractAsyncContextManager[AgentTerminal]:
        """A terminal; it is recorded as `terminal.cast`, further ones of the same trial as `terminal-2.cast` …

        Its shell is bash where the sandbox has it, unless the options name another than `/bin/sh`. Leaving the
        `async with` hangs up only if nothing runs in it: what an agent started in a terminal is still there when a live
        grading looks, as when a person leaves a window open. `close()` hangs up at once.
        """

    async def read(self, path: str) -> bytes:
        """A file's content, as the agent's own user may read it; raises `SandboxFileError`."""

    async def write(self, path: str, content: bytes) -> None:
        """Replace a file's content, as the agent's own user may; raises `SandboxFileError`."""

    async def put_tree(self, source: Path, target: str) -> TreeReport:
        """Copy a folder of the host into the sandbox."""

    def note(self, step: Step) -> None:
        """Add a step of the agent's own to the trajectory: what its model said, thought and used."""

    def message(self, direction: Literal["sent", "received"], content: object) -> None:
        """Keep one verbatim protocol message (`messages.jsonl`); `content` is what JSON can hold."""


@runtime_checkable
class Agent(Protocol):
    """Whatever can try a task. One object serves one attempt."""

    @property
    def name(self) -> str:
        """As in `--agent`."""

    @property
    def version(self) -> str:
        """Recorded with the result."""

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Try the task and return when done; an exception is `agent_end: error`, and the state is still graded."""


@runtime_checkable
class Metered(Protocol):
    """An agent that can say what it has used before it returns, and after it was interrupted."""

    @property
    def usage(self) -> Usage:
        """Of the whole attempt, up to now."""


@runtime_checkable
class Elsewhere(Protocol):
    """An agent behind an address. Where nobody was there, `AgentGone` says nothing about the agent."""

    @property
    def is_told(self) -> bool:
        """Whether anything of the task may have reached it: from then on, leaving is its own doing."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a trial's sandbox is about to be started."""

    driver: Driver
    start: StartState
    spec: SandboxSpec
    """What the sandbox would be without the agent."""


@runtime_checkable
class Resident(Protocol):
    """An agent that lives in the sandbox, and says before the start what the sandbox must have for it."""

    async def move_in(self, ground: Ground) -> SandboxSpec:
        """The spec to start instead: with the agent's files, and with its way to a model.

        Raises `UsageError` for what is missing, before anything of the trial has started.
        """

    def move_out(self) -> None:
        """The agent's time is over: nothing that it knows opens anything any more. Safe to call again."""
