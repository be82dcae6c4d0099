"""Images as roots of embedded sandboxes: their layers below the changes, their variables, folder, user, entrypoint."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import SandboxBroken, SandboxError, SandboxStartError
from termarena.sandbox.contract import Prepared
from termarena.sandbox.spec import Root, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.sandbox.images import ImageShelf, StoredImage
    from termarena.sandbox.namespace.box import NamespaceSandbox
    from termarena.sandbox.namespace.driver import NamespaceDriver
    from termarena.sandbox.namespace.rootfs import Base
    from termarena.sandbox.namespace.services.model import Build
    from termarena.sandbox.spec import Fetches

__all__ = ["ImageRoots", "Rooted"]

SETTLE_S: Final = 10.0
"""How long a start waits for an entrypoint to hand over; one that serves never does, and goes on."""


@dataclass(frozen=True, slots=True)
class Rooted:
    """An image that is ready to lie below a sandbox."""

    prepared: Prepared
    spec: SandboxSpec
    """What was asked for, with what the image says where nothing was said."""
    base: Base
    image: StoredImage


class _Wanted(NamedTuple):
    """What an image is known by here."""

    root: Root
    fetches: Fetches | None = None
    """What an image comes from that is not known by its id."""

    @classmethod
    def of(cls, spec: SandboxSpec) -> _Wanted:
        return cls(spec.root, None if cls(spec.root).is_pinned else spec.fetches)

    @property
    def is_pinned(self) -> bool:
        """Whether it is an image by its id, which is the same for ever."""
        return str(self.root.image).startswith("sha256:")


class ImageRoots:
    """The images that one driver's sandboxes lie on."""

    def __init__(self, driver: NamespaceDriver, home: Path, *, on_log: Callable[[str], None] | None) -> None:
        """Nothing is opened yet."""
        self._driver = driver
        self._home = home
        self._on_log = on_log
        self._shelf: ImageShelf | None = None
        self._known: dict[_Wanted, tuple[StoredImage, Base]] = {}
        self._locks: dict[tuple[object, _Wanted], asyncio.Lock] = {}
        self._running: set[asyncio.Task[None]] = set()

    @property
    def shelf(self) -> ImageShelf:
        """The images of this home."""
        if self._shelf is None:
            from termarena.sandbox.images import ImageShelf  # noqa: PLC0415 - only for who uses images

            self._shelf = ImageShelf(self._driver, self._home)
        return self._shelf

    def close(self) -> None:
        """No sandbox starts on them any more."""
        self._known.clear()
        self._locks.clear()
        if self._shelf is not None:
            self._shelf.close()
            self._shelf = None

    async def prepare(self, spec: SandboxSpec) -> Rooted:
        """Pull or build what the spec's root names, once. Raises as the contract's `prepare`."""
        wanted = _Wanted.of(spec)
        lock = self._locks.setdefault((asyncio.get_running_loop(), wanted), asyncio.Lock())
        async with lock:
            # A folder, or what a name stands for, may be another one by now.
            was_there = wanted in self._known and wanted.is_pinned
            if not was_there:
                was_there = await self._make(wanted)
        image, base = self._known[wanted]
        pinned = Root(kind="image", image=image.id)
        self._known.setdefault(_Wanted(pinned), (image, base))
        user = image.config.user or spec.user if spec.user == SandboxSpec.model_fields["user"].default else spec.user
        told = spec.model_copy(update={"root": pinned, "user": user})
        prepared = Prepared(told, base.digest, image.id, was_cached=was_there, substitutes=image.substitutes)
        return Rooted(prepared, _filled_in(told, image, root=spec.root), base, image)

    async def build(self, context: Path, order: Build, fetches: Fetches | None) -> Rooted:
        """Build one image of a service; raises as the contract's `prepare`."""
        from termarena.sandbox.images import BuildOptions, build_image  # noqa: PLC0415 - only for who uses images

        with self._using_home():
            options = BuildOptions(
                dockerfile=order.dockerfile,
                arguments=order.arguments,
                target=order.target,
                fetches=fetches,
                on_log=self._on_log,
            )
            built = await build_image(self.shelf, context, None, options)
        rooted = await self.prepare(SandboxSpec(root=Root(kind="image", image=built.image.id)))
        return replace(rooted, prepared=replace(rooted.prepared, was_cached=built.was_cached), image=built.image)

    @contextlib.contextmanager
    def _using_home(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, SandboxError):
                raise
            hint = "set TERMARENA_HOME to a folder that is writable and has room"
            raise SandboxStartError(f"{self._home} cannot be used: {error}", hint=hint) from error

    async def _make(self, wanted: _Wanted) -> bool:
        """Have the image; whether it was there."""
        with self._using_home():
            image, was_there = await self._image(wanted)
        layers = self.shelf.store.layers_of(image.config)
        folders = tuple(layer.files for layer in reversed(layers))
        over = self._driver.roots.over
        self._known[wanted] = image, await asyncio.to_thread(over, folders, image.config.files_digest)
        return was_there

    async def _image(self, wanted: _Wanted) -> tuple[StoredImage, bool]:
        from termarena.sandbox.images import BuildOptions, PullOptions, build_image, image_for  # noqa: PLC0415 - as above

        root = wanted.root
        if root.kind == "dockerfile" and root.path is not None:
            options = BuildOptions(dockerfile=root.dockerfile, fetches=wanted.fetches, on_log=self._on_log)
            built = await build_image(self.shelf, root.path, None, options)
            return built.image, built.was_cached
        found = await image_for(self.shelf, str(root.image), wanted.fetches, PullOptions(on_log=self._on_log))
        return found.image, found.was_there

    async def begin(self, box: NamespaceSandbox, spec: SandboxSpec) -> None:
        """Run the image's entrypoint as it would begin a container: it may start services, and it may stay."""
        image, _ = self._known[_Wanted.of(spec)]
        if not image.config.entrypoint:
            return
        argv = [*image.config.entrypoint, "/bin/sh", "-c", ":"]
        task = asyncio.create_task(self._run(box, argv, image.name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.wait({task}, timeout=SETTLE_S)

    async def _run(self, box: NamespaceSandbox, argv: list[str], name: str) -> None:
        with contextlib.suppress(SandboxBroken):
            done = await box.exec(argv)
            if done.exit_status != 0 and self._on_log is not None:
                self._on_log(f"{name}: its ENTRYPOINT ended with status {done.exit_status}")


def _filled_in(spec: SandboxSpec, image: StoredImage, *, root: Root) -> SandboxSpec:
    config = image.config
    return spec.model_copy(
        update={
            "root": root,
            "env": {**config.environment, **spec.env},
            "workdir": spec.workdir or config.workdir or "/",
        }
    )
