"""Layers of images in a folder of the host that was lent to the sandbox, with the sandbox's own ids as owners.

On disk a layer is what overlayfs lays below others: a deleted name is a character device 0:0, an opaque folder has an
attribute. In an OCI archive these are files called `.wh.NAME` and `.wh..wh..opq`.
"""

from __future__ import annotations

import os
import stat
from typing import IO, Any, Final

from . import files, owners
from . import syscalls as sc
from .tar import IMPLIED, OPAQUE, OWNER, Member, Packer, Reader, header
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
        self.owners: dict[str, tuple[int, int]] = {}

    def write_header(self, member: Member) -> None:
        member.name = member.name.removeprefix("./")
        member.target = member.target.removeprefix("./") if member.kind == "link" else member.target
        owner = owners.parsed(member.attributes.pop(OWNER, b""))
        if member.kind == "link":
            owner = self.owners.get(member.target)
        if owner is not None:
            # For other names of the file too: an engine takes the owner from each.
            self.owners[member.name] = member.uid, member.gid = owner
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


def look_at(path: str, owner: str) -> dict[str, Any]:
    """What stands at a path of the image, links followed, and which numbers an owner (`user[:group]`) has there."""
    user, _, group = owner.partition(":")
    found, gid = files.find_user(user), files.find_group(group or user)
    try:
        fd = files.open_inside(path, os.O_PATH)
    except OSError:
        return {"kind": "", "uid": found.uid, "gid": gid}
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)
    return {"kind": "folder" if is_folder else "other", "uid": found.uid, "gid": gid}


def look_up(user: str) -> dict[str, Any]:
    """The numbers that a user (`user[:group]`) has in the image."""
    found = files.find_user(user)
    return {"uid": found.uid, "gid": found.gid}


def list_folder(path: str) -> dict[str, Any]:
    """The names in a folder of the image."""
    fd = files.open_inside(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return {"names": sorted(os.listdir(fd))}
    finally:
        os.close(fd)


def pack_path(path: str, name: str, out: IO[bytes]) -> dict[str, Any]:
    """Write what stands at a path of the image: a folder's content, or a file under `name`; owners are kept."""
    packer = Packer(out, exact=True, keeps=frozenset({CAPABILITY}))
    place_fd = files.open_inside(path, os.O_PATH)
    try:
        found = os.fstat(place_fd)
        if stat.S_ISDIR(found.st_mode):
            root = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=place_fd)
            packer.pack(root, "0")
            os.close(root)
        elif stat.S_ISREG(found.st_mode):
            packer.pack_file(os.open(f"/proc/self/fd/{place_fd}", os.O_RDONLY), f"0/{name}")
        else:
            raise OSError(22, "neither a file nor a folder", path)
    finally:
        os.close(place_fd)
    packer.finish()
    return {"skipped": packer.skipped}


def place(request: dict[str, Any], archive: IO[bytes]) -> dict[str, Any]:
    """Unpack an archive of our own form into a folder of the image, which is made where it is missing.

    `owner` (uid, gid) and `mode`, where given, are those of all that is placed, the folders above it included. A folder
    that is there already keeps its own, unless `is_exact`.
    """
    owner, mode = request["owner"], request["mode"]
    made = files.make_folder(request["path"])
    for folder in made if owner is not None else []:
        fd = files.open_inside(folder, os.O_RDONLY | os.O_DIRECTORY)
        owners.give(fd, *owner)
        os.close(fd)
    root = files.open_inside(request["path"], os.O_RDONLY | os.O_DIRECTORY)
    placer = _Placer({"0": root}, owner=owner, mode=mode, is_exact=request["is_exact"])
    placer.unpack(archive)
    at = os.readlink(f"/proc/self/fd/{root}")
    return {"at": at, "made": made, "names": placer.names}


class _Placer(Unpacker):
    def __init__(self, roots: dict[str, int], *, owner: list[int] | None, mode: int | None, is_exact: bool) -> None:
        super().__init__(roots, exact=True, resolve=IN_ROOT)
        self.new_owner = owner
        self.new_mode = mode
        self.is_exact = is_exact
        self.names: list[str] = []

    def place(self, member: Member, reader: Reader) -> None:
        parts = member.name.split("/")[1:]
        is_implied = member.attributes.pop(IMPLIED, b"") == b"y"
        keeps = is_implied or not self.is_exact
        if member.kind == "folder" and (not parts or (keeps and self._is_there(member))):
            return
        if self.new_owner is not None:
            member.uid, member.gid = self.new_owner
            member.attributes.pop(OWNER, None)
        if owners.has_one_id() and (member.uid, member.gid) != (0, 0) and member.kind in ("file", "folder"):
            member.attributes[OWNER] = owners.marked(member.uid, member.gid)
        if self.new_mode is not None and member.kind in ("file", "folder"):
            member.mode = self.new_mode
        self.names.append("/".join(parts))
        super().place(member, reader)

    def _is_there(self, member: Member) -> bool:
        try:
            root, path = self.roots["0"], member.name.partition("/")[2]
            os.close(sc.openat2(root, path, os.O_PATH | os.O_DIRECTORY, resolve=IN_ROOT))
        except OSError:
            return False
        return True
