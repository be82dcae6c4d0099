"""Files of a container through the engine's archives, which need nothing inside and resolve links within the container.

The engine sees the container's file system without `/proc`, `/sys` and `/dev`; paths there are refused.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import posixpath
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, SandboxBroken, SandboxFileError
from termarena.sandbox.contract import TreeReport
from termarena.sandbox.docker.archives import (
    Packing,
    end_of_archive,
    file_member,
    folder_member,
    from_thread,
    in_thread,
    pack,
)
from termarena.sandbox.docker.client import Request
from termarena.sandbox.docker.pauses import Pauses
from termarena.sandbox.namespace import trees
from termarena.sandbox.namespace.inside import tar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from termarena.sandbox.docker.client import Body, Engine

__all__ = ["Files", "Node", "is_of_kernel"]

GO_FOLDER: Final = 1 << 31
GO_SYMLINK: Final = 1 << 27
GO_SPECIAL: Final = (1 << 26) | (1 << 25) | (1 << 24) | (1 << 21) | (1 << 19)
LINKS_FOLLOWED: Final = 16
KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
PIECE: Final = 1 << 20
NOT_FOUND: Final = 404
ERRNOS: Final = {
    "no space left": errno.ENOSPC,
    "not a directory": errno.ENOTDIR,
    "could not find": errno.ENOENT,
    "no such file": errno.ENOENT,
    "cannot overwrite": errno.EEXIST,
    "file name too long": errno.ENAMETOOLONG,
    "read-only": errno.EROFS,
    "disk quota": errno.EDQUOT,
}


@dataclass(frozen=True, slots=True)
class Node:
    """What a path is, as the engine tells it."""

    mode: int
    size: int
    link: str

    @property
    def is_folder(self) -> bool:
        """A folder, not a link to one."""
        return bool(self.mode & GO_FOLDER)

    @property
    def is_file(self) -> bool:
        """A regular file."""
        return not self.mode & (GO_FOLDER | GO_SYMLINK | GO_SPECIAL)


def is_of_kernel(path: str) -> bool:
    """Whether a path lies where the kernel's own file systems are mounted."""
    plain = posixpath.normpath("/" + path.lstrip("/"))
    return any(plain == folder or plain.startswith(folder + "/") for folder in KERNEL_FOLDERS)


