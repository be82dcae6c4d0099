"""What a sandbox changed, read from its change layer: proportional to the changes, never to the image."""

from __future__ import annotations

import importlib
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from . import owners
from . import syscalls as sc
from .tar import BENEATH, OPAQUE, attributes_of, is_whiteout, open_folder, open_regular

if TYPE_CHECKING:
    from .mounts import Volume

CHUNK: Final = 1 << 20
DIGEST_BYTES: Final = 32
MOUNT_POINTS: Final = frozenset({"dev", "proc", "sys"})
# The C module itself: hashlib would load OpenSSL into every sandbox.
_blake2b = importlib.import_module("_blake2").blake2b
_KINDS: Final = {
    stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip

Entry = dict[str, Any]


def kind_of(found: os.stat_result) -> str:
    """The kind of a file in words."""
    return _KINDS.get(stat.S_IFMT(found.st_mode), "device")


def index(volumes: list[Volume]) -> list[Entry]:
    """Every difference between now and the start, by path."""
    entries: list[Entry] = []
    for volume in volumes:
        _Walk(volume, entries, others={other.at for other in volumes if other.at}).run()
    entries.sort(key=lambda entry: entry["path"])
    return entries


class _Walk:
    def __init__(self, volume: Volume, entries: list[Entry], *, others: set[str]) -> None:
        self.volume = volume
        self.entries = entries
        self.not_ours = (MOUNT_POINTS | others) if not volume.at else frozenset()

    def run(self) -> None:
        pending = [""]
        while pending:
            folder = pending.pop()
            upper = open_folder(self.volume.upper_fd, folder)
            if upper is None:
                continue
            base = self._open_base(folder)
            try:
                names = [name for name in os.listdir(upper) if folder or name not in self.not_ours]
                pending += [child for name in names if (child := self._visit(folder, name, upper=upper, base=base))]
                if base is not None and _is_opaque(upper):
                    self._add_hidden(folder, base, present=set(names))
            finally:
                os.close(upper)
                if base is not None:
                    os.close(base)

    def _open_base(self, folder: str) -> int | None:
        try:
            return sc.openat2(self.volume.base_fd, folder or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=BENEATH)
        except OSError:
            return None

    def _path(self, folder: str, name: str) -> str:
        return "/" + "/".join(part for part in (self.volume.at, folder, name) if part)

    def _visit(self, folder: str, name: str, *, upper: int, base: int | None) -> str | None:
        """Record one entry of the change layer; a folder's path is returned, to be walked."""
        found = os.stat(name, dir_fd=upper, follow_symlinks=False)
        before = _stat_or_none(name, base)
        path = self._path(folder, name)
        if is_whiteout(found):
            if before is not None:
                self.entries.append({"path": path, "change": "removed", "kind": kind_of(before)})
            return None
        entry = _describe(path, name, found, folder_fd=upper)
        entry["change"] = "added" if before is None else _compare(name, found, before, upper=upper, base=base)
        if entry["change"] != "same":
            self.entries.append(entry)
        return (
            f"{folder}/{name}"
            if folder and stat.S_ISDIR(found.st_mode)
            else name
            if stat.S_ISDIR(found.st_mode)
            else None
        )

    def _add_hidden(self, folder: str, base: int, *, present: set[str]) -> None:
        for name in set(os.listdir(base)) - present:
            before = os.stat(name, dir_fd=base, follow_symlinks=False)
            self.entries.append({"path": self._path(folder, name), "change": "removed", "kind": kind_of(before)})


def _stat_or_none(name: str, folder_fd: int | None) -> os.stat_result | None:
    if folder_fd is None:
        return None
    try:
        return os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return None


def _is_opaque(fd: int) -> bool:
    return attributes_of(fd).get(OPAQUE) == b"y"


def _describe(path: str, name: str, found: os.stat_result, *, folder_fd: int) -> Entry:
    kind = kind_of(found)
    uid, gid = owners.named(name, folder_fd, found)
    entry: Entry = {
        "path": path, "kind": kind, "mode": stat.S_IMODE(found.st_mode), "uid": uid, "gid": gid,
    }  # fmt: skip
    if kind == "file":
        entry.update(size=found.st_size, digest=_digest(name, folder_fd))
    elif kind == "symlink":
        entry["target"] = os.readlink(name, dir_fd=folder_fd)
    return entry


def _digest(name: str, folder_fd: int) -> str:
    state = _blake2b(digest_size=DIGEST_BYTES)
    fd = open_regular(name, folder_fd)
    try:
        found = os.fstat(fd)
        if found.st_blocks * 512 < found.st_size:
            _digest_extents(fd, state)
        while chunk := os.read(fd, CHUNK):
            state.update(chunk)
    finally:
        os.close(fd)
    return str(state.hexdigest())


def _digest_extents(fd: int, state: Any) -> None:  # noqa: ANN401 - a hash object of a C module
    """Hash a file with holes by what it really holds: its size may be beyond any disk."""
    end = 0
    while True:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
        except OSError:
            os.lseek(fd, 0, os.SEEK_END)
            state.update(b"size %d" % os.fstat(fd).st_size)
            return
        end = os.lseek(fd, begin, os.SEEK_HOLE)
        state.update(b"at %d" % begin)
        for position in range(begin, end, CHUNK):
            state.update(os.pread(fd, min(CHUNK, end - position), position))


def _compare(name: str, now: os.stat_result, before: os.stat_result, *, upper: int, base: int | None) -> str:
    """`same`, `metadata` or `modified`; a chmod or touch copies the whole file up, so the content decides."""
    if base is None or stat.S_IFMT(now.st_mode) != stat.S_IFMT(before.st_mode):
        return "modified"
    if stat.S_ISLNK(now.st_mode) and os.readlink(name, dir_fd=upper) != os.readlink(name, dir_fd=base):
        return "modified"
    if stat.S_ISREG(now.st_mode) and (now.st_size != before.st_size or not _same_content(name, upper, base)):
        return "modified"
    if now.st_mode != before.st_mode or owners.named(name, upper, now) != owners.named(name, base, before):
        return "metadata"
    if stat.S_ISREG(now.st_mode) and now.st_mtime_ns != before.st_mtime_ns:
        return "metadata"
    return "same"


def _same_content(name: str, upper: int, base: int) -> bool:
    first = open_regular(name, upper)
    try:
        second = open_regular(name, base)
        try:
            while (chunk := os.read(first, CHUNK)) == os.read(second, CHUNK):
                if not chunk:
                    return True
            return False
        finally:
            os.close(second)
    finally:
        os.close(first)
