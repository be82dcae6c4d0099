"""Images by name, wherever they come from: a substitute that this site has set, the store, or a registry."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import ImageError
from termarena.core.records import read_record, write_record
from termarena.core.settings import resolve_settings
from termarena.sandbox.compositions import forget_compositions
from termarena.sandbox.images.archives import export_image, import_image
from termarena.sandbox.images.getting import PullOptions, pull_image
from termarena.sandbox.images.names import ImageName, is_digest
from termarena.sandbox.images.store import ImageStore, StoredImage
from termarena.sandbox.namespace.building import remove_tree
from termarena.sandbox.state import held_alone

if TYPE_CHECKING:
    from termarena.sandbox.namespace.driver import NamespaceDriver

__all__ = ["ImageShelf", "Pruned", "Resolved", "Substitute"]

MAP: Final = "image-map"
MAPPED: Final = "localhost/mapped"
COMPOSITION_AGE_S: Final = 7 * 24 * 3600.0
"""Copies of compose files that no run asked for so long go; runs on an engine use them too, and hold no store."""


@dataclass(frozen=True, slots=True)
class Substitute:
    """A name for which another image stands in at this site."""

    name: str
    image: str
    source: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """An image for a name."""

    image: StoredImage
    was_there: bool


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed."""

    images: tuple[str, ...]
    layers: int
    size_bytes: int


