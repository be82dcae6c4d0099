"""Archives on their way to and from an engine: packed in a thread, sent and received without waiting for a disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from termarena.sandbox.descriptors import until_readable
from termarena.sandbox.namespace.inside import tar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from termarena.sandbox.docker.client import Body

__all__ = ["Packing", "end_of_archive", "file_member", "folder_member", "from_thread", "in_thread", "pack"]

CHUNK: Final = 1 << 18
T = TypeVar("T")


@dataclass(slots=True)
class Packing:
    """How to pack a folder, and what was packed."""

    owner: tuple[int, int] | None = None
    """Whose everything will be; absent keeps the owners."""
    excludes: Callable[[str, bool], bool] = field(default=lambda _path, _is_folder: False)
    """Whether to leave out a path, relative to the folder; given also whether it is a folder."""
    is_dated: bool = True
    """Whether to keep the times of files; without them equal folders give equal archives."""
    count: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list)


def pack(source: Path, out: IO[bytes], packing: Packing) -> None:
    """Write everything below the folder, links as links, names relative to it. Raises `OSError`."""
    links: dict[tuple[int, int], str] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(source / folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if packing.excludes(name, is_folder):
                    continue
                if is_folder:
                    pending.append(name)
                _add(Path(entry.path), name, out, packing=packing, links=links)
    out.write(end_of_archive())
    out.flush()


def _add(path: Path, name: str, out: IO[bytes], *, packing: Packing, links: dict[tuple[int, int], str]) -> None:
    found = path.lstat()
    kind = stat.S_IFMT(found.st_mode)
    earlier = links.get((found.st_dev, found.st_ino))
    if kind == stat.S_IFDIR:
        member = tar.Member(name, "folder", found)
    elif kind == stat.S_IFLNK:
        member = tar.Member(name, "symlink", found, target=str(path.readlink()))
    elif kind == stat.S_IFREG and earlier is not None:
        member = tar.Member(name, "link", found, target=earlier)
    elif kind == stat.S_IFREG:
        member = tar.Member(name, "file", found)
    elif kind == stat.S_IFIFO:
        member = tar.Member(name, "fifo", found)
    else:
        packing.skipped.append(name)
        return
    if packing.owner is not None:
        member.uid, member.gid = packing.owner
    if not packing.is_dated:
        member.mtime_ns = 0
    packing.count += 1
    if member.kind != "file":
        out.write(tar.header(member))
        return
    if found.st_nlink > 1:
        links[found.st_dev, found.st_ino] = name
    packing.size_bytes += _add_content(path, member, out)


def _add_content(path: Path, member: tar.Member, out: IO[bytes]) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb", buffering=0) as file:
        member.size = os.fstat(fd).st_size
        out.write(tar.header(member))
        left = member.size
        while left and (chunk := file.read(min(CHUNK, left))):
            out.write(chunk)
            left -= len(chunk)
        # A file that shrank while it was read is filled up: its size has been announced.
        out.write(bytes(left + -member.size % tar.BLOCK))
    return member.size


def file_member(name: str, size: int, *, mode: int, owner: tuple[int, int]) -> bytes:
    """The head of a file of now; its content follows, filled up to a whole block."""
    return _member(name, "file", mode=mode, owner=owner, size=size)


def folder_member(name: str, *, owner: tuple[int, int]) -> bytes:
    """A folder of now."""
    return _member(name, "folder", mode=0o755, owner=owner, size=0)


def _member(name: str, kind: str, *, mode: int, owner: tuple[int, int], size: int) -> bytes:
    member = tar.Member(name, kind)
    member.mode, member.size, member.mtime_ns = mode, size, time.time_ns()
    member.uid, member.gid = owner
    return tar.header(member)


def end_of_archive() -> bytes:
    """Two empty blocks."""
    return bytes(2 * tar.BLOCK)


async def from_thread(produce: Callable[[IO[bytes]], None]) -> AsyncIterator[bytes]:
    """What a blocking writer writes, piece by piece; an error of the writer is raised here in the end."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def run() -> None:
        # A reader that went away has its own error to tell.
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb", CHUNK) as out:
            produce(out)

    job = loop.run_in_executor(None, run)
    try:
        while True:
            try:
                piece = os.read(reading, CHUNK)
            except BlockingIOError:
                await until_readable(reading)
                continue
            if not piece:
                break
            yield piece
    finally:
        os.close(reading)
        await asyncio.shield(job)


async def in_thread(body: Body, consume: Callable[[int], T]) -> T:
    """Hand an answer to a blocking reader, by a descriptor that it closes, while it comes; it need not read it all."""
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    consuming = loop.run_in_executor(None, consume, reading)
    passing: asyncio.Future[None] | None = None
    try:
        with contextlib.suppress(BrokenPipeError):
            while not consuming.done() and (piece := await body.read()):
                passing = loop.run_in_executor(None, _write_all, writing, piece)
                await asyncio.shield(passing)
    finally:
        # A thread that still writes when this is cancelled must not meet another file under the old number.
        if passing is not None:
            await asyncio.gather(passing, return_exceptions=True)
        os.close(writing)
        await asyncio.wait({consuming})
    return consuming.result()


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
