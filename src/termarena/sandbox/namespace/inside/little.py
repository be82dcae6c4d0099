"""What is so little that process 1, or the harness's own thread, does it at once: a fork would take longer."""

from __future__ import annotations

import os
import stat
from typing import Final

from .room import FOLDER

MOST_NAMES: Final = 200
MOST_BYTES: Final = 1 << 19


def is_little(roots: list[int]) -> bool:
    """Whether few names and bytes lie below some folders, a hole counted as what it seems; no more are looked at.

    Below a folder that cannot be looked into, or lies deeper than the kernel takes a path, there may be anything.
    """
    names, size_bytes = MOST_NAMES, MOST_BYTES
    waiting = [(root, ".") for root in roots]
    while waiting:
        root, folder = waiting.pop()
        try:
            fd = os.open(folder, FOLDER, dir_fd=root)
        except OSError:
            return False
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    names -= 1
                    size_bytes -= found.st_size if stat.S_ISREG(found.st_mode) else 0
                    if names < 0 or size_bytes < 0:
                        return False
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append((root, f"{folder}/{entry.name}"))
        finally:
            os.close(fd)
    return True


def is_little_file(fd: int) -> bool:
    """Whether it is a file, of which reading ends by itself, and a small one."""
    found = os.fstat(fd)
    return stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES
