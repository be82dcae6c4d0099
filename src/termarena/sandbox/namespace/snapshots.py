"""Snapshots of namespace sandboxes: in memory as shared layers or as an unnamed file, saved as one tar file.

The file is a tar archive. Its first member, `snapshot.json`, has the format's number, the base digest, the spec and
the number of layers. Every other member is `<layer>.<volume>/<path>`: layer 0 is the lowest; volume 0 is the root,
volume 1 is `/usr` for a `host` root. A deleted name is a character device 0:0; a folder that hides the one below it
carries the attribute `user.overlay.opaque=y`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Protocol

from pydantic import ValidationError

from termarena.core.errors import ImageError, SandboxBroken
from termarena.sandbox.namespace.inside import tar
from termarena.sandbox.spec import SandboxSpec

__all__ = ["Archive", "NamespaceSnapshot", "SharedLayers", "load_snapshot", "read_header", "write_whole"]

FORMAT: Final = 1
HEADER_NAME: Final = "snapshot.json"


@dataclass(slots=True)
class Archive:
    """The layers as tar members in an open file, from `offset` on."""

    file: IO[bytes]
    offset: int
    layers: int


@dataclass(frozen=True, slots=True)
class SharedLayers:
    """The layers of a sealed sandbox, good for one fork."""

    trees: list[list[int]] = field(default_factory=list)
    """Volume by volume, descriptors of detached mounts, the lowest first; the receiver closes them."""
    layers: tuple[Path, ...] = ()
    """Those of them that are folders on disk: a fork has to hold them."""


class SealedSource(Protocol):
    """A sealed sandbox that still lives."""

    async def pack(self) -> Archive:
        """Its layers as an archive."""

    async def share(self) -> SharedLayers:
        """Its layers for one fork."""


class NamespaceSnapshot:
    """See `termarena.sandbox.contract.Snapshot`."""

    def __init__(
        self,
        spec: SandboxSpec,
        base_digest: str,
        *,
        taken_in: str,
        archive: Archive | None = None,
        source: SealedSource | None = None,
    ) -> None:
        """Either an `archive`, or a sealed sandbox as the `source` of layers to share or to pack."""
        self._spec = spec
        self._base_digest = base_digest
        self.taken_in = taken_in
        self.entries: tuple[dict[str, Any], ...] | None = None
        self._archive = archive
        self._source = source

    @property
    def spec(self) -> SandboxSpec:
        """The spec of the sandbox it was taken from."""
        return self._spec

    @property
    def base_digest(self) -> str:
        """What the root file system was."""
        return self._base_digest

    async def archive(self) -> Archive:
        """The layers as an archive, packed now if need be."""
        if self._archive is None:
            if self._source is None:
                raise ImageError(f"snapshot of {self.taken_in}", "has been closed")
            self._archive = await self._source.pack()
        return self._archive

    async def share(self) -> SharedLayers:
        """The layers for one fork; none where they cannot be shared."""
        if self._source is None:
            return SharedLayers()
        try:
            return await self._source.share()
        except SandboxBroken:
            # The sandbox stopped meanwhile, but not before its layers were copied.
            if self._archive is None:
                raise
            return SharedLayers()

    async def detach(self) -> None:
        """Keep the layers although their sandbox is about to stop: they are copied to an unnamed file."""
        if self._source is not None:
            await self.archive()
            self._source = None

    async def save(self, path: Path) -> None:
        """Write it as one file, whole or not at all."""
        archive = await self.archive()
        await asyncio.to_thread(self._save, archive, path)

    def _save(self, archive: Archive, path: Path) -> None:
        about = {
            "format": FORMAT,
            "base_digest": self.base_digest,
            "layers": archive.layers,
            "spec": self.spec.model_dump(mode="json"),
        }
        body = json.dumps(about, indent=1, sort_keys=True).encode()
        member = tar.Member(HEADER_NAME, "file")
        member.size, member.mode = len(body), 0o644
        archive.file.seek(archive.offset)
        write_whole(path, tar.header(member) + body + bytes(-len(body) % tar.BLOCK), archive.file)

    def close(self) -> None:
        """Give back descriptors and the unnamed file."""
        self._source = None
        if self._archive is not None:
            self._archive.file.close()
            self._archive = None


def write_whole(path: Path, head: bytes, rest: IO[bytes]) -> None:
    """Write a file, whole or not at all: what comes first, then all that is left of a stream. Raises `OSError`."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        try:
            out.write(head)
            shutil.copyfileobj(rest, out, 1 << 20)
            out.flush()
            Path(out.name).replace(path)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise


def load_snapshot(path: Path) -> NamespaceSnapshot:
    """Open a saved snapshot; raises `ImageError` for a file that is none."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ImageError(str(path), error.strerror or "cannot be read", hint="check the path") from error
    try:
        about = read_header(file)
        spec = SandboxSpec.model_validate(about["spec"])
        archive = Archive(file, file.tell(), int(about["layers"]))
        return NamespaceSnapshot(spec, str(about["base_digest"]), taken_in=str(path), archive=archive)
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        file.close()
        raise ImageError(str(path), f"is not a snapshot: {error}") from error


def read_header(file: IO[bytes]) -> dict[str, Any]:
    """What a snapshot file says of itself; the layers follow. Raises `ValueError` for a file that is none."""
    reader = tar.Reader(file)
    member = next(iter(reader), None)
    if member is None or member.name != HEADER_NAME:
        raise ValueError(f"it does not begin with {HEADER_NAME}")
    body = b""
    while chunk := reader.chunk():
        body += chunk
    file.read(-len(body) % tar.BLOCK)
    about = json.loads(body)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    return about
