"""The calls of a trajectory as something that can be done again: our own workspace's, and those of common tools."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.keystrokes import press
from termarena.agents.workspace import ANY_SHELL, SCROLLBACK_LINES
from termarena.core.errors import NoExitStatus, SandboxFileError, TerminalEnded, TerminalTimeout, UsageError
from termarena.sandbox.terminal import TerminalOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.agents.contract import AgentTerminal, Workspace
    from termarena.core.trajectory import Step, ToolCall, Trajectory

__all__ = ["Action", "actions_of"]

RUN_S: Final = 600.0
"""For a command whose own limit the trajectory does not tell."""
SHOWN_PROBLEMS: Final = 5
_SCRUBBED: Final = re.compile(r"\[secret [^\]]+\]")
_COMMANDS: Final = frozenset(
    [
        "bash",
        "shell",
        "sh",
        "execute",
        "execute_bash",
        "execute_command",
        "run_command",
        "run_bash",
        "bash_command",
        "run_shell_command",
        "shell_command",
        "exec_command",
        "terminal_command",
    ]
)
_WRITES: Final = frozenset({"write_file", "create_file"})
_WITHOUT_EFFECT: Final = frozenset(
    [
        "read",
        "read_file",
        "view_file",
        "list_files",
        "list_dir",
        "glob",
        "grep",
        "think",
        "finish",
        "submit",
        "done",
        "task_complete",
        "mark_task_complete",
    ]
)
Arguments = Mapping[str, Any]


class _CannotBeDone(Exception):
    """Why a call cannot be made again; gathered before anything starts."""


@dataclass(frozen=True, slots=True)
class Action:
    """One call; `terminal` is the number of the one it needs, 0 for none."""

    do: Callable[[Workspace, AgentTerminal | None], Awaitable[object]]
    terminal: int = 0
    pause_s: float = 0.0
    """How long it was until the next call."""
    size: tuple[int, int] = (80, 24)
    shell_argv: tuple[str, ...] = ANY_SHELL

    def options(self) -> TerminalOptions:
        """How its terminal is opened."""
        return TerminalOptions(
            cols=self.size[0], rows=self.size[1], shell_argv=self.shell_argv, scrollback_lines=SCROLLBACK_LINES
        )

    async def carry_out(self, workspace: Workspace, terminal: AgentTerminal | None) -> None:
        """Do it again; what the sandbox refuses now, it may have refused then."""
        with contextlib.suppress(SandboxFileError, TerminalTimeout, TerminalEnded, NoExitStatus):
            await self.do(workspace, terminal)


def actions_of(trajectory: Trajectory) -> tuple[Action, ...]:
    """Everything that a trajectory's calls changed. Raises `UsageError`, naming each call that cannot be made again."""
    found: list[Action] = []
    problems: list[str] = []
    terminals: list[Arguments] = []
    for step, pause_s in _with_pauses(trajectory):
        for call in step.tool_calls or ():
            if call.function_name == "terminal":
                terminals.append(call.arguments)
            try:
                action = _action(call, pause_s, terminals)
            except _CannotBeDone as error:
                problems.append(f"step {step.step_id}, {call.function_name}: {error}")
            except (KeyError, TypeError, ValueError):
                problems.append(f"step {step.step_id}, {call.function_name}: its arguments are of another tool")
            else:
                found += [action] if action is not None else []
    if problems:
        more = f"; and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
        raise UsageError(f"the trajectory cannot be replayed: {'; '.join(problems[:SHOWN_PROBLEMS])}{more}")
    if not found:
        raise UsageError("the trajectory has no calls that could be replayed")
    return tuple(found)


def _with_pauses(trajectory: Trajectory) -> Iterator[tuple[Step, float]]:
    """The steps that were not copied from another trajectory, each with the time to the next."""
    steps = [step for step in trajectory.steps if not step.is_copied_context]
    for number, step in enumerate(steps):
        later = steps[number + 1].timestamp if number + 1 < len(steps) else None
        if step.timestamp is None or later is None:
            yield step, 0.0
        else:
            gap = datetime.fromisoformat(later) - datetime.fromisoformat(step.timestamp)
            yield step, max(gap.total_seconds(), 0.0)


