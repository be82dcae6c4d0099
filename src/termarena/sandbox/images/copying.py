"""COPY and ADD: from the context, another stage or image, an archive or an address, into the layer being made."""

from __future__ import annotations

import asyncio
import os
import posixpath
import tarfile
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

from termarena.core.errors import SandboxFileError
from termarena.sandbox.images.context import Picked, has_pattern, matches
from termarena.sandbox.images.layers import Translator, decompressed
from termarena.sandbox.namespace.inside import tar

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.images.context import Context
    from termarena.sandbox.images.making import Owners
    from termarena.sandbox.namespace.box import NamespaceSandbox

__all__ = ["CopyOrder", "Copying", "is_archive", "picked_in"]

ROOT: Final = "0:0"
BUFFER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CopyOrder:
    """Where to, and as whose."""

    target: str
    """Absolute; ends with a slash where a folder is meant."""
    owner: str | None = None
    mode: int | None = None
    is_many: bool = False
    """Whether there are several sources: then the target is a folder."""


@dataclass(slots=True)
class Copying:
    """One COPY or ADD into the sandbox of a layer."""

    box: NamespaceSandbox
    order: CopyOrder
    has_users: bool
    owners: Owners = field(default_factory=dict)
    """What the id map could not give."""

    async def from_context(self, context: Context, picked: Picked) -> None:
        """A file, or what a folder holds."""
        folder, name = await self._destination(picked)
        await self._stream(folder, lambda out: context.write(picked, name, out))

    async def from_box(self, source: NamespaceSandbox, picked: Picked) -> None:
        """The same out of another image; owners are kept."""
        folder, name = await self._destination(picked)
        reading, writing = os.pipe()

        async def pack() -> None:
            try:
                await source.layer_job("pack_path", name, writing, path=picked.path)
            finally:
                # While it is open here too, the reader waits for the rest of an archive that nobody writes.
                os.close(writing)

        packing = asyncio.ensure_future(pack())
        try:
            await self._place(folder, reading)
        except SandboxFileError:
            if packing.done():
                packing.result()
            raise
        finally:
            os.close(reading)
            await asyncio.gather(packing, return_exceptions=True)
        packing.result()

    async def unpack(self, file: str) -> None:
        """What an archive holds, into the target as a folder; the archive's own modes and owners."""
        translator = Translator(file, has_owners=self.has_users, is_layer=False)

        def produce(out: IO[bytes]) -> None:
            with open(file, "rb") as packed, decompressed(packed) as stream:  # noqa: PTH123 - a name is given
                translator.translate(stream, out)

        await self._stream(self.order.target, produce, is_exact=True)
        for path, owner in translator.facts.owners.items():
            self.owners[posixpath.join(self.order.target, path).strip("/")] = owner

    async def write(self, name: str, content: bytes) -> None:
        """A text of the Dockerfile itself."""
        folder, wanted = await self._destination(Picked(name, is_folder=False))
        member = tar.Member(f"0/{wanted}", "file")
        member.size, member.mode = len(content), 0o644

        def produce(out: IO[bytes]) -> None:
            out.write(tar.header(member) + content + bytes(-len(content) % tar.BLOCK) + bytes(2 * tar.BLOCK))

        await self._stream(folder, produce)

    async def _destination(self, picked: Picked) -> tuple[str, str]:
        """The folder, and the name in it of a file."""
        target = self.order.target
        base = posixpath.basename(picked.path.rstrip("/"))
        if picked.is_folder or self.order.is_many or target.endswith("/"):
            return target, base
        told = await self.box.layer_job("look_at", target, owner=ROOT)
        return (target, base) if told["kind"] == "folder" else posixpath.split(target)

    async def _stream(self, folder: str, produce: Callable[[IO[bytes]], None], *, is_exact: bool = False) -> None:
        reading, writing = os.pipe()
        producing = asyncio.get_running_loop().run_in_executor(None, _produce, produce, writing)
        try:
            try:
                await self._place(folder, reading, is_exact=is_exact)
            finally:
                os.close(reading)
                await asyncio.gather(producing, return_exceptions=True)
        except SandboxFileError:
            # Where the archive broke off, whoever wrote it knows why.
            producing.result()
            raise
        producing.result()

    async def _place(self, folder: str, reading: int, *, is_exact: bool = False) -> None:
        owner = None
        if self.order.owner is not None:
            told = await self.box.layer_job("look_at", "/", owner=self.order.owner)
            owner = [int(told["uid"]), int(told["gid"])]
        request = {"owner": owner, "mode": self.order.mode, "is_exact": is_exact}
        placed = await self.box.layer_job("place", folder, reading, **request)
        if owner is not None and not self.has_users and owner != [0, 0]:
            paths = [posixpath.join(placed["at"], name) for name in placed["names"]] + placed["made"]
            self.owners |= {path.strip("/"): (owner[0], owner[1]) for path in paths}


def _produce(produce: Callable[[IO[bytes]], None], fd: int) -> None:
    try:
        with os.fdopen(fd, "wb", BUFFER) as out:
            produce(out)
    except BrokenPipeError:
        return


def is_archive(path: str) -> bool:
    """Whether ADD unpacks the file: a tar, plain or packed with gzip, bzip2 or xz."""
    try:
        with tarfile.open(path) as archive:
            return archive.next() is not None
    except (tarfile.TarError, OSError, EOFError):
        return False


async def picked_in(box: NamespaceSandbox, word: str) -> list[Picked]:
    """What a source names in an image; raises `SandboxFileError` for a folder of a pattern that is not there."""
    found = ["/"]
    for part in [part for part in word.split("/") if part not in ("", ".")]:
        if not has_pattern(part):
            found = [posixpath.join(place, part) for place in found]
            continue
        listed: list[str] = []
        for place in found:
            names = (await box.layer_job("list_folder", place))["names"]
            listed += [posixpath.join(place, name) for name in names if matches(part, name)]
        found = listed
    picked = []
    for path in found:
        kind = (await box.layer_job("look_at", posixpath.normpath(path), owner=ROOT))["kind"]
        if kind:
            picked.append(Picked(posixpath.normpath(path), kind == "folder"))
    return picked
