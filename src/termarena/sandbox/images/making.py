"""Layers of a build: each is made in a sandbox above the ones below it, or taken from the cache of earlier builds."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import posixpath
import stat
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record, write_record
from termarena.sandbox.fetches.index import recording_digest
from termarena.sandbox.images.getting import drop_scratch, keep_layer
from termarena.sandbox.images.layers import LayerFacts
from termarena.sandbox.images.mounting import OWN_CACHES, Taken
from termarena.sandbox.images.owners import with_owners
from termarena.sandbox.images.store import FILES
from termarena.sandbox.namespace.building import remove_tree
from termarena.sandbox.namespace.inside import syscalls as sc
from termarena.sandbox.namespace.inside import tar
from termarena.sandbox.namespace.worker import Disk, Mount, copy_between
from termarena.sandbox.spec import Limits, Network, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from termarena.sandbox.images.config import ImageConfig
    from termarena.sandbox.images.shelf import ImageShelf
    from termarena.sandbox.namespace.box import NamespaceSandbox
    from termarena.sandbox.namespace.rootfs import Base
    from termarena.sandbox.spec import Fetches

__all__ = ["LayerMaker", "Made", "Owners"]

STEP: Final = "build-step"
KEY_VERSION: Final = 1
"""Of the rules by which a step is found again: another number forgets all cached steps."""
_KINDS: Final = {"single": "single with owners"}
LIMITS: Final = Limits(memory_bytes=8 << 30, pids=4096, disk_bytes=64 << 30)

Owners = dict[str, tuple[int, int]]
"""Owners by path that the id map could not give to files."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a step gave."""

    config: ImageConfig
    was_cached: bool


