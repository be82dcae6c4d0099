"""A compose file made ready once: its images built and pulled, the file and its folder kept under their digest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from termarena.sandbox.compositions import keep_composition, load_composition, own_user, with_source
from termarena.sandbox.contract import Prepared
from termarena.sandbox.docker.build import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.docker.client import Engine
    from termarena.sandbox.docker.images import ImageStore, Ready
    from termarena.sandbox.spec import SandboxSpec

__all__ = ["pin_composition"]

OWN_BUILDS: Final = frozenset({"context", "dockerfile", "args", "target", "labels"})
"""What of `build` our own builder knows; a service with more than that is built by Compose at every start."""


class _Pinned(NamedTuple):
    services: dict[str, Any]
    main: Ready | None
    was_there: bool


async def pin_composition(engine: Engine, store: ImageStore, spec: SandboxSpec, *, home: Path) -> Prepared:
    """Build and pull what the services need, and keep the folder of the file with images instead of builds.

    Raises `ImageError`, `BuildError`.
    """
    path = Path(str(spec.root.path))
    document = await asyncio.to_thread(load_composition, path)
    pinned = await _pin_services(engine, store, document["services"], spec=spec, folder=path.parent)
    made = {**document, "services": pinned.services}
    kept = await asyncio.to_thread(keep_composition, path.parent, made, home=home)
    user = spec.user
    if pinned.main is not None:
        user = own_user(spec, pinned.main.image.user, named=pinned.services[spec.root.service].get("user"))
    root = spec.root.model_copy(update={"path": kept, "image": None})
    image = None if pinned.main is None else pinned.main.image.id
    ready = spec.model_copy(update={"root": root, "user": user})
    return Prepared(ready, f"sha256:{kept.parent.name}", image, was_cached=pinned.was_there)


async def _pin_services(
    engine: Engine, store: ImageStore, services: Mapping[str, Any], *, spec: SandboxSpec, folder: Path
) -> _Pinned:
    made: dict[str, Any] = {}
    main: Ready | None = None
    was_there = True
    for name, body in services.items():
        service = with_source(dict(body or {}), spec.root, is_main=name == spec.root.service)
        # Whether a profile is wished for is Compose's to say; its services are had when they start.
        ready = None if service.get("profiles") else await _image_of(engine, store, service, folder=folder)
        if ready is not None:
            was_there = was_there and ready.was_there
            service = {key: value for key, value in service.items() if key != "build"} | {"image": ready.image.id}
        if name == spec.root.service:
            main = ready
        made[name] = service
    return _Pinned(made, main, was_there)


async def _image_of(engine: Engine, store: ImageStore, service: dict[str, Any], *, folder: Path) -> Ready | None:
    """The image of a service, built or pulled; None where only Compose can say which that is."""
    build = service.get("build")
    if build is None:
        name = service.get("image")
        return None if not name or "$" in str(name) else await store.named(engine, str(name))
    table = {"context": build} if isinstance(build, str) else dict(build)
    if not table.keys() <= OWN_BUILDS or "$" in str(table) or "://" in str(table.get("context")):
        return None
    recipe = Recipe(
        str(table.get("dockerfile") or "Dockerfile"), _arguments(table.get("args")), str(table.get("target") or "")
    )
    return await store.built(engine, (folder / str(table.get("context") or ".")).resolve(), recipe)


def _arguments(given: object) -> dict[str, str]:
    if isinstance(given, list):
        given = dict(str(item).partition("=")[::2] for item in given)
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}
