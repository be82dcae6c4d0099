"""Root file systems from archives: a plain tar of a root, or what `docker save` and OCI tools write.

Names are resolved within the target as within a changed root, so no name, link or order of members can write outside.
Devices are left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tarfile
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.core.errors import ImageError
from termarena.sandbox.namespace.inside import syscalls as sc

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["digest_archive", "unpack_image"]

WHITEOUT: Final = ".wh."
DEEPEST_INDEX: Final = 3
"""A list of manifests may name another one; one that names itself has no end."""
OPAQUE: Final = ".wh..wh..opq"
IN_ROOT: Final = sc.RESOLVE_IN_ROOT | sc.RESOLVE_NO_MAGICLINKS
FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def digest_archive(path: Path) -> str:
    """SHA-256 of the file; raises `ImageError`."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ImageError(str(path), error.strerror or "cannot be read") from error


def unpack_image(path: Path, target: Path) -> None:
    """Unpack into the empty folder `target`; raises `ImageError` for anything that is no root file system."""
    try:
        with tarfile.open(path) as archive:
            layers = _layer_names(archive)
            if layers is None:
                _Layer(target).unpack(archive)
            for name in layers or ():
                with tarfile.open(fileobj=_content(archive, name)) as layer:
                    _Layer(target).unpack(layer)
    except (tarfile.TarError, EOFError, OSError, KeyError, ValueError) as error:
        raise ImageError(str(path), f"cannot be unpacked: {error}", hint="give a tar of a root file system") from error
    if not any((target / name).exists() for name in ("bin", "usr/bin", "sbin")):
        raise ImageError(str(path), "has neither bin nor usr/bin: not a root file system")


def _content(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is not a file of the archive")
    return file


def _json(archive: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - foreign JSON, checked by its users
    return json.loads(_content(archive, name).read())


def _only(images: list[Any]) -> Any:  # noqa: ANN401 - as above
    if len(images) != 1:
        raise ValueError(f"it holds {len(images)} images, and a root file system is one")
    return images[0]


def _layer_names(archive: tarfile.TarFile) -> list[str] | None:
    """The layers of an image archive, lowest first; None for a plain root file system."""
    first = archive.next()
    if first is None:
        raise ValueError("the archive is empty")
    names = set(archive.getnames())
    if "manifest.json" in names:
        return [str(name) for name in _only(_json(archive, "manifest.json"))["Layers"]]
    if "index.json" not in names or "oci-layout" not in names:
        return None
    manifest = _only(_json(archive, "index.json")["manifests"])
    for _ in range(DEEPEST_INDEX):
        if "layers" in manifest:
            break
        manifest = _json(archive, "blobs/" + str(manifest["digest"]).replace(":", "/"))
        if "manifests" in manifest:
            manifest = _only(manifest["manifests"])
    return ["blobs/" + str(layer["digest"]).replace(":", "/") for layer in manifest["layers"]]


class _Layer:
    """Unpacks one tar over what is there."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.keeps_owners = os.geteuid() == 0

    def unpack(self, archive: tarfile.TarFile) -> None:
        root = os.open(self.target, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for member in archive:
                parts = [part for part in member.name.split("/") if part not in ("", ".")]
                if ".." in parts:
                    raise ValueError(f"a member's name climbs: {member.name}")
                if not parts:
                    os.fchmod(root, member.mode & 0o7777 | 0o700)
                    continue
                self._place(root, archive, member, parts)
        finally:
            os.close(root)

    def _place(self, root: int, archive: tarfile.TarFile, member: tarfile.TarInfo, parts: list[str]) -> None:
        parent, name = self._folder(root, parts[:-1]), parts[-1]
        try:
            if name == OPAQUE:
                for entry in os.listdir(parent):  # noqa: PTH208 - a descriptor
                    _remove(parent, entry)
            elif name.startswith(WHITEOUT):
                _remove(parent, name[len(WHITEOUT) :])
            else:
                self._create(root, archive, member, parent=parent, name=name)
        finally:
            os.close(parent)

    def _folder(self, root: int, parts: list[str]) -> int:
        """The folder's descriptor, made with those above it where missing."""
        path = "/".join(parts) or "."
        try:
            return sc.openat2(root, path, os.O_RDONLY | os.O_DIRECTORY, resolve=IN_ROOT)
        except FileNotFoundError:
            above = self._folder(root, parts[:-1])
            try:
                os.mkdir(parts[-1], 0o755, dir_fd=above)
            finally:
                os.close(above)
            return sc.openat2(root, path, os.O_RDONLY | os.O_DIRECTORY, resolve=IN_ROOT)

    def _create(self, root: int, archive: tarfile.TarFile, member: tarfile.TarInfo, *, parent: int, name: str) -> None:
        if member.isdir():
            self._create_folder(member, parent=parent, name=name)
            return
        if not (member.isreg() or member.issym() or member.islnk()):
            return
        _remove(parent, name)
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
            if self.keeps_owners:
                os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        elif member.islnk():
            self._link(root, member, parent=parent, name=name)
        else:
            self._create_file(archive, member, parent=parent, name=name)

    def _create_folder(self, member: tarfile.TarInfo, *, parent: int, name: str) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            if not _is_folder(parent, name):
                _remove(parent, name)
                os.mkdir(name, 0o700, dir_fd=parent)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            self._finish(fd, member, mode=member.mode & 0o7777 | 0o700)
        finally:
            os.close(fd)

    def _link(self, root: int, member: tarfile.TarInfo, *, parent: int, name: str) -> None:
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        if ".." in parts or not parts:
            raise ValueError(f"a hard link's target climbs: {member.linkname}")
        source = self._folder(root, parts[:-1])
        try:
            os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)

    def _create_file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, *, parent: int, name: str) -> None:
        fd = os.open(name, FRESH, 0o600, dir_fd=parent)
        with os.fdopen(fd, "wb") as file:
            source = archive.extractfile(member)
            if source is not None:
                shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
            self._finish(fd, member, mode=member.mode & 0o7777)

    def _finish(self, fd: int, member: tarfile.TarInfo, *, mode: int) -> None:
        if self.keeps_owners:
            os.fchown(fd, member.uid, member.gid)
        os.fchmod(fd, mode)
        os.utime(fd, (member.mtime, member.mtime))


def _is_folder(parent: int, name: str) -> bool:
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent))
    except OSError:
        return False
    return True


def _remove(parent: int, name: str) -> None:
    if not _is_folder(parent, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        return
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for entry in os.listdir(fd):  # noqa: PTH208 - a descriptor
            _remove(fd, entry)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