class Files:
    """The files of one container, running or not."""

    def __init__(self, engine: Engine, container: str, name: str, *, pauses: Pauses | None = None) -> None:
        """`name` is the sandbox's, for errors; a container that runs needs the `pauses` of its commands."""
        self._engine = engine
        self._container = container
        self._name = name
        self._pauses = pauses or Pauses(engine, container, name)

    def _request(self, method: str, path: str, **rest: Any) -> Request:  # noqa: ANN401 - the fields of Request
        query = {"path": path, **rest.pop("query", {})}
        return Request(method, f"/containers/{self._container}/archive", query, **rest)

    def _refusal(self, operation: str, path: str, error: EngineError) -> Exception:
        problem = error.problem.lower()
        if "no such container" in problem or error.status is None:
            return SandboxBroken(self._name, error.problem)
        for words, number in ERRNOS.items():
            if words in problem:
                return SandboxFileError(operation, path, problem=os.strerror(number), errno=number)
        return SandboxFileError(operation, path, problem=error.problem)

    async def node(self, path: str, *, operation: str = "stat") -> Node | None:
        """What is at the path, links not followed; None for nothing. Raises `SandboxFileError`, `SandboxBroken`."""
        try:
            async with self._engine.open(self._request("HEAD", path)) as body:
                return _node(body)
        except EngineError as error:
            # The answer to HEAD has no words.
            if error.status == NOT_FOUND:
                await self._check_container()
                return None
            if error.status is None:
                raise SandboxBroken(self._name, error.problem) from error
            raise SandboxFileError(operation, path, problem="Not a directory", errno=errno.ENOTDIR) from error

    async def _check_container(self) -> None:
        try:
            await self._engine.call("GET", f"/containers/{self._container}/json")
        except EngineError as error:
            raise SandboxBroken(self._name, error.problem) from error

    async def resolve(self, path: str, *, operation: str) -> str:
        """The path with the link at its end followed, within the container; it need not exist."""
        for _ in range(LINKS_FOLLOWED):
            if is_of_kernel(path):
                raise SandboxFileError(operation, path, problem="not a regular file", errno=errno.EINVAL)
            node = await self.node(path, operation=operation)
            if node is None or not node.link:
                return path
            path = node.link
        raise SandboxFileError(operation, path, problem=os.strerror(errno.ELOOP), errno=errno.ELOOP)

    @asynccontextmanager
    async def opened(self, path: str, *, operation: str) -> AsyncIterator[Body]:
        """The archive of a path. Raises `SandboxFileError`, `SandboxBroken`."""
        try:
            async with self._engine.open(self._request("GET", path)) as body:
                yield body
        except EngineError as error:
            raise self._refusal(operation, path, error) from error

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """See the contract."""
        asked = path
        for _ in range(LINKS_FOLLOWED):
            if is_of_kernel(path):
                raise SandboxFileError("read", asked, problem="not a regular file", errno=errno.EINVAL)
            try:
                async with self.opened(path, operation="read") as body:
                    node = _node(body)
                    if not node.link:
                        _check_readable(node, asked, max_bytes)
                        return await self._content(body, path, asked, max_bytes)
                    path = node.link
            except SandboxFileError as error:
                if error.path == asked:
                    raise
                raise SandboxFileError("read", asked, problem=str(error.args[0]), errno=error.errno) from error
        raise SandboxFileError("read", asked, problem=os.strerror(errno.ELOOP), errno=errno.ELOOP)

    async def _content(self, body: Body, path: str, asked: str, max_bytes: int) -> bytes:
        name = posixpath.basename(path)
        content = await in_thread(body, lambda fd: _find_member(fd, name, max_bytes))
        if content is None:
            # An engine sends nothing for a name that is not UTF-8, but everything for its folder.
            async with self.opened(posixpath.dirname(path), operation="read") as folder:
                wanted = posixpath.join(posixpath.basename(posixpath.dirname(path)), name)
                content = await in_thread(folder, lambda fd: _find_member(fd, wanted, max_bytes))
        if content is None:
            raise SandboxFileError("read", asked, problem="it changed while it was read", errno=errno.EINVAL)
        return content

    async def extract(self, path: str, pieces: AsyncIterator[bytes] | bytes, *, operation: str) -> None:
        """Unpack an archive into an existing folder of the container."""
        query = {"noOverwriteDirNonDir": True}
        try:
            async with self._engine.open(self._request("PUT", path, query=query, body=pieces)) as body:
                await body.all()
        except EngineError as error:
            raise self._refusal(operation, path, error) from error

    async def write(self, path: str, content: bytes, *, mode: int, owner: tuple[int, int]) -> None:
        """See the contract."""
        path = await self.resolve(path, operation="write")
        above, missing = await self._existing(posixpath.dirname(path), operation="write")
        name = "/".join([*missing, posixpath.basename(path)])
        head = b"".join(folder_member("/".join(missing[: n + 1]), owner=owner) for n in range(len(missing)))
        head += file_member(name, len(content), mode=mode, owner=owner)
        try:
            await self.extract(above, _pieces([head, content, bytes(-len(content) % tar.BLOCK)]), operation="write")
        except SandboxFileError as error:
            raise SandboxFileError("write", path, problem=_words(error), errno=error.errno) from error

    async def _existing(self, folder: str, *, operation: str) -> tuple[str, list[str]]:
        """The nearest folder above that is there, and the names missing below it."""
        missing: list[str] = []
        while True:
            found = await self.resolve(folder, operation=operation) if folder != "/" else "/"
            node = await self.node(found, operation=operation)
            if node is not None and not node.is_folder:
                raise SandboxFileError(operation, folder, problem=os.strerror(errno.ENOTDIR), errno=errno.ENOTDIR)
            if node is not None:
                return found, missing
            missing.insert(0, posixpath.basename(folder))
            folder = posixpath.dirname(folder)

    async def make_folder(self, path: str, *, owner: tuple[int, int]) -> None:
        """Make a folder and those above it, where missing."""
        above, missing = await self._existing(posixpath.normpath(path), operation="mkdir")
        if missing:
            members = [folder_member("/".join(missing[: n + 1]), owner=owner) for n in range(len(missing))]
            await self.extract(above, b"".join(members) + end_of_archive(), operation="mkdir")

    async def put_tree(self, source: Path, target: str, *, owner: tuple[int, int]) -> TreeReport:
        """See the contract."""
        if not await asyncio.to_thread(source.is_dir):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        await self.make_folder(target, owner=owner)
        packing = Packing(owner=owner)
        # An engine looks first and unpacks then: nothing may turn a folder into a link meanwhile. Where it cannot
        # pause, what was planted stays within the container.
        async with self._pauses.paused():
            await self.extract(target, from_thread(lambda out: pack(source, out, packing)), operation="put_tree")
        return TreeReport(packing.count, packing.size_bytes, tuple(packing.skipped))

    async def get_tree(self, source: str, target: Path, *, max_bytes: int) -> TreeReport:
        """See the contract."""
        source = await self.resolve(source, operation="get_tree")
        await asyncio.to_thread(trees.make_empty, target)
        async with self.opened(source, operation="get_tree") as body:
            if not _node(body).is_folder:
                raise SandboxFileError("get_tree", source, problem=os.strerror(errno.ENOTDIR), errno=errno.ENOTDIR)
            try:
                return await in_thread(body, lambda fd: trees.receive_tree(fd, target, max_bytes=max_bytes))
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                raise SandboxFileError("get_tree", source, problem=error.args[1], errno=errno.EFBIG) from error


def _words(error: SandboxFileError) -> str:
    return os.strerror(error.errno) if error.errno else str(error.message)


def _node(body: Body) -> Node:
    told = json.loads(base64.b64decode(body.headers["x-docker-container-path-stat"]))
    return Node(int(told["mode"]), int(told["size"]), str(told.get("linkTarget") or ""))


def _check_readable(node: Node, path: str, max_bytes: int) -> None:
    if node.is_folder:
        raise SandboxFileError("read", path, problem=os.strerror(errno.EISDIR), errno=errno.EISDIR)
    if not node.is_file:
        raise SandboxFileError("read", path, problem="not a regular file", errno=errno.EINVAL)
    if node.size > max_bytes:
        problem = f"{node.size} bytes are more than {max_bytes}"
        raise SandboxFileError("read", path, problem=problem, errno=errno.EFBIG)


def _find_member(fd: int, name: str, max_bytes: int) -> bytes | None:
    """The content of the file with this name; None where the archive has no such file."""
    with os.fdopen(fd, "rb", 1 << 18) as archive:
        reader = tar.Reader(archive)
        for member in reader:
            if member.name == name and member.kind == "file" and member.size <= max_bytes:
                parts = []
                while chunk := reader.chunk():
                    parts.append(chunk)
                return b"".join(parts)
    return None


async def _pieces(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        for at in range(0, len(part), PIECE):
            yield part[at : at + PIECE]
    yield end_of_archive()
