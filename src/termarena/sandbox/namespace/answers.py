"""What the answers of a sandbox's process 1 mean: exit statuses, refusals, files that were opened for us."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from termarena.core.errors import NotFound, SandboxFileError
from termarena.sandbox.contract import TIMEOUT_STATUS

if TYPE_CHECKING:
    from termarena.sandbox.namespace.inside import wire

__all__ = ["check_path", "exit_status", "raise_refusal", "read_and_close", "write_and_close"]


def exit_status(raw: int, *, timed_out: bool) -> tuple[int, int | None]:
    """A wait status as a shell's exit status, and the signal if there was one."""
    code = os.waitstatus_to_exitcode(raw)
    number = -code if code < 0 else None
    if timed_out:
        return TIMEOUT_STATUS, number
    return (128 + number if number is not None else code), number


def raise_refusal(answer: wire.Message, operation: str, path: str) -> None:
    """Raise what an answer refuses: `NotFound` for an unknown user, else `SandboxFileError`."""
    if answer.get("unknown"):
        raise NotFound(str(answer["problem"]))
    if "problem" in answer:
        raise SandboxFileError(operation, path, problem=str(answer["problem"]), errno=answer.get("errno"))


def check_path(path: str) -> None:
    """Raise `ValueError` for a path that cannot be one of a sandbox."""
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"a path in a sandbox is absolute and has no NUL, not {path!r}")


def read_and_close(fd: int, path: str, max_bytes: int) -> bytes:
    """The content of a file that process 1 opened; raises `SandboxFileError` when it is larger than allowed."""
    with os.fdopen(fd, "rb", buffering=0) as file:
        size = os.fstat(fd).st_size
        if size > max_bytes:
            raise SandboxFileError("read", path, problem=f"{size} bytes are more than {max_bytes}", errno=errno.EFBIG)
        return file.read(max_bytes)


def write_and_close(fd: int, path: str, content: bytes) -> None:
    """Fill a file that process 1 opened; raises `SandboxFileError` when there is no room."""
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise SandboxFileError("write", path, problem=error.strerror or "refused", errno=error.errno) from error
    finally:
        os.close(fd)
