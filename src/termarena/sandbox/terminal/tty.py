"""What a terminal's master side tells and allows: who is in the foreground, and the modes.

A driver may hold the master elsewhere and hand out a relay: a socket, or a terminal of the host on which no session
runs. Then the answers are None, and `end_foreground` and the shell's own `stty` do what can be done from inside.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from termarena.sandbox.contract import PtyProcess, Sandbox

__all__ = ["end_foreground", "is_shell_in_front", "is_typed_blind", "read_modes", "repair_from_inside", "restore_modes"]

TIOCGSID: Final = 0x5429
KILL_TIMEOUT_S: Final = 10.0
# Field 8 of stat is the terminal's foreground group; the shell is the session's leader, so its group is its number.
# A shell goes on with its next command when one was killed, unless it was interrupted itself: Ctrl-C does not do that
# while another group is in front, and is lost between two programs, when the group in front has ended already.
_KILL_FOREGROUND: Final = """
read -r line <"/proc/$1/stat" || exit 1
shell=$1
set -- ${line##*)}
kill -s INT "$shell"
[ "$6" -gt 1 ] && [ "$6" != "$shell" ] && kill -s KILL -- "-$6"
"""


def is_shell_in_front(pty: PtyProcess) -> bool | None:
    """Whether the foreground process group is that of the session's leader, the shell; None where it cannot be seen."""
    try:
        (leader,) = struct.unpack("i", fcntl.ioctl(pty.master_fd, TIOCGSID, bytes(4)))
        return bool(os.tcgetpgrp(pty.master_fd) == leader)
    except (OSError, ValueError):
        return None


def read_modes(pty: PtyProcess) -> list[Any] | None:
    """The terminal's modes; None where they cannot be seen."""
    if is_shell_in_front(pty) is None:
        return None
    try:
        return termios.tcgetattr(pty.master_fd)
    except (termios.error, OSError, ValueError):
        return None


def is_typed_blind(pty: PtyProcess) -> bool:
    """Whether a program reads a line without showing it, as it does with passwords; line editors echo by themselves.

    False where the modes cannot be seen.
    """
    modes = read_modes(pty)
    return modes is not None and bool(modes[3] & termios.ICANON) and not modes[3] & termios.ECHO


def restore_modes(pty: PtyProcess, modes: list[Any]) -> None:
    """Put the modes back if a program has changed them."""
    if read_modes(pty) not in (None, modes):
        termios.tcsetattr(pty.master_fd, termios.TCSANOW, modes)


async def end_foreground(box: Sandbox, shell_pid: int, *, user: str | None) -> None:
    """Kill the process group in the foreground of the shell's terminal, unless it is the shell itself.

    The shell is interrupted before that, so that it does not go on with what follows in its command.
    """
    argv = ["/bin/sh", "-c", _KILL_FOREGROUND, "sh", str(shell_pid)]
    await box.exec(argv, user=user, cwd="/", timeout_s=KILL_TIMEOUT_S)


async def repair_from_inside(box: Sandbox, shell_pid: int, *, user: str | None) -> None:
    """Put usual modes back where the master cannot: with the sandbox's own `stty`, if it has one."""
    argv = ["/bin/sh", "-c", 'stty sane <"/proc/$1/fd/0"', "sh", str(shell_pid)]
    await box.exec(argv, user=user, cwd="/", timeout_s=KILL_TIMEOUT_S)
