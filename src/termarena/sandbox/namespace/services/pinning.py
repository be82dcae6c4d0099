"""A compose file made ready once: every image built or pulled, the file kept with images instead of builds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from termarena.sandbox.compositions import keep_composition, load_composition, own_user
from termarena.sandbox.contract import Prepared
from termarena.sandbox.namespace.services.ground import check_sources
from termarena.sandbox.namespace.services.reading import read_services
from termarena.sandbox.spec import Root, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.namespace.imageroots import ImageRoots, Rooted
    from termarena.sandbox.namespace.services.model import Composition, Service
    from termarena.sandbox.spec import Fetches

__all__ = ["Loaded", "load_services", "pin_services", "root_services"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file, as it stands and as it is meant."""

    path: Path
    document: dict[str, Any]
    composition: Composition


def load_services(spec: SandboxSpec) -> Loaded:
    """Read the compose file of a spec. Raises as `read_services` does, and `ImageError` for what is no such file."""
    path = Path(str(spec.root.path)).absolute()
    document = load_composition(path)
    composition = read_services(document, spec.root, values=spec.env, folder=path.parent, source=str(path))
    check_sources(composition, path.parent)
    return Loaded(path, document, composition)


async def root_services(images: ImageRoots, loaded: Loaded, fetches: Fetches | None) -> dict[str, Rooted]:
    """The image of every service, built or pulled where it is missing, through a recording where there is one.

    Raises `ImageError`, `BuildError`, and what `image_for` raises.
    """
    found = {}
    for name, service in loaded.composition.services.items():
        found[name] = await _rooted(images, service, loaded.path.parent, fetches)
    return found


async def _rooted(images: ImageRoots, service: Service, folder: Path, fetches: Fetches | None) -> Rooted:
    build = service.build
    if build is None:
        return await images.prepare(SandboxSpec(root=Root(kind="image", image=service.image), fetches=fetches))
    context = (folder / build.context).resolve()
    return await images.build(context, build, fetches)


async def pin_services(images: ImageRoots, spec: SandboxSpec, *, home: Path) -> Prepared:
    """Have every image, and keep the folder of the file; raises as `load_services` and `root_services` do."""
    loaded = await asyncio.to_thread(load_services, spec)
    rooted = await root_services(images, loaded, spec.fetches)
    pinned = {name: _pinned(loaded.document["services"][name], one) for name, one in rooted.items()}
    kept = await asyncio.to_thread(
        keep_composition, loaded.path.parent, {**loaded.document, "services": pinned}, home=home
    )
    main = spec.root.service
    root = spec.root.model_copy(update={"path": kept, "image": None})
    user = own_user(spec, rooted[main].image.config.user, named=loaded.composition.services[main].user)
    return Prepared(
        spec.model_copy(update={"root": root, "user": user}),
        f"sha256:{kept.parent.name}",
        rooted[main].image.id,
        was_cached=all(one.prepared.was_cached for one in rooted.values()),
        substitutes=tuple(sorted({name for one in rooted.values() for name in one.image.substitutes})),
    )


def _pinned(body: Mapping[str, Any] | None, rooted: Rooted) -> dict[str, Any]:
    kept = {key: value for key, value in (body or {}).items() if key != "build"}
    return {**kept, "image": rooted.image.id}