def _action(call: ToolCall, pause_s: float, terminals: list[Arguments]) -> Action | None:
    arguments, name = call.arguments, call.function_name
    if name.startswith("terminal."):
        _require_whole(call)
        return _typed(name.removeprefix("terminal."), arguments, pause_s, terminals)
    if name in ("terminal", *_WITHOUT_EFFECT) or name.lower() in _WITHOUT_EFFECT:
        return None
    _require_whole(call)
    if name == "exec":
        words, how = _words(arguments), _how(arguments)
        return Action(lambda workspace, _: workspace.exec(words, **how))
    if name == "write":
        path, content = str(arguments["path"]), _bytes(arguments, "content")
        return Action(lambda workspace, _: workspace.write(path, content))
    return _foreign(name.lower(), arguments)


def _require_whole(call: ToolCall) -> None:
    if call.extra and call.extra.get("cut_arguments"):
        raise _CannotBeDone("its arguments were too long to be kept whole")
    if _SCRUBBED.search(json.dumps(dict(call.arguments), ensure_ascii=False, default=str)):
        raise _CannotBeDone("it held a secret, which was scrubbed")


def _words(arguments: Arguments) -> str | list[str]:
    return str(arguments["script"]) if "script" in arguments else [str(word) for word in arguments["argv"]]


def _how(arguments: Arguments) -> dict[str, Any]:
    how = {name: arguments[name] for name in ("timeout_s", "user", "cwd", "env") if name in arguments}
    return {**how, "stdin": _bytes(arguments, "stdin")}


def _bytes(arguments: Arguments, name: str) -> bytes:
    if f"{name}_base64" in arguments:
        return base64.b64decode(arguments[f"{name}_base64"])
    return str(arguments.get(name, "")).encode("utf-8", "surrogateescape")


def _typed(method: str, arguments: Arguments, pause_s: float, terminals: list[Arguments]) -> Action:
    number = int(arguments.get("terminal", 1))
    opened: Arguments = terminals[number - 1] if number <= len(terminals) else {}
    there = Action(
        _on(lambda _: None),
        terminal=number,
        size=(int(opened.get("cols", 80)), int(opened.get("rows", 24))),
        shell_argv=tuple(opened.get("shell_argv", ANY_SHELL)),
    )
    if method == "run":
        command, timeout_s = str(arguments["command"]), float(arguments.get("timeout_s", RUN_S))
        return replace(there, do=_on(lambda terminal: terminal.run(command, timeout_s=timeout_s)))
    if method == "send_keys":
        keys = [str(key) for key in arguments["keys"]]
        return replace(there, do=_on(lambda terminal: terminal.send_keys(*keys)), pause_s=pause_s)
    if method in ("type_text", "paste"):
        text = str(arguments["text"])
        return replace(there, do=_on(lambda terminal: getattr(terminal, method)(text)), pause_s=pause_s)
    raise _CannotBeDone("no such call is known")


def _foreign(name: str, arguments: Arguments) -> Action:
    """A call of somebody else's tool: a shell that stays, keys, or a file."""
    if name in _WRITES:
        path = _first(arguments, "path", "file_path")
        content = _first(arguments, "content", "file_text", "text")
        if isinstance(path, str) and isinstance(content, str):
            return Action(lambda workspace, _: workspace.write(path, content.encode("utf-8", "surrogateescape")))
    elif name in _COMMANDS:
        keys = arguments.get("keystrokes")
        if isinstance(keys, str):
            pause_s = float(arguments.get("duration") or arguments.get("timeout_sec") or 0.0)
            return Action(_on(lambda terminal: press(terminal, keys)), terminal=1, pause_s=pause_s, size=(160, 40))
        command = _first(arguments, "command", "cmd", "script")
        if isinstance(command, str):
            return Action(_on(lambda terminal: terminal.run(command, timeout_s=RUN_S)), terminal=1, size=(160, 40))
        if isinstance(command, list | tuple) and command:
            words = [str(word) for word in command]
            return Action(lambda workspace, _: workspace.exec(words))
    raise _CannotBeDone("what it did is not known here")


def _first(arguments: Arguments, *names: str) -> object:
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def _on(do: Callable[[AgentTerminal], object]) -> Callable[[Workspace, AgentTerminal | None], Awaitable[object]]:
    """A call of the action's terminal, which whoever carries it out has opened."""

    async def done(_: Workspace, terminal: AgentTerminal | None) -> object:
        assert terminal is not None  # noqa: S101 - `terminal` is not 0
        result = do(terminal)
        return await result if isinstance(result, Awaitable) else result

    return done
