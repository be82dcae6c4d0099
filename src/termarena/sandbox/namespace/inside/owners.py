"""Owners of files where there is one id: all files are root's, and an attribute of each says whose it is meant to be.

The attribute goes with the file: through renames, hard links, copies of layers, snapshots. Links and the like cannot
have one; theirs are remembered by process 1 while the sandbox lives.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import struct
from typing import Final

from . import syscalls as sc
from .tar import OWNER, open_folder

LONGEST: Final = 24
LARGEST_ID: Final = 0xFFFFFFFE
MOST_UNMARKED: Final = 100_000
"""Beyond it the oldest are forgotten: process 1 has no other bound to its memory."""
Identity = tuple[int, ...]
STATX_INO, STATX_BTIME = 0x100, 0x800
STATX_MASK_AT, STATX_INO_AT, STATX_BTIME_AT, STATX_DEVICE_AT = 0x00, 0x20, 0x50, 0x88
_UNMARKED: dict[Identity, tuple[int, int]] = {}
"""Owners of what cannot carry the attribute."""


def _identity(path: str, *, follows: bool = True) -> Identity:
    """Device, number and, where the file system tells it, time of birth: numbers of what is gone come again."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW))
    try:
        told = sc.raw_statx(fd, flags=0, mask=STATX_INO | STATX_BTIME)
    finally:
        os.close(fd)
    (mask,) = struct.unpack_from("=I", told, STATX_MASK_AT)
    birth = struct.unpack_from("=qI", told, STATX_BTIME_AT) if mask & STATX_BTIME else ()
    return *struct.unpack_from("=II", told, STATX_DEVICE_AT), *struct.unpack_from("=Q", told, STATX_INO_AT), *birth


@functools.cache
def has_one_id() -> bool:
    """Whether this process's user namespace has root only."""
    with open("/proc/self/uid_map", "rb") as file:
        rows = file.read().split(b"\n")
    return len(rows) == 2 and rows[0].split()[-1] == b"1"  # noqa: PLR2004 - one row and the end of the last line


def marked(uid: int, gid: int) -> bytes:
    """The attribute's value."""
    return b"%d:%d" % (uid, gid)


def parsed(value: bytes) -> tuple[int, int] | None:
    """The owner that a value tells; None for one that is none: programs may write it too."""
    uid, _, gid = value.partition(b":")
    if len(value) > LONGEST or not uid.isdigit() or not gid.isdigit():
        return None
    found = int(uid), int(gid)
    return found if max(found) <= LARGEST_ID else None


def of(path: str) -> tuple[int, int] | None:
    """Whose the file is meant to be, by a path that ends in no link; None for root's."""
    try:
        return parsed(os.getxattr(path, OWNER))
    except OSError:
        if not _UNMARKED:
            return None
    with contextlib.suppress(OSError):
        return _UNMARKED.get(_identity(path))
    return None


def is_somebodys(path: str, *, follows: bool) -> bool:
    """Whether a file may be meant to be another's than root's: one look, since it is asked of every `stat`."""
    try:
        os.getxattr(path, OWNER, follow_symlinks=follows)
    except OSError:
        return bool(_UNMARKED)
    return True


def record(path: str, uid: int, gid: int) -> bool:
    """Say whose the file is meant to be; `path` ends in no link. False where only this process knows it now."""
    identity = _identity(path)
    was_remembered = _UNMARKED.pop(identity, None) is not None
    is_roots = (uid, gid) == (0, 0)
    if is_roots and not was_remembered:
        with contextlib.suppress(OSError):
            os.removexattr(path, OWNER)
        return True
    try:
        # Of root's too, where this may be a child: process 1 remembers what the child has forgotten, and believes this.
        os.setxattr(path, OWNER, marked(uid, gid))
    except OSError:
        if not is_roots:
            if len(_UNMARKED) >= MOST_UNMARKED:
                _UNMARKED.pop(next(iter(_UNMARKED)))
            _UNMARKED[identity] = uid, gid
        return False
    return True


def give(fd: int, uid: int, gid: int) -> None:
    """Make an open file somebody's, or say so where there is one id; raises `OSError`."""
    if not has_one_id():
        os.fchown(fd, uid, gid)
        return
    path = f"/proc/self/fd/{fd}"
    old = of(path) or (0, 0)
    record(path, old[0] if uid < 0 else uid, old[1] if gid < 0 else gid)


def of_unmarked(upper: int) -> dict[str, tuple[int, int]]:
    """The owners of what cannot carry the attribute, by path, of all that lies in a layer of changes."""
    found: dict[str, tuple[int, int]] = {}
    if not _UNMARKED:
        return found
    folders = [""]
    while folders:
        folder = folders.pop()
        fd = open_folder(upper, folder)
        if fd is None:
            continue
        try:
            for name in os.listdir(fd):
                path = f"{folder}/{name}" if folder else name
                mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    folders.append(path)
                elif not stat.S_ISREG(mode) and (owner := _of_link(path)) is not None:
                    found[path] = owner
        finally:
            os.close(fd)
    return found


def _of_link(path: str) -> tuple[int, int] | None:
    """By its path in the sandbox: numbers of files are the overlay's there."""
    with contextlib.suppress(OSError):
        return _UNMARKED.get(_identity(f"/{path}", follows=False))
    return None


def named(name: str, folder_fd: int, found: os.stat_result) -> tuple[int, int]:
    """Whose the entry of a folder is, or is meant to be where there is one id."""
    if has_one_id():
        with contextlib.suppress(OSError):
            value = os.getxattr(f"/proc/self/fd/{folder_fd}/{name}", OWNER, follow_symlinks=False)
            return parsed(value) or (found.st_uid, found.st_gid)
    return found.st_uid, found.st_gid
