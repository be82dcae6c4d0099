"""Files of a container on this machine, through the root folder of its process 1: no engine, no archive.

The harness is root of the machine here, and the container may be hostile. Every path is resolved by the kernel within
the container's root, without its magic links, and nothing but a regular file is ever opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import posixpath
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxBroken, SandboxFileError
from termarena.sandbox.contract import TreeReport
from termarena.sandbox.docker.files import Files, is_of_kernel
from termarena.sandbox.namespace import trees
from termarena.sandbox.namespace.answers import read_and_close, write_and_close
from termarena.sandbox.namespace.inside import syscalls as sc
from termarena.sandbox.namespace.inside import tar, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.sandbox.docker.client import Engine
    from termarena.sandbox.docker.local import Local
    from termarena.sandbox.docker.pauses import Pauses

__all__ = ["NearFiles"]

RESOLVE: Final = sc.RESOLVE_IN_ROOT | sc.RESOLVE_NO_MAGICLINKS
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
BUFFER: Final = 1 << 18


class NearFiles(Files):
    """See `Files`; what is not here goes through the engine."""

    def __init__(self, engine: Engine, container: str, name: str, *, pauses: Pauses, local: Local) -> None:
        """`local` is the running container."""
        super().__init__(engine, container, name, pauses=pauses)
        self._local = local

    @contextmanager
    def _root(self, operation: str, path: str) -> Iterator[int]:
        """The container's root folder; what the kernel refuses meanwhile becomes `SandboxFileError`."""
        if is_of_kernel(path):
            raise SandboxFileError(operation, path, problem="not a regular file", errno=errno.EINVAL)
        try:
            root = self._local.open_root()
        except OSError as error:
            raise SandboxBroken(self._name, "its process 1 has ended") from error
        try:
            yield root
        except SandboxFileError:
            raise
        except OSError as error:
            problem = error.strerror or str(error)
            raise SandboxFileError(operation, path, problem=problem, errno=error.errno) from error
        finally:
            os.close(root)

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """See the contract."""
        return await asyncio.to_thread(self._read, path, max_bytes)

    def _read(self, path: str, max_bytes: int) -> bytes:
        with self._root("read", path) as root:
            return read_and_close(_open_regular(root, path, os.O_RDONLY), path, max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int, owner: tuple[int, int]) -> None:
        """See the contract."""
        await asyncio.to_thread(self._write, path, content, mode, owner)

    def _write(self, path: str, content: bytes, mode: int, owner: tuple[int, int]) -> None:
        with self._root("write", path) as root:
            _make_folder(root, posixpath.dirname(path), owner)
            fd = _open_to_write(root, path)
            try:
                os.fchown(fd, *owner)
                os.fchmod(fd, mode)
                os.ftruncate(fd, 0)
            except BaseException:
                os.close(fd)
                raise
            write_and_close(fd, path, content)

    async def make_folder(self, path: str, *, owner: tuple[int, int]) -> None:
        """Make a folder and those above it, where missing."""
        await asyncio.to_thread(self._open_folder, "mkdir", path, owner)

    def _open_folder(self, operation: str, path: str, owner: tuple[int, int] | None, *, keep: bool = False) -> int:
        """Open a folder, made if there is an owner for it; -1 unless it is kept."""
        with self._root(operation, path) as root:
            if owner is not None:
                _make_folder(root, path, owner)
            fd = sc.openat2(root, path, FOLDER, resolve=RESOLVE)
            is_kernels = os.fstat(fd).st_dev in _kernel_devices(root)
            if keep and not is_kernels:
                return fd
            os.close(fd)
            if is_kernels:
                raise OSError(errno.EINVAL, "a folder of the kernel", path)
            return -1

    async def put_tree(self, source: Path, target: str, *, owner: tuple[int, int]) -> TreeReport:
        """See the contract."""
        if not await asyncio.to_thread(source.is_dir):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        folder = await asyncio.to_thread(self._open_folder, "put_tree", target, owner, keep=True)
        reading, writing = os.pipe()
        packing = asyncio.get_running_loop().run_in_executor(None, trees.pack_folder, source, writing)
        try:
            return await asyncio.shield(asyncio.to_thread(_unpack, folder, reading, target, owner))
        finally:
            await asyncio.shield(packing)

    async def get_tree(self, source: str, target: Path, *, max_bytes: int) -> TreeReport:
        """See the contract; the root folder itself comes from the engine, without what is mounted in it."""
        if posixpath.normpath(source) == "/":
            return await super().get_tree(source, target, max_bytes=max_bytes)
        await asyncio.to_thread(trees.make_empty, target)
        folder = await asyncio.to_thread(self._open_folder, "get_tree", source, None, keep=True)
        reading, writing = os.pipe()
        packing = asyncio.get_running_loop().run_in_executor(None, _pack, folder, writing, source, max_bytes)
        try:
            received = await asyncio.to_thread(trees.receive_tree, reading, target)
        except ValueError:
            # What was sent broke off; the sender knows why.
            await packing
            raise
        skipped = await packing
        return TreeReport(received.files, received.size_bytes, tuple(sorted({*received.skipped, *skipped})))