class ImageShelf:
    """What a driver and the command line use of images. Close it when no image of it is used any more."""

    def __init__(self, driver: NamespaceDriver, home: Path) -> None:
        """`driver` does the unpacking; `home` is its own. Nothing is created yet."""
        self.driver = driver
        self.store = ImageStore(home, driver.ids)

    def close(self) -> None:
        """Let others remove images again."""
        self.store.close()

    async def resolve(self, name: str, options: PullOptions | None = None) -> Resolved:
        """The image for a name or an id, pulled if need be. Raises `ImageError`, `FetchError`, `MissingExtra`."""
        self.store.hold()
        if is_digest(name):
            found = self.store.find(name)
            if found is None:
                raise ImageError(name, "is not in the store", hint="get it again by its name", cause="infra")
            return Resolved(found, was_there=True)
        found = self.known(name)
        if found is not None:
            return Resolved(found, was_there=True)
        return Resolved(await self.pull(name, options), was_there=False)

    def known(self, name: str) -> StoredImage | None:
        """The image for a name, if it is here with all its layers. Raises `ImageError` for what is no name."""
        full = str(ImageName.parse(name))
        found = self._substitute(full) or self.store.find(full)
        return found if found is not None and self._is_whole(found) else None

    def known_by_id(self, image_id: str) -> StoredImage | None:
        """The image of an id, under whatever name, if it is here with all its layers."""
        found = self.store.find(image_id)
        return found if found is not None and self._is_whole(found) else None

    def _is_whole(self, image: StoredImage) -> bool:
        return all(self.store.layer(diff_id) is not None for diff_id in image.config.diff_ids)

    async def pull(self, name: str, options: PullOptions | None = None) -> StoredImage:
        """Get it from its registry, also where an older one of the name is there. Raises as `resolve`."""
        self.store.hold()
        options = options or PullOptions()
        if options.mirrors is None:
            options = replace(options, mirrors=dict(resolve_settings().settings.images.mirrors))
        return await pull_image(self.driver, self.store, ImageName.parse(name), options)

    async def import_archive(self, path: Path, *, name: str | None = None) -> StoredImage:
        """Store what an archive holds; raises `ImageError`."""
        self.store.hold()
        return await import_image(self.driver, self.store, path, name=name)

    async def export(self, name: str, target: Path) -> str:
        """Write an archive; the image's id there. Raises `ImageError` for a name that is not here."""
        self.store.hold()
        image = self.store.find(name)
        if image is None:
            raise ImageError(name, "is not in the store", hint="see what is: termarena images list")
        return await export_image(self.driver, self.store, image, target)

    # Substitutes.

    def substitutes(self) -> list[Substitute]:
        """All that this site has set, by name."""
        return [
            Substitute(name, str(entry["image"]), str(entry["source"])) for name, entry in sorted(self._map().items())
        ]

    async def substitute(self, name: str, source: str) -> Substitute:
        """Let an archive, or an image of the store, stand in for a name from now on. Raises `ImageError`."""
        self.store.hold()
        full = ImageName.parse(name)
        if os.path.exists(source):  # noqa: ASYNC240, PTH110 - one look at one name
            alias = f"{MAPPED}/{full.registry.replace(':', '-').replace('[', '').lower()}/{full.repository}"
            stored = f"{alias}:{full.tag or full.reference.removeprefix('sha256:')}"
            image = await import_image(self.driver, self.store, Path(source), name=stored)
        else:
            found = self.store.find(source)
            if found is None:
                hint = "give a tar archive, or an image that `termarena images list` shows"
                raise ImageError(source, "is neither a file nor an image of the store", hint=hint)
            image = found
        entries = self._map()
        entries[str(full)] = {"image": image.name, "source": source}
        self._write_map(entries)
        return Substitute(str(full), image.name, source)

    def unsubstitute(self, name: str) -> bool:
        """Let a name mean itself again; whether it did not."""
        entries = self._map()
        was_there = entries.pop(str(ImageName.parse(name)), None) is not None
        self._write_map(entries)
        return was_there

    def _substitute(self, name: str) -> StoredImage | None:
        entry = self._map().get(name)
        if entry is None:
            return None
        image = self.store.find(str(entry["image"]))
        if image is None:
            hint = (
                f"set it anew: termarena images map {name} FILE, or take it back: termarena images map --remove {name}"
            )
            raise ImageError(name, f"its substitute {entry['image']} is not in the store", hint=hint, cause="infra")
        return replace(image, substitutes=(*image.substitutes, f"{name} <- {entry['source']}"))

    def _map(self) -> dict[str, dict[str, Any]]:
        path = self.store.folder / "map.json"
        if not path.exists():
            return {}
        entries = read_record(path, MAP).get("entries")
        return {str(k): v for k, v in entries.items() if isinstance(v, dict)} if isinstance(entries, dict) else {}

    def _write_map(self, entries: dict[str, dict[str, Any]]) -> None:
        self.store.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_record(self.store.folder / "map.json", MAP, {"entries": entries})

    # Removing.

    async def prune(self, names: tuple[str, ...] = (), *, everything: bool = False) -> Pruned:
        """Forget the named images, or all with every cached step and mount, and remove what nothing needs any more.

        Raises `UsageError` while another process uses images, `ImageError` for a name that is not here.
        """
        with self.store.alone():
            kept_by_map = {str(entry["image"]) for entry in self._map().values()}
            images = self.store.images()
            wanted = {str(ImageName.parse(name)) for name in names}
            if unknown := wanted - {image.name for image in images}:
                raise ImageError(sorted(unknown)[0], "is not in the store", hint="see what is: termarena images list")
            gone = [
                image.name for image in images if image.name in wanted or (everything and image.name not in kept_by_map)
            ]
            for name in gone:
                self.store.forget(name)
            forget_compositions(self.store.folder.parent, older_than_s=COMPOSITION_AGE_S)
            if os.path.isdir(self.store.folder / "recorded"):  # noqa: ASYNC240, PTH112 - one look at one name
                await asyncio.to_thread(remove_tree, self.store.folder / "recorded")
            if everything:
                for path in self._cached():
                    path.unlink(missing_ok=True)
                kept = self.store.folder / "mounts" / self.store.ids.kind
                if os.path.isdir(kept):  # noqa: ASYNC240, PTH112 - one look at one name
                    await self._remove(kept)
            return await self._remove_unused(tuple(gone))

    def _cached(self) -> list[Path]:
        folder = self.store.folder / "cache"
        return sorted(folder.glob("*.json")) if folder.is_dir() else []

    async def _remove_unused(self, forgotten: tuple[str, ...]) -> Pruned:
        used = {diff_id.removeprefix("sha256:") for image in self.store.images() for diff_id in image.config.diff_ids}
        for path in self._cached():
            with contextlib.suppress(OSError, ValueError, KeyError):
                used.add(str(read_record(path, "build-step")["diff_id"]).removeprefix("sha256:"))
        for config in (self.store.folder / "configs").glob("*"):
            if config.name not in {image.id.removeprefix("sha256:") for image in self.store.images()}:
                config.unlink()
        for part in (self.store.folder / "partial").glob("*"):
            if part.is_file():
                part.unlink()
            else:
                await asyncio.to_thread(remove_tree, part)
        count = size = 0
        for folder in sorted(self.store.layers_folder.glob("*")):
            if folder.name in used or not _is_free(folder):
                continue
            known = self.store.layer(f"sha256:{folder.name}") if not folder.name.startswith(".") else None
            size += known.size_bytes if known is not None else 0
            count += 1
            # A removal that is killed must not leave half a layer in a layer's place.
            gone = folder.with_name(f".gone-{folder.name.lstrip('.')}")
            await self._remove(folder.rename(gone))
        return Pruned(forgotten, count, size)

    async def _remove(self, folder: Path) -> None:
        """Remove a layer's folder; what belongs to other ids of ours, by a process that has them."""
        (folder / "about.json").unlink(missing_ok=True)
        async with self.driver.worker(folder.parent) as worker:
            await worker.remove(folder.name)


def _is_free(folder: Path) -> bool:
    """Whether nobody is making the layer."""
    try:
        with held_alone(folder) as is_alone:
            return is_alone
    except OSError:
        return True
