"""Which `host` roots in the store are in use, and the removal of old ones.

Every change of the machine's packages makes another root. A driver that has prepared one holds a shared lock on it
for as long as it may start sandboxes on it; a sandbox never outlives its driver. A root whose lock nobody holds, and
which is not the newest, is of no use to anyone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from termarena.sandbox.namespace.building import remove_tree

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["hold", "prune"]

_BASE, _ABOVE, _LOCK = "host-", "host-usr-", ".lock"


def hold(store: Path, key: str) -> int:
    """Keep the root of this key, there or yet to be built, from being pruned until the descriptor is closed."""
    path = store / f"{_BASE}{key}{_LOCK}"
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            if _is_at(path, fd):
                return fd
        except BaseException:
            os.close(fd)
            raise
        # Whoever pruned the root has removed the file that was locked.
        os.close(fd)


def prune(store: Path) -> int:
    """Remove every root but the newest that nobody holds; how many there were."""
    bases = {path.name.removeprefix(_BASE): path for path in store.glob(f"{_BASE}*") if _is_base(path)}
    newest = max(bases, key=lambda key: (bases[key].lstat().st_mtime_ns, key), default=None)
    return sum(_remove(store, key) for key in bases if key != newest)


def _is_base(path: Path) -> bool:
    return not path.name.startswith(_ABOVE) and not path.name.endswith(_LOCK)


def _remove(store: Path, key: str) -> bool:
    """Whether the root was free and is gone."""
    lock = store / f"{_BASE}{key}{_LOCK}"
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(lock, fd):
            return False
        for prefix in (_BASE, _ABOVE):
            if (store / f"{prefix}{key}").is_dir():
                remove_tree(store / f"{prefix}{key}")
        lock.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _is_at(path: Path, fd: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(fd))
    return False
