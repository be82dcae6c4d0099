"""Files of a sandbox as its agent's own user may read and write them: by programs that this user runs.

A driver opens files as root of the sandbox. For an agent whom its task gives another user that would be a way past
the task's own permissions, and a check beforehand would be a race that the agent can win.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxFileError
from termarena.sandbox.contract import DEFAULT_READ_BYTES

if TYPE_CHECKING:
    from termarena.sandbox.contract import ExecResult, Sandbox

__all__ = ["OwnFiles"]

# What the scripts exit with are the kernel's numbers.
SCRIPTS: Final = {
    "read": """[ -d "$1" ] && exit 21; [ -e "$1" ] || exit 2; [ -f "$1" ] || exit 22; [ -r "$1" ] || exit 13
exec cat <"$1" """,
    "write": """umask 022; mkdir -p -- "${1%/*}/" || exit 13; [ -d "$1" ] && exit 21
if [ -e "$1" ]; then [ -f "$1" ] || exit 22; [ -w "$1" ] || exit 13; else [ -w "${1%/*}/" ] || exit 13; fi
exec cat >"$1" """,
}
NUMBERS: Final = (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The reach of one user into the files of one sandbox."""

    box: Sandbox
    user: str

    async def read(self, path: str, *, timeout_s: float) -> bytes:
        """See `Sandbox.read`."""
        done = await self._run("read", path, timeout_s=timeout_s)
        if done.stdout_truncated:
            problem = f"{done.stdout_bytes} bytes are more than {DEFAULT_READ_BYTES}"
            raise SandboxFileError("read", path, problem=problem, errno=errno.EFBIG)
        return done.stdout

    async def write(self, path: str, content: bytes, *, timeout_s: float) -> None:
        """See `Sandbox.write`; a file that is there keeps its mode and its owner."""
        await self._run("write", path, stdin=content, timeout_s=timeout_s)

    async def _run(self, operation: str, path: str, *, timeout_s: float, stdin: bytes = b"") -> ExecResult:
        if not path.startswith("/"):
            raise ValueError(f"a path in a sandbox is absolute, not {path!r}")
        done = await self.box.exec(
            ["/bin/sh", "-c", SCRIPTS[operation], "sh", path],
            user=self.user,
            cwd="/",
            stdin=stdin,
            timeout_s=timeout_s,
            max_output_bytes=DEFAULT_READ_BYTES,
        )
        if done.exit_status == 0:
            return done
        number = done.exit_status if done.exit_status in NUMBERS else None
        said = done.stderr.decode(errors="replace").strip().rpartition(": ")[2]
        problem = os.strerror(number) if number else said or "refused"
        raise SandboxFileError(operation, path, problem=problem, errno=number)
