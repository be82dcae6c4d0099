"""Unpacking of our own archives below descriptors of folders, without following any link on the way."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import IO, Final

from . import owners
from . import syscalls as sc
from .tar import BENEATH, OPAQUE, Member, Reader, is_whiteout, split, unexpected_kind

HOLE_BYTES: Final = 1 << 16
FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Unpacker:
    """Unpacks into folders that are chosen by each member's first name."""

    def __init__(
        self,
        roots: dict[str, int],
        *,
        exact: bool,
        owner: tuple[int, int] | None = None,
        opaque: str = OPAQUE,
        resolve: int = BENEATH,
    ) -> None:
        """`exact` restores owners, whiteouts and attributes; otherwise everything belongs to `owner`, if given.

        `opaque` is the attribute that the file system wants on an opaque folder; `resolve` is how the folders above a
        member are found: by default no link is followed.
        """
        self.roots = roots
        self.resolve = resolve
        self.exact = exact
        self.opaque = opaque
        self.owner = owner
        self.count = 0
        self.size_bytes = 0
        self.room_bytes: int | None = None
        """What may be written in all; absent means that the file system knows."""
        self._times: list[tuple[int, str, int]] = []
        self._folder: tuple[tuple[int, str], int] | None = None

    def unpack(self, archive: IO[bytes]) -> None:
        """Raises `ValueError` for a bad archive, `OSError` where the file system refuses."""
        reader = Reader(archive)
        try:
            for member in reader:
                self.place(member, reader)
            for root, path, mtime_ns in reversed(self._times):
                self._set_folder_time(root, path, mtime_ns)
        finally:
            self._forget_folder()

    def place(self, member: Member, reader: Reader) -> None:
        """Make one member."""
        first, parts = split(member.name)
        root = self.roots[first]
        if not parts:
            self._finish_folder(root, ".", member)
            return
        parent, name = self._parent(root, "/".join(parts[:-1])), parts[-1]
        if member.kind == "folder":
            _make_folder(parent, name)
            self._finish_folder(root, "/".join(parts), member)
        else:
            self._create(member, reader, parent=parent, name=name)
        self.count += 1

    def _parent(self, root: int, path: str) -> int:
        """The folder's descriptor; the last one is kept, since members come folder by folder."""
        if self._folder is None or self._folder[0] != (root, path):
            self._forget_folder()
            fd = sc.openat2(root, path or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=self.resolve)
            self._folder = ((root, path), fd)
        return self._folder[1]

    def _forget_folder(self) -> None:
        if self._folder is not None:
            os.close(self._folder[1])
            self._folder = None

    def _create(self, member: Member, reader: Reader, *, parent: int, name: str) -> None:
        if member.kind == "file":
            self._create_file(member, reader, parent=parent, name=name)
            return
        _clear(parent, name)
        if member.kind == "link":
            root, parts = split(member.target)
            source = self._parent_of_link(self.roots[root], "/".join(parts[:-1]))
            try:
                os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
            finally:
                os.close(source)
            return
        if member.kind == "symlink":
            os.symlink(member.target, name, dir_fd=parent)
        elif member.kind == "fifo":
            os.mkfifo(name, member.mode, dir_fd=parent)
        elif self.exact:
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=parent)
            return
        self._own(member, name, parent=parent)
        os.utime(name, ns=(member.mtime_ns, member.mtime_ns), dir_fd=parent, follow_symlinks=False)

    def _parent_of_link(self, root: int, path: str) -> int:
        return sc.openat2(root, path or ".", os.O_PATH | os.O_DIRECTORY, resolve=self.resolve)

    def _create_file(self, member: Member, reader: Reader, *, parent: int, name: str) -> None:
        fd = _open_fresh(parent, name, member.mode & 0o777)
        try:
            ends_in_hole = False
            while chunk := reader.chunk():
                taken = write_or_skip(fd, chunk)
                ends_in_hole = taken == 0
                self._spend(taken)
            if ends_in_hole:
                os.ftruncate(fd, member.size)
            self.size_bytes += member.size
            # On a disk each change of a file is one of its journal: what is right already is left alone.
            made = os.fstat(fd)
            self._own(member, fd, made=made)
            if stat.S_IMODE(made.st_mode) != member.mode:
                os.chmod(fd, member.mode)
            self._set_attributes(fd, member)
            os.utime(fd, ns=(member.mtime_ns, member.mtime_ns))
        finally:
            os.close(fd)

    def _spend(self, size_bytes: int) -> None:
        if self.room_bytes is not None:
            self.room_bytes -= size_bytes
            if self.room_bytes < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _set_attributes(self, fd: int, member: Member) -> None:
        for key, value in member.attributes.items():
            if self.exact or key != OPAQUE:
                os.setxattr(fd, self.opaque if key == OPAQUE else key, value)

    def _own(
        self, member: Member, target: int | str, *, parent: int | None = None, made: os.stat_result | None = None
    ) -> None:
        uid, gid = (member.uid, member.gid) if self.exact else self.owner or (-1, -1)
        if uid < 0 or (made is not None and (made.st_uid, made.st_gid) == (uid, gid) and not owners.has_one_id()):
            return
        if not owners.has_one_id():
            os.chown(target, uid, gid, dir_fd=parent, follow_symlinks=isinstance(target, int))
        elif isinstance(target, int) and not self.exact:
            owners.give(target, uid, gid)

    def _finish_folder(self, root: int, path: str, member: Member) -> None:
        fd = sc.openat2(root, path, os.O_RDONLY | os.O_DIRECTORY, resolve=self.resolve)
        try:
            if path != "." or self.exact:
                self._own(member, fd)
                os.chmod(fd, member.mode)
                self._times.append((root, path, member.mtime_ns))
            self._set_attributes(fd, member)
        finally:
            os.close(fd)

    def _set_folder_time(self, root: int, path: str, mtime_ns: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            fd = sc.openat2(root, path, os.O_RDONLY | os.O_DIRECTORY, resolve=self.resolve)
            try:
                os.utime(fd, ns=(mtime_ns, mtime_ns))
            finally:
                os.close(fd)


def _open_fresh(parent: int, name: str, mode: int) -> int:
    """A new file in the place of whatever has the name, unless that is a folder."""
    try:
        return os.open(name, FRESH, mode, dir_fd=parent)
    except FileExistsError:
        _clear(parent, name)
        return os.open(name, FRESH, mode, dir_fd=parent)


def write_or_skip(fd: int, chunk: bytes) -> int:
    """Write at the end of a fresh file, and how much that takes.

    A long run of zeros becomes a hole, for which the file's size is set later.
    """
    if len(chunk) >= HOLE_BYTES and not chunk[0] and not chunk[-1] and chunk.count(0) == len(chunk):
        os.lseek(fd, len(chunk), os.SEEK_CUR)
        return 0
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]
    return len(chunk)


def _make_folder(parent: int, name: str) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if is_whiteout(found):
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o700, dir_fd=parent)
        elif not stat.S_ISDIR(found.st_mode):
            raise unexpected_kind(name) from None


def _clear(parent: int, name: str) -> None:
    """Remove what has the name, unless it is a folder."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        raise unexpected_kind(name) from None
