"""Snapshots of containers: an image on the engine, saved as one tar file of the changes since the base image.

The file has the form that `termarena.sandbox.namespace.snapshots` describes, with one layer and one volume; its
`snapshot.json` has `driver: docker` and the base image's layers, and it starts on any engine that has those.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import secrets
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from termarena.core.errors import EngineError, ImageError, SandboxFileError
from termarena.sandbox.docker.archives import end_of_archive, from_thread, in_thread
from termarena.sandbox.docker.changes import Rows, plan_rows
from termarena.sandbox.docker.client import LONG_S, Engine, Request
from termarena.sandbox.docker.files import Files
from termarena.sandbox.docker.images import Image, inspect_image
from termarena.sandbox.docker.sweeping import ask
from termarena.sandbox.namespace.inside import tar
from termarena.sandbox.namespace.snapshots import FORMAT, HEADER_NAME, read_header, write_whole
from termarena.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from termarena.sandbox.docker.address import Address

__all__ = ["DockerSnapshot", "Entries", "LayerSnapshot", "SavedSnapshot", "container_of", "load_snapshot", "restore"]

REPOSITORY: Final = "termarena/snapshot"
PREFIX: Final = "0.0"
WHITEOUT: Final = ".wh."
OPAQUE_FILE: Final = ".wh..wh..opq"
Entries = tuple[dict[str, Any], ...]


@dataclass(slots=True)
class DockerSnapshot:
    """See `termarena.sandbox.contract.Snapshot`."""

    spec: SandboxSpec
    base: Image
    image: str
    """The committed image's name."""
    rows: Rows
    """The paths that differ from the base."""
    taken_in: str
    address: Address
    labels: Mapping[str, str]

    @property
    def base_digest(self) -> str:
        """What the root file system was."""
        return self.base.digest

    async def save(self, path: Path) -> None:
        """See the contract."""
        engine = Engine(self.address)
        try:
            async with container_of(engine, self.image, self.labels) as container:
                await self._save(Files(engine, container, self.taken_in), path)
        finally:
            await engine.close()

    async def _save(self, files: Files, path: Path) -> None:
        out = tempfile.NamedTemporaryFile(dir=path.parent, delete=False)  # noqa: SIM115 - renamed or removed below
        try:
            out.write(_header(self.spec, self.base))
            for place, is_whole in plan_rows(self.rows):
                await _append(files, place, out, is_whole=is_whole)
            out.write(end_of_archive())
            out.close()
            await asyncio.to_thread(os.replace, out.name, path)
        except BaseException:
            out.close()
            await asyncio.to_thread(os.unlink, out.name)
            raise

    def close(self) -> None:
        """Remove the image; one that a fork still uses goes with its driver."""
        with contextlib.suppress(EngineError):
            ask(self.address, "DELETE", f"/images/{self.image}")


class LayerSnapshot:
    """See `termarena.sandbox.contract.Snapshot`; the change layer itself, packed in an unnamed file."""

    def __init__(self, spec: SandboxSpec, base: Image, layer: IO[bytes], *, taken_in: str, entries: Entries) -> None:
        """Takes over the file; `entries` are the changes since the base."""
        self.spec = spec
        self.base = base
        self.taken_in = taken_in
        self.entries = entries
        self._layer: IO[bytes] | None = layer

    @property
    def base_digest(self) -> str:
        """What the root file system was."""
        return self.base.digest

    def open(self) -> IO[bytes]:
        """The layer from its beginning, in a file of its own position; raises `ImageError` when it has been closed."""
        if self._layer is None:
            raise ImageError(f"snapshot of {self.taken_in}", "has been closed")
        return io.BufferedReader(_OwnPosition(os.dup(self._layer.fileno())), 1 << 18)

    async def save(self, path: Path) -> None:
        """See the contract."""
        await asyncio.to_thread(self._save, path)

    def _save(self, path: Path) -> None:
        body = _header(self.spec, self.base)
        with self.open() as layer:
            write_whole(path, body, layer)

    def close(self) -> None:
        """Give back the file."""
        if self._layer is not None:
            self._layer.close()
            self._layer = None


