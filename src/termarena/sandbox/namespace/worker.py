"""Work on the layers of images by a process that has the ids of sandboxes: owners come out as the sandbox sees them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

from termarena.core.errors import SandboxFileError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from termarena.sandbox.namespace.box import NamespaceSandbox

__all__ = ["Disk", "Joining", "LayerWorker", "Mount", "copy_between"]

BUFFER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or a file of the host, or of another sandbox, at a place of the sandbox, or memory."""

    at: str
    path: Path | None = None
    is_writable: bool = False
    is_file: bool = False
    size_bytes: int = 1 << 30
    mode: int = 0o1777
    """Of memory."""
    tree_fd: int | None = None
    """Instead of a path: what another sandbox lends."""
    fills: bool = False
    """An empty folder that is lent first gets what lies at the place."""

    def as_plan(self) -> dict[str, object]:
        """The form in which process 1 takes it."""
        path = None if self.path is None else str(self.path)
        rest = {"is_writable": self.is_writable, "is_file": self.is_file, "size_bytes": self.size_bytes}
        return {"at": self.at, "path": path, "mode": self.mode, "fills": self.fills, "tree": None, **rest}


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder of the host that is lent to a sandbox, writable."""

    folder: Path
    holds_changes: bool = False
    """Whether the sandbox's changes are kept there (`fs`) instead of in memory."""
    mounts: tuple[Mount, ...] = ()
    """What else the sandbox sees."""


@dataclass(frozen=True, slots=True)
class Joining:
    """What a sandbox has of another one, and memory of its own."""

    namespaces: tuple[int, ...] = ()
    """Descriptors of the user and the network namespace that it is to be in; without them it gets its own."""
    mounts: tuple[Mount, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of its own loopback addresses: clients that ask the proxy for one of them are sent there."""


class LayerWorker:
    """Unpacks, packs and removes layers below the folder it was made for; names are single words."""

    def __init__(self, box: NamespaceSandbox) -> None:
        """`box` had the folder lent to it."""
        self._box = box

    async def unpack(self, name: str, produce: Callable[[IO[bytes]], None]) -> None:
        """A new folder from the archive (of our own form) that `produce` writes, in a thread.

        Raises what `produce` raises, else `SandboxFileError`.
        """
        reading, writing = _pipe()
        producing = asyncio.get_running_loop().run_in_executor(None, _produce, produce, writing)
        try:
            await self._through(self._box.layer_job("unpack_layer", name, reading), producing, closes=reading)
        except BaseException:
            await asyncio.shield(self.remove(name))
            raise

    async def pack(self, name: str, consume: Callable[[IO[bytes]], None]) -> None:
        """Give the folder as an OCI layer to `consume`, in a thread. Raises as `unpack` does."""
        reading, writing = _pipe()
        consuming = asyncio.get_running_loop().run_in_executor(None, _consume, consume, reading)
        await self._through(self._box.layer_job("pack_layer", name, writing), consuming, closes=writing)

    async def remove(self, name: str) -> None:
        """Remove the folder with all below it; a missing one is no error."""
        await self._box.layer_job("remove_below", name)

    async def _through(self, job: Awaitable[object], ours: asyncio.Future[None], *, closes: int) -> None:
        """Wait for both ends of a stream; an error of our own end tells more than the broken stream at the other."""
        failed: BaseException | None = None
        try:
            await job
        except BaseException as error:  # noqa: BLE001 - raised again below, unless our own end knows better
            failed = error
        finally:
            os.close(closes)
        with contextlib.suppress(BrokenPipeError):
            await asyncio.shield(ours)
        if failed is not None:
            raise failed


async def copy_between(box: NamespaceSandbox, worker: LayerWorker, *, path: str, name: str, target: str) -> None:
    """What stands at a path of a sandbox into a new folder of a worker's: a folder's content, or a file as `name`.

    Raises `SandboxFileError`.
    """
    reading, writing = _pipe()

    async def pack() -> None:
        try:
            await box.layer_job("pack_path", name, writing, path=path)
        finally:
            os.close(writing)

    def produce(out: IO[bytes]) -> None:
        with os.fdopen(reading, "rb", BUFFER) as stream:
            shutil.copyfileobj(stream, out, BUFFER)

    packing = asyncio.ensure_future(pack())
    try:
        await worker.unpack(target, produce)
    except SandboxFileError:
        if packing.done():
            packing.result()
        raise
    finally:
        await asyncio.gather(packing, return_exceptions=True)
    packing.result()


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, BUFFER)
    return reading, writing


def _produce(produce: Callable[[IO[bytes]], None], fd: int) -> None:
    with os.fdopen(fd, "wb", BUFFER) as out:
        produce(out)


def _consume(consume: Callable[[IO[bytes]], None], fd: int) -> None:
    with os.fdopen(fd, "rb", BUFFER) as stream:
        consume(stream)
        while stream.read(BUFFER):
            pass
