"""The host's side of a tree transfer: packing a folder of ours, and unpacking what a sandbox sent, without trust."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from typing import TYPE_CHECKING, Final

from termarena.sandbox.contract import TreeReport
from termarena.sandbox.namespace.inside import tar
from termarena.sandbox.namespace.inside.little import is_little

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["make_empty", "pack_folder", "pack_little", "receive_little", "receive_tree"]

BUFFER: Final = 1 << 18


def make_empty(target: Path) -> None:
    """Make the folder, or accept an empty one; raises `FileExistsError`."""
    target.mkdir(exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")


def pack_folder(source: Path, fd: int) -> None:
    """Write the folder as an archive to the descriptor, which is closed; a reader that went away is no error here."""
    with contextlib.suppress(BrokenPipeError), os.fdopen(fd, "wb", BUFFER) as out:
        root = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            packer = tar.Packer(out, exact=False)
            packer.pack(root, "0")
            packer.finish()
        finally:
            os.close(root)


def pack_little(source: Path) -> bytes | None:
    """The folder as an archive; None where there is more than little in it. Raises `OSError`."""
    root = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not is_little([root]):
            return None
        packed = io.BytesIO()
        packer = tar.Packer(packed, exact=False)
        packer.pack(root, "0")
        packer.finish()
        return packed.getvalue()
    finally:
        os.close(root)


def receive_little(archive: bytes, target: Path) -> TreeReport:
    """Unpack an archive into a new or empty folder; raises what both steps of it raise."""
    make_empty(target)
    return _Receiver(target, None).receive(tar.Reader(io.BytesIO(archive)))


def receive_tree(fd: int, target: Path, *, max_bytes: int | None = None) -> TreeReport:
    """Unpack an archive from the descriptor, which is closed, into an empty folder.

    Links are made last, so that no member is ever written through one. Raises `ValueError` for an archive that ends
    early or has names that climb, `OSError` from the host and EFBIG beyond `max_bytes` of content.
    """
    with os.fdopen(fd, "rb", BUFFER) as archive:
        return _Receiver(target, max_bytes).receive(tar.Reader(archive))


class _Receiver:
    def __init__(self, target: Path, max_bytes: int | None) -> None:
        self.target = target
        self.max_bytes = max_bytes
        self.count = 0
        self.size_bytes = 0
        self.skipped: list[str] = []
        self.links: list[tar.Member] = []
        self.folders: list[tuple[Path, tar.Member]] = []

    def receive(self, reader: tar.Reader) -> TreeReport:
        for member in reader:
            self._place(member, reader)
        for member in self.links:
            self._link(member)
        for path, member in reversed(self.folders):
            path.chmod(member.mode & 0o777 | 0o700)
            os.utime(path, ns=(member.mtime_ns, member.mtime_ns))
        return TreeReport(self.count, self.size_bytes, tuple(sorted(self.skipped)))

    def _path(self, name: str) -> Path:
        return self.target.joinpath(*tar.split(name)[1])

    def _place(self, member: tar.Member, reader: tar.Reader) -> None:
        path = self._path(member.name)
        if member.kind == "folder":
            path.mkdir(exist_ok=True)
            if path != self.target:
                self.folders.append((path, member))
                self.count += 1
        elif member.kind == "file":
            if self.max_bytes is not None and self.size_bytes + member.size > self.max_bytes:
                raise OSError(errno.EFBIG, "the files are larger than allowed", member.name)
            with path.open("xb") as out:
                while chunk := reader.chunk():
                    out.write(chunk)
            path.chmod(member.mode & 0o777 | 0o600)
            os.utime(path, ns=(member.mtime_ns, member.mtime_ns))
            self.count += 1
            self.size_bytes += member.size
        elif member.kind in ("link", "symlink"):
            self.links.append(member)
        else:
            self.skipped.append("/".join(tar.split(member.name)[1]))

    def _link(self, member: tar.Member) -> None:
        path = self._path(member.name)
        if member.kind == "link":
            source = self._path(member.target)
            if source.is_symlink() or not source.is_file():
                self.skipped.append(str(path.relative_to(self.target)))
                return
            path.hardlink_to(source)
        elif _leads_outside(path.relative_to(self.target), member.target):
            self.skipped.append(str(path.relative_to(self.target)))
            return
        else:
            path.symlink_to(member.target)
        self.count += 1


def _leads_outside(link: Path, target: str) -> bool:
    """Whether a link's target, taken by its words alone, leaves the tree; other links on the way count as folders."""
    if target.startswith("/"):
        return True
    depth = len(link.parts) - 1
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False