class _OwnPosition(io.RawIOBase):
    """A file that others read too, with a position of its own; closes the descriptor that it was given."""

    def __init__(self, fd: int) -> None:
        self._fd, self._at = fd, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol
        found = os.pread(self._fd, len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()


def _header(spec: SandboxSpec, base: Image) -> bytes:
    about = {
        "format": FORMAT,
        "driver": "docker",
        "base_digest": base.digest,
        "base_layers": base.layers,
        "layers": 1,
        "spec": spec.model_dump(mode="json"),
    }
    body = json.dumps(about, indent=1, sort_keys=True).encode()
    return _file(HEADER_NAME, len(body)) + body + bytes(-len(body) % tar.BLOCK)


@asynccontextmanager
async def container_of(engine: Engine, image: str, labels: Mapping[str, str]) -> AsyncIterator[str]:
    """A container that is never started, to look at an image's files. Raises `EngineError`."""
    asked = {"Image": image, "Entrypoint": ["/bin/sh"], "Labels": dict(labels), "NetworkDisabled": True}
    made = str((await engine.call("POST", "/containers/create", json=asked)).json()["Id"])
    try:
        yield made
    finally:
        with contextlib.suppress(EngineError):
            await asyncio.shield(engine.call("DELETE", f"/containers/{made}", query={"force": True, "v": True}))


async def _append(files: Files, path: str, out: IO[bytes], *, is_whole: bool) -> None:
    """Add the state of a path to the file; a path that is not there is a deleted name."""
    inner = PREFIX + path.rstrip("/")
    try:
        async with files.opened(path, operation="snapshot") as body:
            await in_thread(body, lambda fd: _copy_members(fd, out, inner, is_whole=is_whole))
    except SandboxFileError as error:
        if error.errno is None:
            raise
        out.write(tar.header(tar.Member(inner, "device")))


def _copy_members(fd: int, out: IO[bytes], inner: str, *, is_whole: bool) -> None:
    with os.fdopen(fd, "rb", 1 << 18) as archive:
        reader = tar.Reader(archive)
        for member in reader:
            member.name = "/".join([inner, *member.name.split("/")[1:]])
            if member.kind == "link":
                member.target = "/".join([inner, *member.target.split("/")[1:]])
            out.write(tar.header(member))
            while chunk := reader.chunk():
                out.write(chunk)
            out.write(bytes(-member.size % tar.BLOCK))
            if not is_whole:
                return


@dataclass(slots=True)
class SavedSnapshot:
    """A snapshot in a file; it becomes an image when it is first started."""

    path: Path
    spec: SandboxSpec
    base_digest: str
    base_layers: tuple[str, ...]
    restored: DockerSnapshot | None = None
    entries: Entries | None = None
    """The changes since the base, once it has been started where layers can be read."""

    @property
    def taken_in(self) -> str:
        """Where it comes from."""
        return str(self.path)

    def open(self) -> IO[bytes]:
        """The layer from its beginning; raises `ImageError` when the file has gone."""
        try:
            file = self.path.open("rb", 1 << 18)
            read_header(file)
        except (OSError, ValueError) as error:
            raise ImageError(str(self.path), f"cannot be read any more: {error}") from error
        return file

    async def save(self, path: Path) -> None:
        """Copy the file."""
        content = await asyncio.to_thread(self.path.read_bytes)
        await asyncio.to_thread(path.write_bytes, content)

    def close(self) -> None:
        """Remove the image, if it became one."""
        if self.restored is not None:
            self.restored.close()
            self.restored = None


def load_snapshot(path: Path) -> SavedSnapshot:
    """Open a saved snapshot; raises `ImageError` for a file that is none of a container."""
    try:
        with path.open("rb") as file:
            about = read_header(file)
        if about.get("driver") != "docker":
            raise ImageError(str(path), "was not made by the docker driver", hint="use the driver that made it")
        layers = tuple(str(layer) for layer in about["base_layers"])
        return SavedSnapshot(path, SandboxSpec.model_validate(about["spec"]), str(about["base_digest"]), layers)
    except OSError as error:
        raise ImageError(str(path), error.strerror or "cannot be read", hint="check the path") from error
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise ImageError(str(path), f"is not a snapshot: {error}") from error


async def restore(
    engine: Engine, saved: SavedSnapshot, base: Image, *, address: Address, labels: Mapping[str, str]
) -> DockerSnapshot:
    """The saved snapshot as an image of this engine; raises `ImageError` on another base."""
    if saved.restored is not None:
        return saved.restored
    if base.digest != saved.base_digest:
        hint = "start it on an engine that has the image it was taken on"
        raise ImageError(str(saved.path), "was taken on another image than the one here now", hint=hint)
    name = f"{REPOSITORY}:{secrets.token_hex(10)}"
    with tempfile.TemporaryFile() as layer:
        kinds = await asyncio.to_thread(_write_layer, saved.path, layer)
        members = await asyncio.to_thread(_image_members, layer, base, name, dict(labels))

        def produce(out: IO[bytes]) -> None:
            out.write(members)
            layer.seek(0)
            while chunk := layer.read(1 << 20):
                out.write(chunk)
            out.write(bytes(-layer.tell() % tar.BLOCK) + end_of_archive())

        try:
            async with engine.open(
                Request("POST", "/images/load", body=from_thread(produce), patience_s=LONG_S)
            ) as body:
                async for message in body.lines():
                    if "error" in message:
                        raise ImageError(str(saved.path), f"the engine does not load it: {message['error']}")
        except EngineError as error:
            raise ImageError(str(saved.path), f"the engine does not load it: {error.problem}") from error
    if await inspect_image(engine, name) is None:
        raise ImageError(str(saved.path), "the engine did not keep it")
    saved.restored = DockerSnapshot(saved.spec, base, name, Rows(kinds), str(saved.path), address, labels)
    return saved.restored


def _write_layer(path: Path, out: IO[bytes]) -> dict[str, int]:
    """Write the changes in the form of an image's layer; the paths and how they changed."""
    kinds: dict[str, int] = {}
    with path.open("rb") as file:
        read_header(file)
        reader = tar.Reader(file)
        for member in reader:
            inner = member.name.partition("/")[2]
            if not inner:
                continue
            kinds["/" + inner] = 2 if member.kind == "device" else 0 if member.kind == "folder" else 1
            _write_member(member, inner, reader, out)
    out.write(end_of_archive())
    return kinds


def _write_member(member: tar.Member, inner: str, reader: tar.Reader, out: IO[bytes]) -> None:
    member.name, member.target = inner, (member.target.partition("/")[2] if member.kind == "link" else member.target)
    folder, _, name = inner.rpartition("/")
    above = f"{folder}/" if folder else ""
    if member.kind == "device":
        out.write(tar.header(tar.Member(f"{above}{WHITEOUT}{name}", "file")))
        return
    is_opaque = member.attributes.pop(tar.OPAQUE, None) is not None
    out.write(tar.header(member))
    while chunk := reader.chunk():
        out.write(chunk)
    out.write(bytes(-member.size % tar.BLOCK))
    if is_opaque:
        out.write(tar.header(tar.Member(f"{inner}/{OPAQUE_FILE}", "file")))


def _image_members(layer: IO[bytes], base: Image, name: str, labels: dict[str, str]) -> bytes:
    """Everything of a loadable image but the layer's content, which comes last; the base's layers are there already."""
    layer.seek(0)
    digest = hashlib.file_digest(layer, "sha256").hexdigest()  # type: ignore[arg-type]  # a binary file
    size = layer.tell()
    config = {
        "architecture": base.architecture,
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in base.env.items()], "Labels": labels,
                   "WorkingDir": base.workdir},
        "rootfs": {"type": "layers", "diff_ids": [*base.layers, f"sha256:{digest}"]},
    }  # fmt: skip
    content = json.dumps(config).encode()
    config_name = hashlib.sha256(content).hexdigest() + ".json"
    layers = [f"{at}.tar" for at in range(len(base.layers) + 1)]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": layers}]).encode()
    out = io.BytesIO()
    for member_name, body in ((config_name, content), ("manifest.json", manifest)):
        out.write(_file(member_name, len(body)) + body + bytes(-len(body) % tar.BLOCK))
    out.write(_file(layers[-1], size))
    return out.getvalue()


def _file(name: str, size: int) -> bytes:
    member = tar.Member(name, "file")
    member.size, member.mode = size, 0o644
    return tar.header(member)


def commit_query(container: str, name: str) -> dict[str, Any]:
    """How to ask an engine for an image of a container's present state."""
    repository, _, tag = name.rpartition(":")
    return {"container": container, "repo": repository, "tag": tag, "pause": True}
