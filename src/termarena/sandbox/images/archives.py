"""Images from files and to files: `docker save` and OCI archives, root file systems; and an archive that both read."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.core.errors import ImageError
from termarena.sandbox.images.config import ImageConfig, digest_of, this_architecture
from termarena.sandbox.images.getting import unpack_layer
from termarena.sandbox.images.layers import MAX_BYTES, BoundedMember, decompressed
from termarena.sandbox.images.names import ImageName, is_digest
from termarena.sandbox.images.owners import with_owners
from termarena.sandbox.images.store import FILES, StoredImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.sandbox.images.store import ImageStore, Layer
    from termarena.sandbox.namespace.driver import NamespaceDriver

__all__ = ["archived_id", "export_image", "import_image"]

DOCUMENT_LIMIT_BYTES: Final = 8 << 20
CHUNK: Final = 1 << 20
DEFAULT_ENV: Final = (("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),)


@dataclass(frozen=True, slots=True)
class _Found:
    """What an archive holds: the configuration, and the names of its layers in the archive; None for a plain root."""

    config: ImageConfig
    layers: tuple[str | None, ...]
    name: str | None


async def import_image(
    driver: NamespaceDriver, store: ImageStore, path: Path, *, name: str | None, substitutes: tuple[str, ...] = ()
) -> StoredImage:
    """Store what an archive holds under `name`, or under the name that it brings.

    Takes what `docker save` and OCI tools write, and a tar of a root file system; each also packed with gzip, zstd, xz
    or bzip2. Of several images it takes the one that `name` names. Raises `ImageError` for anything else.
    """
    with tempfile.TemporaryDirectory(dir=_scratch(store)) as scratch:
        plain = await asyncio.to_thread(_plain, path, Path(scratch))
        found = await asyncio.to_thread(_look_into, plain, path, name)
        known = name or found.name
        if known is None:
            raise ImageError(str(path), "brings no name", hint="give one: --name NAME")
        diff_ids: list[str | None] = [*found.config.diff_ids] or [None]
        layers = []
        for diff_id, member in zip(diff_ids, found.layers, strict=True):
            opener = partial(_opened, plain, member)
            layers.append(await unpack_layer(driver, store, opener, source=str(path), diff_id=diff_id))
    if found.layers == (None,):
        _check_root(layers[0], path)
    config = replace(found.config, diff_ids=tuple(layer.diff_id for layer in layers))
    image = StoredImage(
        name=str(ImageName.parse(known)),
        id=digest_of(config.as_json()),
        config=config,
        source=f"archive {path.name}",
        substitutes=substitutes,
    )
    return store.add(image)


def archived_id(path: Path) -> str:
    """The id that the image of an archive of `export_image`'s has once it is imported; raises `ImageError`."""
    return digest_of(_look_into(path, path, None).config.as_json())


def _scratch(store: ImageStore) -> Path:
    folder = store.folder / "partial"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _plain(path: Path, scratch: Path) -> Path:
    """The archive uncompressed, so that its members can be read in any order; a copy only where it must be."""
    try:
        with path.open("rb") as packed:
            stream = decompressed(packed)
            if stream is packed:
                return path
            copy = scratch / "archive"
            with copy.open("wb") as out:
                _copy(stream, out)
            return copy
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or f"cannot be read: {error}"
        raise ImageError(str(path), problem, hint="check the path") from error


def _copy(stream: IO[bytes], out: IO[bytes]) -> None:
    left = MAX_BYTES
    while data := stream.read(CHUNK):
        left -= len(data)
        if left < 0:
            raise ValueError(f"it holds more than {MAX_BYTES} bytes")
        out.write(data)


def _check_root(layer: Layer, path: Path) -> None:
    if not any((layer.files / name).exists() for name in ("bin", "usr/bin", "sbin")):
        raise ImageError(str(path), "has neither bin nor usr/bin: not a root file system")


