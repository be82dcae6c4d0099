"""One process per run: a lock that the kernel holds and that ends with the process, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from termarena.core.errors import RunBusy, RunNotWritable
from termarena.runs.journal import now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.core.run_folder import RunFolder

__all__ = ["hold", "is_held"]

# Someone who only looks whether a run is held takes the lock for microseconds.
GLANCES: Final = 10
GLANCE_S: Final = 0.01


@contextmanager
def hold(folder: RunFolder) -> Iterator[None]:
    """Hold the run for the length of the block.

    Raises `RunBusy` if another process does, `RunNotWritable` where the file system allows no such file or lock.
    """
    fd = _open(folder.lock)
    try:
        if not _take(fd, folder.lock):
            raise RunBusy(str(folder.path), holder=_holder(folder.lock))
        _sign(fd)
        yield
    finally:
        os.close(fd)


def is_held(folder: RunFolder) -> bool:
    """Whether a process is carrying the run out at this moment."""
    try:
        fd = os.open(folder.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError) -> RunNotWritable:
    return RunNotWritable(str(path), problem=error.strerror or str(error), errno=error.errno)


def _take(fd: int, path: Path) -> bool:
    for _ in range(GLANCES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(GLANCE_S)
        except OSError as error:  # a network file system without locks
            raise _not_writable(path, error) from error
        else:
            return True
    return False


def _sign(fd: int) -> None:
    """Say who holds it, for whoever is refused; a full disk is no reason to refuse the holder itself."""
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now()})
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode(), 0)
    except OSError:
        return


def _holder(path: Path) -> str:
    try:
        signed = json.loads(path.read_bytes())
        return f"process {signed['pid']} on {signed['host']}, since {signed['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
