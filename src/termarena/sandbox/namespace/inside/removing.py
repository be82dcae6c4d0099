"""Removal of what sandboxes wrote on the host: modes and owners of their choice, and folders as deep as they liked."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from typing import Any, Final, NoReturn

from . import idmaps
from . import syscalls as sc

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEP: Final = 64
"""What lies deeper is first moved up: descriptors and the stack have an end, and a hostile tree has none."""


def begin(path: str, ids: dict[str, Any], *, gate: int) -> NoReturn:
    """Be the process that removes a folder, with the ids of sandboxes where an ordinary user's own are not enough.

    It begins when a byte comes through the gate, and ends if none can come any more.
    """
    status = 1
    try:
        sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if os.read(gate, 1):
            status = _remove_with(path, ids) if ids["helpers"] else _remove_as_we_are(path)
    finally:
        os._exit(status)


def _remove_as_we_are(path: str) -> int:
    remove_path(path)
    return 0


def _remove_with(path: str, ids: dict[str, Any]) -> int:
    """Remove as root of a user namespace that has the ids; the status of the process that did it."""
    gate_out, gate_in = os.pipe()
    pid = sc.clone(sc.CLONE_NEWUSER)
    if pid == 0:
        status = 1
        try:
            sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(gate_in)
            if os.read(gate_out, 1):
                os.setresgid(0, 0, 0)
                os.setresuid(0, 0, 0)
                remove_path(path)
                status = 0
        finally:
            os._exit(status)
    try:
        idmaps.write_maps(pid, ids)
        os.write(gate_in, b"x")
    finally:
        os.close(gate_in)
        os.close(gate_out)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def remove_path(path: str) -> None:
    """Remove a folder or file of the host; a missing one is no error. Raises `OSError`."""
    parent, name = os.path.split(path)
    try:
        fd = os.open(parent, FOLDER)
    except FileNotFoundError:
        return
    try:
        remove(fd, name)
    finally:
        os.close(fd)


def remove(parent: int, name: str) -> None:
    """Remove a name of a folder with all below it, whatever its modes and owners are; a missing one is no error."""
    with contextlib.suppress(FileNotFoundError):
        top = _enter(parent, name)
        if top is None:
            os.unlink(name, dir_fd=parent)
            return
        try:
            while found := os.listdir(top):
                for entry in found:
                    _remove_below(top, entry, top=top, depth=1)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)


def _remove_below(parent: int, name: str, *, top: int, depth: int) -> None:
    """Remove one name; a folder that lies too deep is moved to the uppermost one, which is gone through once more."""
    with contextlib.suppress(FileNotFoundError):
        with contextlib.suppress(IsADirectoryError):
            os.unlink(name, dir_fd=parent)
            return
        fd = _enter(parent, name)
        if fd is None:
            return
        try:
            if depth > DEEP:
                os.rename(name, os.urandom(8).hex(), src_dir_fd=parent, dst_dir_fd=top)
                return
            for entry in os.listdir(fd):
                _remove_below(fd, entry, top=top, depth=depth + 1)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)


def _enter(parent: int, name: str) -> int | None:
    """The descriptor of a folder, opened to us where need be; None for what is no folder."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode):
        return None
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, FOLDER, dir_fd=parent)
