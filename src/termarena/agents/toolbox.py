"""The tools that a model is given, and the hands that use them in a workspace."""

from __future__ import annotations

import posixpath
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from termarena.agents.truncation import head_and_tail
from termarena.core.errors import (
    NoExitStatus,
    SandboxFileError,
    TerminalEnded,
    TerminalTimeout,
)
from termarena.models import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.agents.contract import AgentTerminal, Workspace
    from termarena.agents.custom_tools import CustomTool
    from termarena.core.records import Json

__all__ = ["TOOLS", "Action", "Hands", "Outcome"]

COMMAND_S: Final = 120.0
"""For a command whose model sets no limit."""
LONGEST_COMMAND_S: Final = 3600.0
OUTPUT_CHARACTERS: Final = 12_000
"""Of one output, for the model; the trajectory has more."""
HALF: Final = re.compile(r"[\ud800-\udfff]")
"""What JSON can hold, and no command and no name."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a model wants done; `problem` says why it cannot be understood."""

    id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action, in words for the model."""

    text: str
    is_done: bool = False
    """Whether the model says that the task is complete."""
    is_mistake: bool = False
    """Whether nothing was done, since the action makes no sense."""


def _spec(name: str, description: str, **parameters: Json) -> ToolSpec:
    optional = {"timeout_s"}
    required: list[Json] = [key for key in parameters if key not in optional]
    schema: dict[str, Json] = {"type": "object", "properties": dict(parameters), "required": required}
    return ToolSpec(name, description, {**schema, "additionalProperties": False})


_PATH: Final[Json] = {"type": "string", "description": "an absolute path"}
TOOLS: Final = (
    _spec(
        "EXECUTE",
        "Run a command in a shell that stays: its folder, variables and background jobs are there for the next one. "
        "It may have several lines. Programs that ask for input get none: give answers as options or through a pipe.",
        command={"type": "string"},
        timeout_s={"type": "number", "description": f"how long to wait; {COMMAND_S:.0f} where it is left out"},
    ),
    _spec("READ_FILE", "The content of a text file.", path=_PATH),
    _spec(
        "WRITE_FILE",
        "Replace a file's content, or make the file and the folders above it. What is given is written as it is.",
        path=_PATH,
        content={"type": "string"},
    ),
    _spec("LIST_DIR", "What is in a folder.", path=_PATH),
    _spec("TASK_COMPLETE", "Say that the task is done. Nothing can be changed afterwards: check your work before."),
)


class Hands:
    """Do in a workspace what a model asks for. As an `async with`; a shell is opened when the first command comes."""

    def __init__(self, workspace: Workspace, *, workdir: str | None = None, custom: Sequence[CustomTool] = ()) -> None:
        """`workdir` is what relative paths stand for; `custom` are tools beyond ours."""
        self._workspace = workspace
        self._workdir = workdir or "/"
        self._custom = {tool.name: tool for tool in custom}
        self._specs = (*TOOLS, *(tool.spec() for tool in custom))
        self._life = AsyncExitStack()
        self._terminal: AgentTerminal | None = None

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the shell; what runs in it goes on."""
        await self._life.aclose()

    async def do(self, action: Action) -> Outcome:
        """Carry an action out. Raises what says that the workspace or the sandbox is gone."""
        if action.problem is not None:
            return _mistake(action.problem)
        tool = next((tool for tool in self._specs if tool.name == action.name), None)
        if tool is None:
            return _mistake(f"there is no tool {action.name!r}; there is: {', '.join(one.name for one in self._specs)}")
        problem = _wrong(tool, action.arguments)
        if problem is not None:
            return _mistake(f"{action.name}: {problem}")
        try:
            return await self._do(action.name, action.arguments)
        except SandboxFileError as error:
            return Outcome(f"Error: {error}")

    async def _do(self, name: str, given: Mapping[str, object]) -> Outcome:
        if name == "TASK_COMPLETE":
            return Outcome("The task is handed in.", is_done=True)
        if name == "EXECUTE":
            return await self._execute(str(given["command"]), _seconds(given.get("timeout_s")))
        if name in self._custom:
            return await self._run(self._custom[name], given)
        path = posixpath.join(self._workdir, str(given["path"]))
        if name == "READ_FILE":
            content = (await self._workspace.read(path)).decode("utf-8", "replace")
            return Outcome(head_and_tail(content, OUTPUT_CHARACTERS) or "(the file is empty)")
        if name == "WRITE_FILE":
            content_bytes = str(given["content"]).encode("utf-8", "replace")
            await self._workspace.write(path, content_bytes)
            return Outcome(f"{len(content_bytes)} bytes are in {path}")
        listed = await self._workspace.exec(["ls", "-la", "--", path], timeout_s=COMMAND_S)
        text = (listed.stdout + listed.stderr).decode("utf-8", "replace")
        return Outcome(head_and_tail(text, OUTPUT_CHARACTERS))

    async def _execute(self, command: str, timeout_s: float) -> Outcome:
        if not command.strip():
            return _mistake("EXECUTE: the command is empty")
        terminal = await self._shell()
        try:
            done = await terminal.run(command, timeout_s=timeout_s)
        except (TerminalTimeout, TerminalEnded, NoExitStatus) as error:
            await self._drop()
            tail = head_and_tail(str(getattr(error, "tail", "")), OUTPUT_CHARACTERS)
            return Outcome(f"Error: {error}\n{tail}\nThe next command gets a new shell.")
        rows = [f"Exit code: {done.exit_status}"]
        if done.timed_out:
            rows.append(f"(Command timed out after {timeout_s:g} s and was stopped)")
        if done.shell_ended:
            rows.append("(The command ended the shell; the next one gets a new one.)")
            await self._drop()
        missing = max(done.output_bytes - len(done.output), 0)
        rows.append(head_and_tail(done.text, OUTPUT_CHARACTERS, already_missing=missing) or "(no output)")
        return Outcome("\n".join(rows))

    async def _run(self, tool: CustomTool, given: Mapping[str, object]) -> Outcome:
        arguments = {name: str(given[name]) for name in tool.parameters}
        done = await self._workspace.exec(tool.script, env=arguments, timeout_s=tool.timeout_s)
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        late = f"\n(It was stopped after {tool.timeout_s:g} s)" if done.timed_out else ""
        return Outcome(
            f"Exit code: {done.exit_status}{late}\n{head_and_tail(text, OUTPUT_CHARACTERS) or '(no output)'}"
        )

    async def _shell(self) -> AgentTerminal:
        if self._terminal is None:
            self._terminal = await self._life.enter_async_context(self._workspace.terminal())
        return self._terminal

    async def _drop(self) -> None:
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            await terminal.close()


def _wrong(tool: ToolSpec, given: Mapping[str, object]) -> str | None:
    """What is wrong with the arguments of a call; None where nothing is."""
    properties, required = tool.parameters["properties"], tool.parameters["required"]
    assert isinstance(properties, dict)  # noqa: S101 - made above
    assert isinstance(required, list)  # noqa: S101 - made above
    missing = [str(name) for name in required if name not in given]
    if missing:
        return f"{', '.join(missing)} is missing"
    for name, value in given.items():
        if name in properties and name != "timeout_s" and not isinstance(value, str):
            return f"{name} is not a text"
        if isinstance(value, str) and "\0" in value and name != "content":
            return f"{name} holds a NUL character"
        if isinstance(value, str) and HALF.search(value) and name != "content":
            return f"{name} holds half a character"
    return None


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return min(float(value), LONGEST_COMMAND_S) if is_number else COMMAND_S  # type: ignore[arg-type]  # just looked


def _mistake(problem: str) -> Outcome:
    return Outcome(f"Nothing was done. {problem}", is_mistake=True)
