"""A system call that waits for an answer: its arguments, and the file that they name as its caller would find it.

Paths are read from the caller's memory and may change meanwhile; they are never followed through the kernel's magic
links, with which process 1 would reach more than the caller.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from typing import Final, NamedTuple

from . import syscalls as sc

PAGE: Final = 4096
PEER: Final = struct.Struct("<iII")
LONGEST: Final = 4096
CODE_FIELD: Final = 23
"""Of what follows the name in `stat`."""
USUAL: Final = 256
"""Most paths are shorter."""
HERE: Final = sc.AT_FDCWD & 0xFFFFFFFF
FLAGS: Final = os.O_PATH | os.O_CLOEXEC


class Place(NamedTuple):
    """Where a caller means."""

    tid: int
    folder: int
    """The descriptor that a relative path starts from, as the call has it."""
    path: str
    follows: bool = True

    @property
    def shortcut(self) -> str:
        """A path of ours to it, in one step and through any link: only for looks that cannot do harm."""
        if not self.path:
            return self._base()
        return f"/proc/{self.tid}/root{self.path}" if self.path.startswith("/") else f"{self._base()}/{self.path}"

    def open(self) -> int:
        """A descriptor that only refers to the file; raises `OSError`."""
        if not self.path:
            return self._open_base(FLAGS)
        return self._open(self.path, FLAGS if self.follows else FLAGS | os.O_NOFOLLOW)

    def open_parent(self) -> tuple[int, str]:
        """The folder that the name is to be made in, and the name; raises `OSError`."""
        folder, _, name = self.path.rstrip("/").rpartition("/")
        if not name or name in (".", ".."):
            raise FileNotFoundError(errno.ENOENT, "no name", self.path)
        if self.path.startswith("/"):
            folder = folder or "/"
        return self._open(folder or ".", FLAGS | os.O_DIRECTORY), name

    def _base(self) -> str:
        return f"/proc/{self.tid}/cwd" if self.folder == HERE else f"/proc/{self.tid}/fd/{_signed(self.folder)}"

    def _open_base(self, flags: int) -> int:
        try:
            return os.open(self._base(), flags)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error

    def _open(self, path: str, flags: int) -> int:
        path = self._below_root(path)
        is_absolute = path.startswith("/")
        folder = FLAGS | os.O_DIRECTORY
        base = os.open(f"/proc/{self.tid}/root", folder) if is_absolute else self._open_base(folder)
        resolve = sc.RESOLVE_NO_MAGICLINKS | (sc.RESOLVE_IN_ROOT if is_absolute else 0)
        try:
            return sc.openat2(base, path, flags, resolve=resolve)
        finally:
            os.close(base)

    def _below_root(self, path: str) -> str:
        """The same file by a path from the caller's root, where that is not ours: so does it mean links in full."""
        if path.startswith("/") or (root := os.readlink(f"/proc/{self.tid}/root")) == "/":
            return path
        base = os.readlink(self._base())
        return f"{base.removeprefix(root)}/{path}" if f"{base}/".startswith(f"{root}/") else path


class Call(NamedTuple):
    """One call of one thread."""

    name: str
    tid: int
    args: list[int]

    def text(self, index: int) -> str:
        """The path that an argument points to; raises `OSError`."""
        address, found = self.args[index], b""
        while len(found) < LONGEST:
            chunk = sc.read_memory(self.tid, address, min(USUAL, PAGE - address % PAGE))
            end = chunk.find(b"\0")
            if end >= 0:
                return os.fsdecode(found + chunk[:end])
            found += chunk
            address += len(chunk)
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def bytes_at(self, index: int, size: int) -> bytes:
        """What an argument points to; raises `OSError` where there is less."""
        found = sc.read_memory(self.tid, self.args[index], size)
        if len(found) != size:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return found

    def place(self) -> Place:
        """The file that the call is about; raises `OSError`."""
        name = self.name
        if name in ("fchown", "fstat"):
            return Place(self.tid, self.args[0] & 0xFFFFFFFF, "")
        if name in ("symlink", "symlinkat"):
            return self._link()
        if (name.endswith("at") and name not in ("stat", "lstat", "creat")) or name in ("statx", "openat2"):
            flags = self.args[FLAGS_AT[name]] if name in FLAGS_AT else 0
            path = "" if not self.args[1] else self.text(1)
            follows = not flags & sc.AT_SYMLINK_NOFOLLOW
            if not path and not flags & sc.AT_EMPTY_PATH:
                raise FileNotFoundError(errno.ENOENT, "no name")
            return Place(self.tid, self.args[0] & 0xFFFFFFFF, path, follows)
        path = self.text(0)
        if not path:
            raise FileNotFoundError(errno.ENOENT, "no name")
        return Place(self.tid, HERE, path, name not in ("lstat", "lchown"))

    def _link(self) -> Place:
        if self.name == "symlink":
            return Place(self.tid, HERE, self.text(1))
        return Place(self.tid, self.args[1] & 0xFFFFFFFF, self.text(2))

    def owning(self) -> tuple[Place, int, int]:
        """The file of a `chown`, and the ids it is to have; raises `OSError`."""
        at = 2 if self.name == "fchownat" else 1
        return self.place(), self.args[at] & 0xFFFFFFFF, self.args[at + 1] & 0xFFFFFFFF

    def answer_address(self) -> int:
        """Where a `stat` wants its answer."""
        return self.args[{"newfstatat": 2, "statx": 4}.get(self.name, 1)]


FLAGS_AT: Final = {"newfstatat": 3, "statx": 2, "fchownat": 4}
"""Which argument has the flags."""


def peer_of(tid: int, fd: int) -> int:
    """The process at the other end of a local socket of a thread's; 0 where there is none, or it is no such socket."""
    pidfd = os.pidfd_open(leader_of(tid))
    try:
        copy = sc.descriptor_of(pidfd, fd)
    finally:
        os.close(pidfd)
    try:
        sock = socket.socket(fileno=copy)
    except OSError:
        # It stays ours: what is no socket was not taken over.
        os.close(copy)
        return 0
    with sock, contextlib.suppress(OSError):
        told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        return int(PEER.unpack(told)[0])
    return 0


def program_of(pid: int) -> bytes:
    """What changes when a process executes another program: where its code lies in memory."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[CODE_FIELD]


def leader_of(tid: int) -> int:
    """The process that a thread belongs to; raises `OSError`."""
    with open(f"/proc/{tid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    return tid


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
