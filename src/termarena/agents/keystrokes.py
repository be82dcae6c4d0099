"""Keystroke solutions of Terminal-Bench 1, typed the way tmux types them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from typing import TYPE_CHECKING, Final

from termarena.core.errors import AgentError, TerminalTimeout
from termarena.sandbox.terminal.keys import KEY_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.agents.contract import AgentTerminal, Workspace
    from termarena.tasks.model import Keystrokes

__all__ = ["key_of", "press", "take_breath", "type_solution"]

PACE_S: Final = 0.15
"""How long nothing must come before the next keys. Linux reads a key by the mode the terminal is in when it comes: one
that is typed while the shell's line editor has it is not an end of line, or of file, to the program that follows."""
SETTLE_S: Final = 3.0
"""What the last command has before the tests look; Terminal-Bench 1 spends as much on opening their terminal."""
_KEYS: Final = {**{name.lower(): name for name in KEY_NAMES}, "kpenter": "Enter"}
_MODIFIED: Final = re.compile(r"((?:[CMS]-)+|\^)(.+)")


def key_of(text: str) -> str | None:
    """The key that tmux takes a text for, if it does: `Enter`, `C-c`, `^M`, `escape`."""
    found = _MODIFIED.fullmatch(text)
    modifiers, rest = (found[1].replace("^", "C-"), found[2]) if found else ("", text)
    if rest.lower() in _KEYS:
        return modifiers + _KEYS[rest.lower()]
    return modifiers + rest if modifiers and len(rest) == 1 else None


async def type_solution(terminal: AgentTerminal, keystrokes: Sequence[Keystrokes], workspace: Workspace) -> None:
    """Type them one by one, each with its own times. Raises `AgentError` for a command that does not end in its."""
    for number, entry in enumerate(keystrokes, 1):
        if entry.block and (entry.append_enter or entry.command.endswith(("\r", "\n"))):
            await _type_and_wait(terminal, entry, number)
            continue
        press(terminal, entry.command)
        if entry.append_enter:
            terminal.send_keys("Enter")
        await take_breath(terminal)
        await asyncio.sleep(min(entry.min_timeout_s, workspace.seconds_left))
    with contextlib.suppress(TerminalTimeout):
        await terminal.wait_idle(timeout_s=SETTLE_S)
        await _until_marked(terminal, "", SETTLE_S)


async def take_breath(terminal: AgentTerminal) -> None:
    """Let the programs take what was typed; one that never falls silent is not waited for."""
    with contextlib.suppress(TerminalTimeout):
        await terminal.wait_quiet(PACE_S, timeout_s=2 * PACE_S)


def press(terminal: AgentTerminal, text: str) -> None:
    """Send a text as tmux does: as the key that it names, else character by character."""
    key = key_of(text)
    if key is not None:
        terminal.send_keys(key)
    else:
        terminal.type_text(text)


async def _type_and_wait(terminal: AgentTerminal, entry: Keystrokes, number: int) -> None:
    command = entry.command.rstrip("\r\n")
    try:
        await _until_marked(terminal, f"{command}; ", entry.max_timeout_s)
    except TerminalTimeout as error:
        raise AgentError(f"keystrokes {number}: {command!r} did not end within {entry.max_timeout_s:g} s") from error


async def _until_marked(terminal: AgentTerminal, before: str, timeout_s: float) -> None:
    """Have whatever shell is in front say when it comes to this point; it may be one inside another."""
    mark = secrets.token_hex(8)
    # In two halves, so that the typed line does not hold what is waited for.
    terminal.type_text(f"{before}printf '%s%s\\n' {mark[:8]} {mark[8:]}\n")
    await terminal.wait_for(mark, timeout_s=timeout_s)
