"""Terminals: a PTY held from outside the sandbox, its screen, its shell, its recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.sandbox.terminal.cast import Cast, CastEvent, CastWriter, parse_cast, read_cast
    from termarena.sandbox.terminal.contract import CommandResult, Cursor, ScreenState, TerminalOptions
    from termarena.sandbox.terminal.terminal import Terminal, open_terminal
else:
    from termarena.core.doors import door

    __getattr__ = door(
        __name__,
        cast="Cast CastEvent CastWriter parse_cast read_cast",
        contract="CommandResult Cursor ScreenState TerminalOptions",
        terminal="Terminal open_terminal",
    )

__all__ = [
    "Cast",
    "CastEvent",
    "CastWriter",
    "CommandResult",
    "Cursor",
    "ScreenState",
    "Terminal",
    "TerminalOptions",
    "open_terminal",
    "parse_cast",
    "read_cast",
]
