"""Replay: what a recording or a trajectory says was typed and called, done again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena import __version__
from termarena.agents.actions import actions_of
from termarena.agents.contract import AgentReport
from termarena.agents.keystrokes import SETTLE_S, take_breath
from termarena.agents.workspace import ANY_SHELL, SCROLLBACK_LINES
from termarena.core.errors import NotFound, TaskFormatError, TerminalEnded, TerminalTimeout, UsageError
from termarena.core.trajectory import read_trajectory
from termarena.sandbox.terminal import TerminalOptions, read_cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from termarena.agents.actions import Action
    from termarena.agents.contract import AgentTerminal, Brief, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.sandbox.terminal import Cast

__all__ = ["CastReplay", "Keys", "TrajectoryReplay", "keys_of", "make"]

IDLE_S: Final = 2.0
"""The longest time of thinking that is waited again."""
_CONTROLS: Final = ("\r", "\n", "\x1b", "\x03", "\x04")


class Keys(NamedTuple):
    """What was typed in one go, and how long the programs then had."""

    text: str
    worked_s: float
    """Until the last of their output before the next key."""
    thought_s: float
    """From there to the next key."""


def make(request: AgentRequest) -> AgentFactory:
    """Raises `NotFound` for no such file, `UsageError` for one that does not say what was done."""
    path = request.file
    if not path.is_file():
        raise NotFound(f"no recording is at {path}", hint="replay:FILE takes a terminal.cast or a trajectory.json")
    if path.suffix == ".json":
        actions = _actions(path)
        return lambda: TrajectoryReplay(request.word, actions)
    cast = _cast(path)
    keys = keys_of(cast)
    if not keys:
        raise UsageError(
            f"{path} shows what was displayed, not what was typed: it has no input events",
            hint="record with --record-input, or replay the trajectory.json beside it",
        )
    return lambda: CastReplay(request.word, cast, keys)


def _cast(path: Path) -> Cast:
    try:
        return read_cast(path)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"{path} is no asciicast of version 2 or 3: {error}") from error


def _actions(path: Path) -> tuple[Action, ...]:
    try:
        return actions_of(read_trajectory(path))
    except TaskFormatError as error:
        raise UsageError(f"{path} is no trajectory: {error}", hint="give an ATIF trajectory.json") from error


def keys_of(cast: Cast) -> tuple[Keys, ...]:
    """The keys of a recording; those of a word, typed one by one, are one."""
    found: list[Keys] = []
    text, typed_at, shown_at = "", 0.0, 0.0
    for event in cast.events:
        if event.code == "o":
            shown_at = event.at_s
        elif event.code == "i":
            if text.endswith(_CONTROLS):
                found.append(_keys(text, typed_at, shown_at, event.at_s))
                text = ""
            text, typed_at, shown_at = text + event.text, event.at_s, event.at_s
    if text:
        found.append(_keys(text, typed_at, shown_at, shown_at))
    return tuple(found)


def _keys(text: str, typed_at: float, shown_at: float, next_at: float) -> Keys:
    return Keys(text, max(shown_at - typed_at, 0.0), max(next_at - max(shown_at, typed_at), 0.0))


async def _wait(terminal: AgentTerminal, seconds: float) -> None:
    """Until the shell is idle, or as long as the recording gave it; then until the next key can be taken."""
    with contextlib.suppress(TerminalTimeout):
        await terminal.wait_idle(timeout_s=seconds)
    await take_breath(terminal)


def _type(terminal: AgentTerminal, text: str) -> None:
    """Type it; a command of several lines, or with tabs in it, was not typed by hand."""
    body = text.removesuffix("\r")
    if len(body) > 1 and body != text and not body.startswith("\x1b") and ("\n" in body or "\t" in body):
        terminal.paste(body)
        terminal.send_keys("Enter")
    else:
        terminal.type_text(text)


class CastReplay:
    """See `Agent`: a recording's keys, with its own times where programs worked, shorter where a person thought."""

    version = __version__

    def __init__(self, word: str, cast: Cast, keys: Sequence[Keys]) -> None:
        """`word` is the agent's."""
        self.name = word
        self._cast = cast
        self._keys = keys

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:  # noqa: ARG002 - it knows what to do
        """Type the keys into a terminal of the same size."""
        options = TerminalOptions(
            cols=self._cast.cols, rows=self._cast.rows, shell_argv=ANY_SHELL, scrollback_lines=SCROLLBACK_LINES
        )
        typed = 0
        async with workspace.terminal(options) as terminal:
            with contextlib.suppress(TerminalEnded):
                for keys in self._keys:
                    _type(terminal, keys.text)
                    typed += 1
                    await _wait(terminal, keys.worked_s + min(keys.thought_s, IDLE_S))
                await _wait(terminal, self._keys[-1].worked_s + SETTLE_S)
        return AgentReport(message=f"{typed} of {len(self._keys)} inputs were typed")


class TrajectoryReplay:
    """See `Agent`: a trajectory's calls, one after another."""

    version = __version__

    def __init__(self, word: str, actions: Sequence[Action]) -> None:
        """`word` is the agent's."""
        self.name = word
        self._actions = actions

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:  # noqa: ARG002 - it knows what to do
        """Make the calls. One that fails, fails as it may have done then: the next ones follow."""
        async with contextlib.AsyncExitStack() as stack:
            terminals: dict[int, AgentTerminal] = {}
            for action in self._actions:
                if action.terminal and action.terminal not in terminals:
                    opened = workspace.terminal(action.options())
                    terminals[action.terminal] = await stack.enter_async_context(opened)
                await action.carry_out(workspace, terminals.get(action.terminal))
                if action.pause_s and action.terminal:
                    with contextlib.suppress(TerminalEnded):
                        await _wait(terminals[action.terminal], min(action.pause_s, IDLE_S))
            for terminal in terminals.values():
                with contextlib.suppress(TerminalEnded):
                    await _wait(terminal, SETTLE_S)
        return AgentReport(message=f"{len(self._actions)} calls were made")
