"""Archives of images made by hand, member by member, and pushed to a registry."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx
import zstandard

from termarena.sandbox.images.config import digest_of, this_architecture

if TYPE_CHECKING:
    from pathlib import Path

OCI = "application/vnd.oci.image."


def entry(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:  # noqa: ANN401 - of TarInfo
    """A member; `fields` are those of TarInfo, by default those of a file."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def folder(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:  # noqa: ANN401 - of TarInfo
    return entry(name, type=tarfile.DIRTYPE, **{"mode": 0o755, **fields})


def link(name: str, target: str, *, hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE if hard else tarfile.SYMTYPE, linkname=target)


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def tar_of_folder(path: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(path, arcname=".", filter=_of_root)
    return out.getvalue()


def _of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


@dataclass
class MadeImage:
    """An image as bytes."""

    layers: list[bytes]
    """Uncompressed, lowest first."""
    config: dict[str, Any] = field(default_factory=dict)
    packing: str = "gzip"
    architecture: str = field(default_factory=this_architecture)

    def packed(self) -> list[bytes]:
        return [_packed(layer, self.packing) for layer in self.layers]

    def config_json(self) -> bytes:
        diff_ids = [digest_of(layer) for layer in self.layers]
        document = {
            "architecture": self.architecture,
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        }
        return json.dumps(document).encode()

    def manifest(self) -> bytes:
        config = self.config_json()
        kind = f"{OCI}layer.v1.tar+{self.packing}"
        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{OCI}manifest.v1+json",
                "config": _told(f"{OCI}config.v1+json", config),
                "layers": [_told(kind, layer) for layer in self.packed()],
            }
        ).encode()

    def saved(self, name: str) -> bytes:
        """As `docker save` writes it."""
        config = self.config_json()
        title = f"{hashlib.sha256(config).hexdigest()}.json"
        names = [f"{number}/layer.tar" for number in range(len(self.layers))]
        manifest = json.dumps([{"Config": title, "RepoTags": [name], "Layers": names}]).encode()
        pairs = zip(names, self.layers, strict=True)
        return tar_of(entry("manifest.json", manifest), entry(title, config), *(entry(n, layer) for n, layer in pairs))


@cache
def _packed(layer: bytes, packing: str) -> bytes:
    return zstandard.compress(layer) if packing == "zstd" else gzip.compress(layer, compresslevel=1, mtime=0)


def _told(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


@cache
def _client() -> httpx.Client:
    return httpx.Client(timeout=60, verify=False, trust_env=False)  # noqa: S501 - plain HTTP on loopback


@dataclass(frozen=True)
class PushTarget:
    """A registry to push to."""

    host: str

    def push(self, repository: str, tag: str, image: MadeImage) -> str:
        """The manifest's digest."""
        for blob in (*image.packed(), image.config_json()):
            self._put_blob(repository, blob)
        return self._put_manifest(repository, tag, image.manifest(), f"{OCI}manifest.v1+json")

    def push_index(self, repository: str, tag: str, images: list[MadeImage]) -> None:
        rows = []
        for image in images:
            digest = self.push(repository, f"{tag}-{image.architecture}", image)
            platform = {"os": "linux", "architecture": image.architecture}
            size = len(image.manifest())
            row = {"mediaType": f"{OCI}manifest.v1+json", "digest": digest, "size": size, "platform": platform}
            rows.append(row)
        index = json.dumps({"schemaVersion": 2, "mediaType": f"{OCI}index.v1+json", "manifests": rows}).encode()
        self._put_manifest(repository, tag, index, f"{OCI}index.v1+json")

    def _put_blob(self, repository: str, content: bytes) -> None:
        started = _client().post(f"http://{self.host}/v2/{repository}/blobs/uploads/")
        place = httpx.URL(started.headers["Location"]).copy_merge_params({"digest": digest_of(content)})
        _client().put(place, content=content).raise_for_status()

    def _put_manifest(self, repository: str, reference: str, content: bytes, kind: str) -> str:
        url = f"http://{self.host}/v2/{repository}/manifests/{reference}"
        _client().put(url, content=content, headers={"Content-Type": kind}).raise_for_status()
        return digest_of(content)


def owners_in(archive: Path) -> dict[str, tuple[int, int]]:
    """The owners of all files of an exported image."""
    found = {}
    with tarfile.open(archive) as image:
        for member in image.getmembers():
            content = image.extractfile(member)
            if content is None or not member.name.startswith("blobs/"):
                continue
            with contextlib.suppress(tarfile.ReadError), tarfile.open(fileobj=io.BytesIO(content.read())) as layer:
                found.update({one.name.removeprefix("./"): (one.uid, one.gid) for one in layer})
    return found
