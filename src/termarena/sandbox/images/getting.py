"""Images into the store: layers unpacked by a worker with the ids of sandboxes, pulled ones downloaded first."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from termarena.core.errors import FetchError, ImageError
from termarena.sandbox.images.config import ImageConfig, digest_of
from termarena.sandbox.images.layers import Translator, decompressed
from termarena.sandbox.images.registry import Registry, open_registry
from termarena.sandbox.images.store import FILES, Layer, StoredImage, hex_of
from termarena.sandbox.namespace.building import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from termarena.sandbox.images.layers import LayerFacts
    from termarena.sandbox.images.names import ImageName
    from termarena.sandbox.images.registry import Descriptor, Manifest
    from termarena.sandbox.images.store import ImageStore
    from termarena.sandbox.namespace.driver import NamespaceDriver

__all__ = ["PullOptions", "drop_scratch", "keep_layer", "pull_image", "unpack_layer"]

AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How to pull."""

    mirrors: Mapping[str, str] | None = None
    """For the host of a registry, the address that is asked first."""
    on_log: Callable[[str], None] | None = None
    on_progress: Callable[[int, int | None], None] | None = None

    def say(self, line: str) -> None:
        """A line for whoever listens."""
        if self.on_log is not None:
            self.on_log(line)


async def unpack_layer(
    driver: NamespaceDriver,
    store: ImageStore,
    open_layer: Callable[[], AbstractContextManager[IO[bytes]]],
    *,
    source: str,
    diff_id: str | None,
) -> Layer:
    """One layer into the store, unless it is there; `open_layer` gives its archive, compressed or not.

    Raises `ImageError` for a layer that cannot be used or is not of its `diff_id`.
    """
    if diff_id is not None and (known := store.layer(diff_id)) is not None:
        return known
    translator = Translator(source, has_owners=driver.ids.has_users)

    def produce(out: IO[bytes]) -> None:
        with open_layer() as packed, decompressed(packed) as stream:
            translator.translate(stream, out)

    with store.scratch() as folder:
        try:
            async with driver.worker(folder) as worker:
                await worker.unpack(FILES, produce)
            _check(translator, diff_id)
            return await keep_layer(driver, store, folder, translator.facts)
        except BaseException as error:
            await asyncio.shield(drop_scratch(driver, folder))
            if isinstance(error, OSError):
                raise ImageError(source, f"a layer cannot be unpacked: {error}", cause="infra") from error
            raise


def _check(translator: Translator, diff_id: str | None) -> None:
    found = translator.facts.diff_id
    if diff_id is not None and found != diff_id:
        raise ImageError(translator.source, f"a layer is {found}, and the image says {diff_id}", cause="infra")


async def keep_layer(driver: NamespaceDriver, store: ImageStore, folder: Path, facts: LayerFacts) -> Layer:
    """Give a finished scratch folder its place; one that came too late is removed."""
    layer = store.keep(folder, facts.diff_id, size_bytes=facts.size_bytes, owners=facts.owners, left_out=facts.left_out)
    await drop_scratch(driver, folder)
    return layer


def _opened(path: Path) -> IO[bytes]:
    return path.open("rb")


async def drop_scratch(driver: NamespaceDriver, folder: Path) -> None:
    """Remove a scratch folder, if it is still there."""
    if not os.path.lexists(folder):  # noqa: ASYNC240 - one look at one name
        return
    try:
        remove_tree(folder)
    except OSError:
        # What belongs to other ids of ours can be removed only by a process that has them.
        async with driver.worker(folder.parent) as worker:
            await worker.remove(folder.name)


async def pull_image(
    driver: NamespaceDriver, store: ImageStore, name: ImageName, options: PullOptions | None = None
) -> StoredImage:
    """Get an image from its registry, or from a mirror of it, and store it under its name.

    Raises `ImageError`, with whose fault it is, and `FetchError` when the network fails; what was downloaded stays and
    is not downloaded again.
    """
    options = options or PullOptions()
    mirror = (options.mirrors or {}).get(name.registry)
    if mirror is not None:
        try:
            return await _pull(driver, store, name, options, base=mirror)
        except (FetchError, ImageError) as error:
            options.say(f"the mirror {mirror} does not help: {error}")
    return await _pull(driver, store, name, options, base=None)


async def _pull(
    driver: NamespaceDriver, store: ImageStore, name: ImageName, options: PullOptions, *, base: str | None
) -> StoredImage:
    with open_registry(name.registry, base=base) as registry:
        manifest = await asyncio.to_thread(registry.manifest, name)
        raw = await asyncio.to_thread(registry.small_blob, name, manifest.config)
        config = ImageConfig.parse(raw, source=str(name))
        if len(config.diff_ids) != len(manifest.layers):
            raise ImageError(str(name), "its configuration and its manifest have different layers")
        pairs = zip(config.diff_ids, manifest.layers, strict=True)
        wanted = [(diff_id, blob) for diff_id, blob in pairs if store.layer(diff_id) is None]
        options.say(f"{name.short}: {len(wanted)} of {len(manifest.layers)} layers to get")
        downloads = _Downloads(registry, store, name, options)
        parts = await downloads.fetch([blob for _, blob in wanted])
    for (diff_id, _), part in zip(wanted, parts, strict=True):
        await unpack_layer(driver, store, partial(_opened, part), source=str(name), diff_id=diff_id)
    for part in parts:
        _drop(part)
    return _stored(store, name, config, manifest)


def _stored(store: ImageStore, name: ImageName, config: ImageConfig, manifest: Manifest) -> StoredImage:
    return store.add(
        StoredImage(
            name=str(name),
            id=digest_of(config.as_json()),
            config=config,
            source=f"registry {name.registry}",
            manifest_digest=manifest.digest,
        )
    )


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Nobody else downloads into the part within the block: images share layers, and one image may have one twice."""
    part.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_at(fd, part):
                yield
                return
        finally:
            os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _drop(part: Path) -> None:
    """Remove a part that has been unpacked; whoever is downloading it again meanwhile will."""
    with contextlib.suppress(FileNotFoundError, BlockingIOError), part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()


class _Downloads:
    """The layers of one pull, some at a time."""

    def __init__(self, registry: Registry, store: ImageStore, name: ImageName, options: PullOptions) -> None:
        self._registry = registry
        self._store = store
        self._name = name
        self._options = options
        self._done = 0
        self._total = 0

    async def fetch(self, blobs: list[Descriptor]) -> list[Path]:
        """Each as a file, in order."""
        self._total = sum(blob.size_bytes for blob in blobs)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return await asyncio.gather(*(loop.run_in_executor(pool, self._fetch, blob) for blob in blobs))

    def _fetch(self, blob: Descriptor) -> Path:
        part = self._store.folder / "partial" / hex_of(blob.digest)
        with _alone(part):
            self._registry.download(self._name, blob, part, on_bytes=self._count)
        return part

    def _count(self, amount: int) -> None:
        self._done += amount
        if self._options.on_progress is not None:
            self._options.on_progress(self._done, self._total)
