"""Images in a recording: those that a task's builds begin from are kept beside it, and had again without a registry."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from termarena.core.errors import DigestMismatch, FetchNotRecorded
from termarena.core.records import read_record_as, write_record
from termarena.sandbox.fetches.contents import HINT, Content, Taking, open_content
from termarena.sandbox.fetches.index import alone_in, blob_path, open_recording
from termarena.sandbox.images.archives import archived_id
from termarena.sandbox.images.names import ImageName, is_digest
from termarena.sandbox.images.shelf import Resolved
from termarena.sandbox.images.store import hex_of

if TYPE_CHECKING:
    from termarena.sandbox.images.getting import PullOptions
    from termarena.sandbox.images.shelf import ImageShelf
    from termarena.sandbox.images.store import StoredImage
    from termarena.sandbox.spec import Fetches

__all__ = ["IMAGES", "RecordedImage", "image_for", "read_images"]

IMAGES: Final = "images.json"
KIND: Final = "recorded-images"
ALIAS: Final = "localhost/recorded"
CHUNK: Final = 1 << 20
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class RecordedImage(BaseModel):
    """An image that something was built from."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(max_length=1000)]
    """In full, as the recipe means it."""
    id: Digest
    """Of its configuration, where it was recorded."""
    archived_id: Digest | None = None
    """Of its configuration in the archive, whose layers are packed anew; None where that was not written down."""
    digest: Digest
    """Of its archive, which lies among the contents."""
    size_bytes: Annotated[int, Field(ge=0)]
    substitutes: Annotated[tuple[str, ...], Field(strict=False, max_length=100)] = ()
    """The names below it for which another image stood in."""


class _Images(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    images: Annotated[tuple[RecordedImage, ...], Field(max_length=1000)] = ()


def read_images(folder: Path) -> dict[str, RecordedImage]:
    """The images of a recording by name; raises `TaskFormatError` for a file that does not say so."""
    path = folder / IMAGES
    if not path.exists() and not path.is_symlink():
        return {}
    return {image.name: image for image in read_record_as(_Images, path, KIND).images}


async def image_for(
    shelf: ImageShelf, name: str, fetches: Fetches | None, options: PullOptions | None = None
) -> Resolved:
    """The image for a name: recorded as it is had, or in a replay that of the recording, and never a registry's.

    Raises as `ImageShelf.resolve`; in a replay `FetchNotRecorded` for a name that neither the recording nor the store
    has, `DigestMismatch` for an archive that is not what was recorded, or holds another image.
    """
    if fetches is None or is_digest(name):
        return await shelf.resolve(name, options)
    if fetches.mode == "replay":
        return Resolved(await _replayed(shelf, fetches.folder, name), was_there=True)
    found = await shelf.resolve(name, options)
    await _record(shelf, fetches.folder, name, found.image)
    return found


async def _replayed(shelf: ImageShelf, folder: Path, name: str) -> StoredImage:
    full = str(ImageName.parse(name))
    entry = (await asyncio.to_thread(read_images, folder)).get(full)
    if entry is None:
        found = shelf.known(name)
        if found is None:
            raise FetchNotRecorded((f"the image {full}",), folder=str(folder))
        shelf.store.hold()
        return found
    alias = f"{ALIAS}:{hex_of(entry.digest)[:40]}"
    wanted = entry.archived_id
    found = shelf.known_by_id(entry.id) or (shelf.known_by_id(wanted) if wanted else shelf.known(alias))
    if found is None:
        content = Content(entry.digest, entry.size_bytes)
        with await asyncio.to_thread(open_content, folder, content) as file:
            # By its descriptor: what was checked is what is read, whoever writes to the folder.
            found = await shelf.import_archive(Path(f"/proc/self/fd/{file.fileno()}"), name=alias)
        if wanted not in (None, found.id):
            differs = f"{IMAGES}: {full} is {wanted}, and its archive holds {found.id}"
            raise DigestMismatch(str(folder), files=(differs,), hint=HINT)
    shelf.store.hold()
    return replace(found, substitutes=entry.substitutes)


async def _record(shelf: ImageShelf, folder: Path, name: str, image: StoredImage) -> None:
    """Keep the image's archive among the contents, and say so."""
    full = str(ImageName.parse(name))
    known = (await asyncio.to_thread(read_images, folder)).get(full)
    if known is not None and known.archived_id and known.id == image.id and blob_path(folder, known.digest).is_file():
        return
    archive = await _archived(shelf, image)
    await asyncio.to_thread(open_recording, folder)
    content = await asyncio.to_thread(_keep, archive, folder)
    entry = RecordedImage(
        name=full,
        id=image.id,
        archived_id=await asyncio.to_thread(archived_id, archive),
        **content._asdict(),
        substitutes=image.substitutes,
    )
    await asyncio.to_thread(_enter, folder, entry)


async def _archived(shelf: ImageShelf, image: StoredImage) -> Path:
    """The image's archive, made once for all recordings that have it."""
    place = shelf.store.folder / "recorded" / f"{hex_of(image.id)}.tar"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = place.with_name(f".new-{secrets.token_hex(8)}")
        try:
            await shelf.export(image.id, made)
            made.chmod(0o644)
            made.rename(place)
        finally:
            made.unlink(missing_ok=True)
    return place


def _keep(archive: Path, folder: Path) -> Content:
    """Put a file among the contents: by another name for it where that can be, so that many recordings cost one."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        content = Content(f"sha256:{digest}", os.fstat(file.fileno()).st_size)
        place = blob_path(folder, content.digest)
        if place.exists():
            return content
        try:
            place.hardlink_to(archive)
        except OSError:
            file.seek(0)
            taking = Taking(folder)
            try:
                while chunk := file.read(CHUNK):
                    taking.take(chunk)
                return taking.finish()
            finally:
                taking.close()
    return content


def _enter(folder: Path, entry: RecordedImage) -> None:
    with alone_in(folder):
        found = {**read_images(folder), entry.name: entry}
        rows = [found[name].model_dump(mode="json", exclude_defaults=True) for name in sorted(found)]
        write_record(folder / IMAGES, KIND, {"images": rows})
