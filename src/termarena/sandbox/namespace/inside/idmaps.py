"""Id maps of fresh user namespaces, written from outside."""

from __future__ import annotations

import os
import signal
from typing import Any


def write_maps(pid: int, ids: dict[str, Any]) -> None:
    """Write the id maps of a fresh user namespace, by ourselves or through the `newuidmap` helpers."""
    if ids["helpers"]:
        for helper, lines in zip(ids["helpers"], (ids["uid"], ids["gid"]), strict=True):
            _run_helper([helper, str(pid), *(str(number) for line in lines for number in line)])
        return
    if ids["deny_setgroups"]:
        _put(f"/proc/{pid}/setgroups", "deny")
    _put(f"/proc/{pid}/uid_map", "\n".join(" ".join(map(str, line)) for line in ids["uid"]))
    _put(f"/proc/{pid}/gid_map", "\n".join(" ".join(map(str, line)) for line in ids["gid"]))


def _put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _run_helper(argv: list[str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        pid = os.posix_spawn(argv[0], argv, {})
        _, status = os.waitpid(pid, 0)
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if status != 0:
        raise OSError(1, f"{argv[0]} refused the id map", " ".join(argv[2:]))
