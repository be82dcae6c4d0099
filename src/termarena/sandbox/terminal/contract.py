"""The values of a terminal: how it is opened, what it shows, how a command in it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from termarena.sandbox.sides import check_size
from termarena.sandbox.terminal.output import plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.sandbox.terminal.cast import CastWriter

__all__ = ["CommandResult", "Cursor", "ScreenState", "TerminalOptions"]

DEFAULT_OUTPUT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TerminalOptions:
    """How a terminal is opened. Raises `TerminalSizeError`, and `ValueError` for an empty shell."""

    cols: int = 80
    rows: int = 24
    shell_argv: Sequence[str] = ("/bin/sh",)
    """The words that start an interactive bash, zsh or POSIX shell; it reads its own start-up files."""
    user: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    scrollback_lines: int = 10_000
    output_bytes: int = DEFAULT_OUTPUT_BYTES
    """How much of a command's output is kept: half from its beginning, half from its end."""
    open_timeout_s: float = 20.0
    """How long the shell may take to its first prompt."""
    cast: CastWriter | None = None
    """Where the session is recorded; the terminal closes it."""

    def __post_init__(self) -> None:
        """Refuse what cannot be opened before anything starts."""
        check_size(self.cols, self.rows)
        if not self.shell_argv:
            raise ValueError("a terminal needs a shell")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next character goes, counted from 0."""

    column: int
    row: int
    is_visible: bool = True


@dataclass(frozen=True, slots=True)
class ScreenState:
    """What a person would see now."""

    cols: int
    rows: int
    lines: tuple[str, ...]
    """Exactly `rows` of them, without trailing blanks."""
    cursor: Cursor
    title: str
    """What the last program called the window: its words, without control characters, at most 256 of them."""
    is_alternate: bool
    """Whether a full-screen program has the alternate screen."""

    @property
    def text(self) -> str:
        """The lines, without the empty ones at the end."""
        return "\n".join(self.lines).rstrip("\n")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command in the terminal's shell ended, and what the terminal received meanwhile."""

    exit_status: int
    """The shell's `$?`; 124 after a timeout; the shell's own status if the command ended the shell."""
    output: bytes
    """As the terminal received it, escape sequences included: the beginning, and the end if it was longer."""
    output_bytes: int
    """How much there was in all."""
    duration_s: float
    timed_out: bool = False
    shell_ended: bool = False
    """The command ended the shell: the terminal can only be looked at and closed."""

    @property
    def is_truncated(self) -> bool:
        """Whether the middle of the output was dropped."""
        return self.output_bytes > len(self.output)

    @property
    def text(self) -> str:
        """The output as plain text: no escape sequences, lines end with a newline character alone."""
        return plain_text(self.output)
