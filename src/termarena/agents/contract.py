"""The agent contract: what an agent is given, what it may touch, and what it tells at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from termarena.core.trajectory import Step
    from termarena.sandbox.contract import ExecResult, TreeReport
    from termarena.sandbox.terminal import Terminal, TerminalOptions
    from termarena.tasks.model import McpServer

__all__ = ["Agent", "AgentEnd", "AgentReport", "Brief", "Usage", "Workspace"]

AgentEnd = Literal["submitted", "timeout", "error", "parse_error", "refused", "resource_limit", "cancelled"]


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


@dataclass(frozen=True, slots=True)
class AgentReport:
    """How the agent sees its own end. A wrong answer is a report too; only a crash is an exception."""

    end: Literal["submitted", "parse_error", "refused", "resource_limit"] = "submitted"
    message: str = ""
    """Its last words."""
    usage: Usage = Usage()
    model: str | None = None


@runtime_checkable
class Workspace(Protocol):
    """An agent's reach into the sandbox, for the length of one `solve`.

    Every call is counted and becomes a step of the trajectory. After the deadline, and after the trial has sealed the
    sandbox, every method raises `WorkspaceClosed`. There is no door to tests, solution or grader output.
    """

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""

    async def exec(  # noqa: PLR0913 - the words of the sandbox's own exec
        self,
        argv: Sequence[str] | str,
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run a program; a string is a script for the sandbox's best shell, run as a file, never through quoting."""

    def terminal(self, options: TerminalOptions | None = None) -> AbstractAsyncContextManager[Terminal]:
        """A terminal; it is recorded as `terminal.cast`, further ones of the same trial as `terminal-2.cast` …"""

    async def read(self, path: str) -> bytes:
        """A file's content; raises `SandboxFileError`."""

    async def write(self, path: str, content: bytes) -> None:
        """Replace a file's content; raises `SandboxFileError`."""

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