@dataclass(frozen=True, slots=True)
class LayerMaker:
    """Makes layers above configurations."""

    shelf: ImageShelf
    use_cache: bool = True
    network: Network = field(default_factory=lambda: Network(mode="public"))
    fetches: Fetches | None = None
    """A recording in the network's place: steps that reach out are carried out anew while it is made, and are known by
    its content when it is replayed."""
    makes_nothing: bool = False
    """Whether steps are only planned: no layer is made, looked up or remembered."""
    unwritten: list[asyncio.Future[None]] = field(default_factory=list)
    """What is being remembered."""

    async def settle(self) -> None:
        """Wait until every step is remembered; raises `OSError`."""
        await asyncio.gather(*self.unwritten)

    async def make(
        self,
        config: ImageConfig,
        key: object,
        work: Callable[[NamespaceSandbox], Awaitable[Owners]],
        *,
        workdir: str | None = None,
        network: Network | None = None,
        mounts: tuple[Mount, ...] = (),
    ) -> Made:
        """The configuration with the layer that `work` makes, if it changes anything.

        `key` says what the work is: the same work on the same layers is not done again. Without
        `network` there is none.
        """
        if self.makes_nothing:
            return Made(config, was_cached=False)
        fetches = self.fetches if network is not None and network.mode != "none" else None
        if fetches is not None and fetches.mode == "replay":
            key = [key, await asyncio.to_thread(recording_digest, fetches.folder)]
        path = self._cache_path(config, key)
        may_know = self.use_cache and (fetches is None or fetches.mode == "replay")
        if may_know and (known := self._known(path)) is not None:
            return Made(_with(config, known), was_cached=True)
        spec = SandboxSpec(limits=LIMITS, workdir=workdir, network=network or Network(), fetches=fetches)
        store, driver = self.shelf.store, self.shelf.driver
        with store.scratch() as folder:
            try:
                disk = Disk(folder, holds_changes=True, mounts=mounts)
                async with driver.start_on(spec, self.base(config), disk) as box:
                    facts = LayerFacts(owners=await work(box))
                    await box.seal()
                    _forget_made(folder / FILES, box.made_for_mounts)
                    has_changed = bool(os.listdir(folder / FILES))  # noqa: PTH208 - names are enough
                    if has_changed:
                        await _pack(box, facts)
            except BaseException:
                await asyncio.shield(drop_scratch(driver, folder))
                raise
            _remove_work(folder / "work")
            if has_changed:
                await keep_layer(driver, store, folder, facts)
            else:
                await drop_scratch(driver, folder)
        if fetches is not None and fetches.mode == "record":
            # It ran with a recording's certificate and settings: other builds carry it out themselves.
            return Made(_with(config, facts.diff_id), was_cached=False)
        # Making it durable takes as long as an empty step: the next one need not wait for it.
        writing = asyncio.get_running_loop().run_in_executor(None, self._remember, path, facts.diff_id)
        self.unwritten.append(writing)
        return Made(_with(config, facts.diff_id), was_cached=False)

    def base(self, config: ImageConfig) -> Base:
        """What lies below the next layer."""
        layers = self.shelf.store.layers_of(config)
        folders = tuple(layer.files for layer in reversed(layers))
        return self.shelf.driver.roots.over(folders, config.files_digest)

    @contextlib.asynccontextmanager
    async def looking_at(self, config: ImageConfig) -> AsyncIterator[NamespaceSandbox]:
        """A sandbox to take files from."""
        spec = SandboxSpec(limits=LIMITS)
        async with self.shelf.driver.start_on(spec, self.base(config), None) as box:
            yield box

    async def copy_out(self, config: ImageConfig, path: str, scratch: Path) -> Taken:
        """A file or a folder of an image in a folder below `scratch`, once; raises `SandboxFileError`."""
        name = posixpath.basename(path.rstrip("/")) or "root"
        key = [*config.diff_ids, posixpath.normpath(f"/{path}")]
        place = scratch / OWN_CACHES / f"taken-{hashlib.sha256(json.dumps(key).encode()).hexdigest()}"
        async with self.looking_at(config) as box:
            kind = (await box.layer_job("look_at", key[-1], owner="0:0"))["kind"]
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
                async with self.shelf.driver.worker(place.parent) as worker:
                    await copy_between(box, worker, path=key[-1], name=name, target=place.name)
        is_file = kind != "folder"
        return Taken(place / name if is_file else place, is_file, key)

    def _cache_path(self, config: ImageConfig, key: object) -> Path:
        kind = self.shelf.driver.ids.kind
        view = json.dumps([KEY_VERSION, _KINDS.get(kind, kind), config.diff_ids, key], sort_keys=True)
        return self.shelf.store.folder / "cache" / f"{hashlib.sha256(view.encode()).hexdigest()}.json"

    def _known(self, path: Path) -> str | None:
        """The layer that the step gave, empty for none; None where that is not known any more."""
        try:
            diff_id = str(read_record(path, STEP)["diff_id"])
        except (TaskFormatError, KeyError):
            return None
        return diff_id if not diff_id or self.shelf.store.layer(diff_id) is not None else None

    def _remember(self, path: Path, diff_id: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_record(path, STEP, {"diff_id": diff_id})


def _with(config: ImageConfig, diff_id: str) -> ImageConfig:
    return replace(config, diff_ids=(*config.diff_ids, diff_id)) if diff_id else config


async def _pack(box: NamespaceSandbox, facts: LayerFacts) -> None:
    """Find the digest and the size of the layer's archive, which is not kept.

    Owners that the files cannot have are part of it: layers that differ in them only are two layers.
    """
    state = hashlib.sha256()
    reading, writing = os.pipe()

    def consume() -> None:
        stream: IO[bytes]
        with os.fdopen(reading, "rb", 1 << 20) as stream:
            for data in with_owners(stream, facts.owners):
                state.update(data)
                facts.size_bytes += len(data)
            while stream.read(1 << 20):
                pass

    consuming: Any = asyncio.get_running_loop().run_in_executor(None, consume)
    try:
        await box.layer_job("pack_layer", FILES, writing)
    finally:
        os.close(writing)
        await asyncio.shield(consuming)
    facts.diff_id = "sha256:" + state.hexdigest()


def _forget_made(files: Path, made: tuple[str, ...]) -> None:
    """Take what was made for mounts only out of the layer again; what a step put into it stays.

    A step may have put a link to anywhere in the place of a folder: none is followed.
    """
    root = os.open(files, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in reversed(made):
            parent, _, name = path.strip("/").rpartition("/")
            with contextlib.suppress(OSError):
                _remove_if_empty(root, parent or ".", name)
    finally:
        os.close(root)


def _remove_if_empty(root: int, parent: str, name: str) -> None:
    fd = sc.openat2(root, parent, os.O_PATH | os.O_DIRECTORY, resolve=tar.BENEATH)
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(name, dir_fd=fd)
        elif stat.S_ISREG(found.st_mode) and found.st_size == 0:
            os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)


def _remove_work(folder: Path) -> None:
    """The folder that overlayfs works in is closed even to its owner."""
    inner = folder / "work"
    if inner.is_dir():
        inner.chmod(0o700)
    remove_tree(folder)
