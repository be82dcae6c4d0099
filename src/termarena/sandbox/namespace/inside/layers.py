"""Layers of images in a folder of the host that was lent to the sandbox, with the sandbox's own ids as owners.

On disk a layer is what overlayfs lays below others: a deleted name is a character device 0:0, an opaque folder has an
attribute. In an OCI archive these are files called `.wh.NAME` and `.wh..wh..opq`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import IO, Any, Final

from . import syscalls as sc
from .tar import OPAQUE, Member, Packer, header
from .unpack import Unpacker

IN_ROOT: Final = sc.RESOLVE_IN_ROOT | sc.RESOLVE_NO_MAGICLINKS
CAPABILITY: Final = "security.capability"
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack_layer(disk: int, name: str, archive: IO[bytes]) -> dict[str, Any]:
    """Unpack an archive of our own form into a new folder; links in it are followed, but never out of the folder."""
    os.mkdir(name, 0o755, dir_fd=disk)
    root = os.open(name, FOLDER, dir_fd=disk)
    try:
        unpacker = Unpacker({"0": root}, exact=True, resolve=IN_ROOT)
        unpacker.unpack(archive)
    finally:
        os.close(root)
    return {"count": unpacker.count, "size_bytes": unpacker.size_bytes}


def pack_layer(disk: int, name: str, out: IO[bytes]) -> dict[str, Any]:
    """Write the folder as an OCI layer, by names in order, so that the same files give the same bytes."""
    root = os.open(name, FOLDER, dir_fd=disk)
    try:
        packer = _LayerPacker(out)
        packer.pack(root, ".")
        packer.finish()
    finally:
        os.close(root)
    return {"skipped": packer.skipped}


class _LayerPacker(Packer):
    """Packs in the form of OCI: names without a prefix, whiteouts and opaque folders as files."""

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__(out, exact=True, keeps=frozenset({CAPABILITY}))

    def write_header(self, member: Member) -> None:
        member.name = member.name.removeprefix("./")
        member.target = member.target.removeprefix("./") if member.kind == "link" else member.target
        if member.kind == "device":
            parent, _, name = member.name.rpartition("/")
            member = _mark(f"{parent}/.wh.{name}" if parent else f".wh.{name}", member)
        is_opaque = member.attributes.pop(OPAQUE, b"") == b"y"
        if member.name != ".":
            self.out.write(header(member))
        if is_opaque:
            self.out.write(header(_mark(f"{member.name}/.wh..wh..opq", member)))


def _mark(name: str, like: Member) -> Member:
    mark = Member(name, "file")
    mark.mode, mark.mtime_ns = 0, like.mtime_ns
    return mark


def remove(disk: int, name: str) -> None:
    """Remove a name of the folder with all below it, whatever its modes and owners are; a missing one is no error."""
    with contextlib.suppress(FileNotFoundError):
        _remove(disk, name)


def _remove(parent: int, name: str) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    os.chmod(name, 0o700, dir_fd=parent)
    fd = os.open(name, FOLDER, dir_fd=parent)
    try:
        for entry in os.listdir(fd):
            _remove(fd, entry)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