@contextmanager
def _opened(plain: Path, member: str | None) -> Iterator[IO[bytes]]:
    if member is None:
        with plain.open("rb") as file:
            yield file
        return
    with tarfile.open(plain, tarinfo=BoundedMember) as archive:
        found = archive.extractfile(_named(archive, member))
        if found is None:
            raise ImageError(str(plain), f"{member} is no file of the archive")
        yield found


def _named(archive: tarfile.TarFile, member: str) -> tarfile.TarInfo:
    for _ in range(2):
        try:
            info = archive.getmember(member)
        except KeyError as error:
            raise ImageError(str(archive.name), f"lacks {member}") from error
        if not info.issym():
            return info
        # `docker save` writes a layer that two images share once, and a link to it.
        member = str(Path(member).parent / info.linkname)
        member = "/".join(_normal(member))
    raise ImageError(str(archive.name), f"{member} is a link to a link")


def _normal(name: str) -> list[str]:
    parts: list[str] = []
    for part in name.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return parts


def _look_into(plain: Path, path: Path, name: str | None) -> _Found:
    try:
        with tarfile.open(plain, tarinfo=BoundedMember) as archive:
            first = archive.next()
            if first is None:
                raise ImageError(str(path), "is empty")
            names = set(archive.getnames())
            if "manifest.json" in names:
                return _docker_save(archive, path, name)
            if "index.json" in names and "oci-layout" in names:
                return _oci(archive, path, name)
    except (tarfile.TarError, EOFError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        hint = "give a tar of a root file system, or what `docker save` wrote"
        raise ImageError(str(path), f"is no archive of an image: {error}", hint=hint) from error
    return _Found(ImageConfig(env=DEFAULT_ENV), (None,), None)


def _document(archive: tarfile.TarFile, name: str) -> bytes:
    info = _named(archive, name)
    file = archive.extractfile(info)
    if file is None or info.size > DOCUMENT_LIMIT_BYTES:
        raise ValueError(f"{name} is no document of an image")
    return file.read()


def _one_of(images: Sequence[tuple[tuple[str, ...], dict[str, Any]]], path: Path, name: str | None) -> dict[str, Any]:
    """The image that is meant, of those that there are with their names; raises `ImageError` where that is not said."""
    if len(images) == 1:
        return images[0][1]
    wanted = None if name is None else str(ImageName.parse(name))
    named = [image for tags, image in images if wanted in {str(ImageName.parse(tag)) for tag in tags}]
    if len(named) == 1:
        return named[0]
    told = ", ".join(tag for tags, _ in images for tag in tags) or "none has a name"
    hint = "choose one by its own name (--name NAME), or save one alone"
    raise ImageError(str(path), f"holds {len(images)} images: {told}", hint=hint)


def _docker_save(archive: tarfile.TarFile, path: Path, name: str | None) -> _Found:
    entries = json.loads(_document(archive, "manifest.json"))
    manifest = _one_of([(tuple(map(str, one.get("RepoTags") or ())), one) for one in entries], path, name)
    config = ImageConfig.parse(_document(archive, str(manifest["Config"])), source=str(path))
    tags = list(map(str, manifest.get("RepoTags") or ()))
    return _checked(_Found(config, tuple(map(str, manifest["Layers"])), tags[0] if tags else None))


def _for_this_machine(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a list of manifests; one that names no platform is for any. Raises `ValueError` for none."""
    here = {"os": "linux", "architecture": this_architecture()}
    found = [one for one in entries if here.items() <= (one.get("platform") or here).items()]
    if not found:
        raise ValueError(f"it has none for linux/{this_architecture()}")
    return found


def _oci(archive: tarfile.TarFile, path: Path, name: str | None) -> _Found:
    entries = _for_this_machine(json.loads(_document(archive, "index.json"))["manifests"])
    entry = _one_of([(_titles(one), one) for one in entries], path, name)
    document: dict[str, Any] = entry
    for _ in range(3):
        if "layers" in document:
            break
        document = json.loads(_document(archive, _blob(document["digest"])))
        document = _for_this_machine(document["manifests"])[0] if "manifests" in document else document
    config = ImageConfig.parse(_document(archive, _blob(document["config"]["digest"])), source=str(path))
    layers = tuple(_blob(layer["digest"]) for layer in document["layers"])
    titles = _titles(entry)
    return _checked(_Found(config, layers, titles[0] if titles else None))


def _titles(entry: dict[str, Any]) -> tuple[str, ...]:
    title = (entry.get("annotations") or {}).get("io.containerd.image.name")
    return (str(title),) if title else ()


def _blob(digest: object) -> str:
    if not is_digest(str(digest)):
        raise ValueError(f"{digest!r} is no digest of SHA-256")
    return "blobs/" + str(digest).replace(":", "/")


def _checked(found: _Found) -> _Found:
    if len(found.layers) != len(found.config.diff_ids) or not found.layers:
        raise ValueError("its configuration and its manifest have different layers")
    return found


# Out.


async def export_image(driver: NamespaceDriver, store: ImageStore, image: StoredImage, target: Path) -> str:
    """Write an archive that `docker load` and OCI tools read, whole or not at all; the id that it has there.

    Layers are packed anew: the files are the same, the digests of a pulled image's layers are not.
    """
    layers = store.layers_of(image.config)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        packed = []
        for number, layer in enumerate(layers):
            file = Path(scratch) / f"{number}.tar.gz"
            packed.append(_Packed(file, await _pack(driver, layer, file)))
        config = replace(image.config, diff_ids=tuple(one.diff_id for one in packed))
        archive = Path(scratch) / "archive"
        await asyncio.to_thread(_write, archive, config, packed, image.name)
        archive.replace(target)
    return digest_of(config.as_json())


@dataclass(frozen=True, slots=True)
class _Packed:
    file: Path
    diff_id: str


async def _pack(driver: NamespaceDriver, layer: Layer, target: Path) -> str:
    state = hashlib.sha256()

    def consume(stream: IO[bytes]) -> None:
        with gzip.GzipFile(target, "wb", compresslevel=3, mtime=0) as out:
            for data in with_owners(stream, layer.owners):
                state.update(data)
                out.write(data)

    async with driver.worker(layer.folder) as worker:
        await worker.pack(FILES, consume)
    return "sha256:" + state.hexdigest()


def _write(target: Path, config: ImageConfig, packed: list[_Packed], name: str) -> None:
    short = ImageName.parse(name).short
    blobs: dict[str, bytes | Path] = {}
    raw = config.as_json()
    blobs[digest_of(raw)] = raw
    layers = []
    for one in packed:
        with one.file.open("rb") as file:
            digest = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        blobs[digest] = one.file
        layers.append(_entry("application/vnd.oci.image.layer.v1.tar+gzip", digest, one.file.stat().st_size))
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _entry("application/vnd.oci.image.config.v1+json", digest_of(raw), len(raw)),
            "layers": layers,
        }
    ).encode()
    blobs[digest_of(manifest)] = manifest
    entry = _entry("application/vnd.oci.image.manifest.v1+json", digest_of(manifest), len(manifest))
    notes = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": short.rpartition(":")[2]}
    documents = {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {"schemaVersion": 2, "manifests": [{**entry, "annotations": notes}]},
        # Docker's own: without it an engine of version 20 refuses an OCI layout.
        "manifest.json": [
            {"Config": _blob(digest_of(raw)), "RepoTags": [short], "Layers": [_blob(one["digest"]) for one in layers]}
        ],
    }
    with tarfile.open(target, "w") as archive:
        for title, document in documents.items():
            _add(archive, title, json.dumps(document).encode())
        for digest, content in blobs.items():
            _add(archive, _blob(digest), content)


def _entry(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    if isinstance(content, Path):
        info.size = content.stat().st_size
        with content.open("rb") as file:
            archive.addfile(info, file)
        return
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))