def _open_regular(root: int, path: str, flags: int) -> int:
    """Open a regular file, links followed within the root; raises `OSError` for anything else."""
    place = sc.openat2(root, path, os.O_PATH, resolve=RESOLVE)
    try:
        found = os.fstat(place)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(found.st_mode) or found.st_dev in _kernel_devices(root):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.open(f"/proc/self/fd/{place}", flags | os.O_CLOEXEC)
    finally:
        os.close(place)


def _kernel_devices(root: int) -> set[int]:
    """The file systems of the kernel: a link into them must not make us read or write there."""
    found = set()
    for name in ("proc", "sys"):
        with contextlib.suppress(OSError):
            found.add(os.stat(name, dir_fd=root, follow_symlinks=False).st_dev)
    return found - {os.fstat(root).st_dev}


def _open_to_write(root: int, path: str) -> int:
    try:
        return _open_regular(root, path, os.O_WRONLY)
    except FileNotFoundError:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return sc.openat2(root, path, flags, mode=0o600, resolve=RESOLVE)


def _make_folder(root: int, path: str, owner: tuple[int, int]) -> None:
    path = posixpath.normpath(path)
    if path == "/":
        return
    try:
        os.close(sc.openat2(root, path, os.O_PATH | os.O_DIRECTORY, resolve=RESOLVE))
    except FileNotFoundError:
        above, name = posixpath.split(path)
        _make_folder(root, above, owner)
        parent = sc.openat2(root, above, os.O_PATH | os.O_DIRECTORY, resolve=RESOLVE)
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)


def _unpack(folder: int, reading: int, target: str, owner: tuple[int, int]) -> TreeReport:
    """Unpack what comes into the folder; both descriptors are closed."""
    unpacker = unpack.Unpacker({"0": folder}, exact=False, owner=owner)
    try:
        with os.fdopen(reading, "rb", BUFFER) as archive:
            unpacker.unpack(archive)
    except OSError as error:
        problem = error.strerror or str(error)
        raise SandboxFileError("put_tree", target, problem=problem, errno=error.errno) from error
    finally:
        os.close(folder)
    return TreeReport(unpacker.count, unpacker.size_bytes)


def _pack(folder: int, writing: int, source: str, max_bytes: int) -> list[str]:
    """Pack the folder; both descriptors are closed. What was left out."""
    try:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb", BUFFER) as out:
            packer = tar.Packer(out, exact=False, max_bytes=max_bytes)
            packer.pack(folder, "0")
            packer.finish()
            return [name[2:] for name in packer.skipped]
    except OSError as error:
        problem = error.strerror or str(error)
        raise SandboxFileError("get_tree", source, problem=problem, errno=error.errno) from error
    finally:
        os.close(folder)
    return []
