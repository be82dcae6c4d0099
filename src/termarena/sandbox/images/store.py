"""The store of images: layers unpacked once and shared by every sandbox, images by name, all below one folder.

    <home>/images/lock                 held (shared) by whoever uses images, alone by whoever removes some
    <home>/images/names/<hex>.json     one image by its name
    <home>/images/configs/<hex>        configurations, by their digest, which is the image's id
    <home>/images/layers/<ids>/<hex>/  a layer by the digest of its archive: `fs`, `about.json`
    <home>/images/partial/<hex>        downloads that have not ended
    <home>/images/cache/<hex>.json     what a step of a build gave
    <home>/images/map.json             names that stand for another image here

`<ids>` is the kind of id map (`shifted`, `ranges`, `single`): the owners on disk depend on it. A layer is built beside
its place and renamed when it is whole; two processes may race, the first one's result stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import ImageError, TaskFormatError, UsageError
from termarena.core.records import read_record, write_atomically, write_record
from termarena.sandbox.images.config import ImageConfig, digest_of
from termarena.sandbox.images.names import ImageName, is_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from termarena.sandbox.namespace.ids import IdMap

__all__ = ["ImageStore", "Layer", "StoredImage", "hex_of"]

RECORD: Final = "stored-image"
FILES: Final = "fs"


def hex_of(digest: str) -> str:
    """The digits of a digest, for a file name."""
    if not is_digest(digest):
        raise ValueError(f"{digest!r} is no digest of SHA-256")
    return digest.removeprefix("sha256:")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that is there."""

    diff_id: str
    folder: Path
    size_bytes: int
    owners: dict[str, tuple[int, int]]
    """Where the id map has one id only: the owners by path that its files should have, where not 0:0."""
    left_out: tuple[str, ...] = ()
    """Devices of its archive, which no sandbox may have."""

    @property
    def files(self) -> Path:
        """What lies below a sandbox."""
        return self.folder / FILES


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image that is there, under one name."""

    name: str
    id: str
    config: ImageConfig
    source: str
    """Where it came from: `registry HOST`, `archive FILE`, `build FOLDER`."""
    stored_at: str = ""
    manifest_digest: str | None = None
    substitutes: tuple[str, ...] = ()
    """The names below it for which another image stood in: not comparable with the original."""
    mode: str = ""
    """How root in the image was made while it was built: the kind of id map, empty where nothing ran."""


class ImageStore:
    """See the module. Nothing is created before it is needed."""

    def __init__(self, home: Path, ids: IdMap) -> None:
        """`ids` decides where layers lie."""
        self.folder = home / "images"
        self.ids = ids
        self._lock_fd: int | None = None

    # Holding.

    def hold(self) -> None:
        """Keep images from being removed until `close`; raises `UsageError` while some are being removed."""
        if self._lock_fd is None:
            self._lock_fd = self._take(fcntl.LOCK_SH)

    def close(self) -> None:
        """Let go of the store."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else uses images within the block; raises `UsageError` when somebody does."""
        self.close()
        fd = self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(fd)

    def _take(self, how: int) -> int:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            what = "another process uses images" if how == fcntl.LOCK_EX else "images are being removed"
            raise UsageError(f"{what} of {self.folder}", hint="wait until it has ended, then try again") from error
        return fd

    # Images.

    def find(self, name: str) -> StoredImage | None:
        """By name, or by id; None where there is none. Raises `ImageError` for what is no name."""
        if is_digest(name):
            return next((image for image in self.images() if image.id == name), None)
        path = self._name_path(str(ImageName.parse(name)))
        return self._read(path) if path.exists() else None

    def images(self) -> list[StoredImage]:
        """All, by name."""
        with contextlib.suppress(FileNotFoundError):
            found = [self._read(path) for path in (self.folder / "names").iterdir() if path.suffix == ".json"]
            return sorted(found, key=lambda image: image.name)
        return []

    def add(self, image: StoredImage) -> StoredImage:
        """Store it under its name, in the place of an earlier one; its layers must be there."""
        for diff_id in image.config.diff_ids:
            if self.layer(diff_id) is None:
                raise ImageError(image.name, f"its layer {diff_id} is not in the store")
        content = image.config.as_json()
        if digest_of(content) != image.id:
            raise ImageError(image.name, "its configuration is not the one of its id")
        self._put(self.folder / "configs" / hex_of(image.id), content)
        payload = {
            "name": image.name,
            "id": image.id,
            "source": image.source,
            "stored_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "manifest_digest": image.manifest_digest,
            "substitutes": list(image.substitutes),
            "mode": image.mode,
        }
        path = self._name_path(image.name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_record(path, RECORD, payload)
        return self._read(path)

    def forget(self, name: str) -> bool:
        """Drop the name; whether there was one. Its layers stay until they are removed as unused."""
        path = self._name_path(str(ImageName.parse(name)))
        is_there = path.exists()
        path.unlink(missing_ok=True)
        return is_there

    def _name_path(self, name: str) -> Path:
        return self.folder / "names" / f"{hashlib.sha256(name.encode()).hexdigest()}.json"

    def _read(self, path: Path) -> StoredImage:
        try:
            told: dict[str, Any] = read_record(path, RECORD)
            image_id = str(told["id"])
            content = (self.folder / "configs" / hex_of(image_id)).read_bytes()
            return StoredImage(
                name=str(told["name"]),
                id=image_id,
                config=ImageConfig.parse(content, source=str(told["name"])),
                source=str(told["source"]),
                stored_at=str(told["stored_at"]),
                manifest_digest=told.get("manifest_digest"),
                substitutes=tuple(told.get("substitutes") or ()),
                mode=str(told.get("mode") or ""),
            )
        except (OSError, KeyError, ValueError, TaskFormatError) as error:
            hint = f"remove {path} and get the image again"
            raise ImageError(str(path), f"is damaged: {error}", hint=hint, cause="infra") from error

    def _put(self, path: Path, content: bytes) -> None:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, content)

    # Layers.

    @property
    def layers_folder(self) -> Path:
        """Where the layers for this user's id map lie."""
        return self.folder / "layers" / self.ids.kind

    def layer(self, diff_id: str) -> Layer | None:
        """By the digest of its uncompressed archive."""
        folder = self.layers_folder / hex_of(diff_id)
        try:
            about = json.loads((folder / "about.json").read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ImageError(str(folder), f"is damaged: {error}", cause="infra") from error
        owners = {str(path): (int(uid), int(gid)) for path, (uid, gid) in about["owners"].items()}
        return Layer(diff_id, folder, int(about["size_bytes"]), owners, tuple(map(str, about.get("left_out", ()))))

    def layers_of(self, config: ImageConfig) -> list[Layer]:
        """Lowest first; raises `ImageError` when one is missing."""
        found = [self.layer(diff_id) for diff_id in config.diff_ids]
        if missing := [d for d, layer in zip(config.diff_ids, found, strict=True) if layer is None]:
            hint = "get the image again: termarena images pull, import or build"
            raise ImageError("image", f"its layer {missing[0]} is not in the store", hint=hint, cause="infra")
        return [layer for layer in found if layer is not None]

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder beside the layers for one that is being made; it is locked while it lives."""
        self.layers_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = self.layers_folder / f".new-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o755)
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            os.close(fd)

    def keep(
        self,
        scratch: Path,
        diff_id: str,
        *,
        size_bytes: int,
        owners: dict[str, tuple[int, int]],
        left_out: Sequence[str] = (),
    ) -> Layer:
        """Give a finished scratch folder its name. When another process was faster, its layer is taken instead."""
        about = {
            "diff_id": diff_id,
            "size_bytes": size_bytes,
            "owners": owners,
            "left_out": list(left_out),
            "made_at": time.time(),
        }
        (scratch / "about.json").write_text(json.dumps(about))
        (scratch / "lock").unlink(missing_ok=True)
        place = self.layers_folder / hex_of(diff_id)
        if place.exists() and self.layer(diff_id) is None:
            # What a removal that was killed has left; the next one finds it again.
            with contextlib.suppress(OSError):
                place.rename(self.layers_folder / f".gone-{secrets.token_hex(8)}")
        with contextlib.suppress(OSError):
            scratch.rename(place)
        layer = self.layer(diff_id)
        if layer is None:
            raise ImageError(str(scratch), "cannot be moved to its place", cause="infra")
        return layer
