"""A compose file made ready once: its images built and pulled, the file and its folder kept under their digest."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from termarena.core.errors import ImageError
from termarena.sandbox.contract import Prepared
from termarena.sandbox.docker.build import Recipe, context_digest
from termarena.sandbox.namespace.building import build_once
from termarena.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.docker.client import Engine
    from termarena.sandbox.docker.images import Image, ImageStore, Ready

__all__ = ["load_composition", "own_user", "pin_composition"]

PINNED: Final = "termarena-compose.yaml"
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
    text = yaml.safe_dump({**document, "services": pinned.services}, sort_keys=True)
    digest = await asyncio.to_thread(_keep, path.parent, text, home / "compose")
    user = spec.user
    if pinned.main is not None:
        user = own_user(spec, pinned.main.image, named=pinned.services[spec.root.service].get("user"))
    kept = home / "compose" / digest / PINNED
    root = spec.root.model_copy(update={"path": kept, "image": None})
    image = None if pinned.main is None else pinned.main.image.id
    ready = spec.model_copy(update={"root": root, "user": user})
    return Prepared(ready, f"sha256:{digest}", image, was_cached=pinned.was_there)


def own_user(spec: SandboxSpec, image: Image, *, named: object = None) -> str:
    """Whom commands run as: the spec's user unless it is the default, a service's, the image's."""
    if spec.user != SandboxSpec.model_fields["user"].default:
        return spec.user
    wanted = str(named) if named is not None and "$" not in str(named) else image.user
    return wanted or spec.user


def load_composition(path: Path) -> dict[str, Any]:
    """Read a compose file; raises `ImageError` for one that is none."""
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ImageError(str(path), error.strerror or "cannot be read", hint="check the path") from error
    except yaml.YAMLError as error:
        raise ImageError(str(path), f"is not YAML: {error}", cause="task") from error
    if not isinstance(document, dict) or not isinstance(document.get("services"), dict):
        raise ImageError(str(path), "has no services", cause="task")
    return document


async def _pin_services(
    engine: Engine, store: ImageStore, services: Mapping[str, Any], *, spec: SandboxSpec, folder: Path
) -> _Pinned:
    made: dict[str, Any] = {}
    main: Ready | None = None
    was_there = True
    for name, body in services.items():
        service = _with_source(dict(body or {}), spec, is_main=name == spec.root.service)
        ready = await _image_of(engine, store, service, folder=folder)
        if ready is not None:
            was_there = was_there and ready.was_there
            service = {key: value for key, value in service.items() if key != "build"} | {"image": ready.image.id}
        if name == spec.root.service:
            main = ready
        made[name] = service
    return _Pinned(made, main, was_there)


def _with_source(service: dict[str, Any], spec: SandboxSpec, *, is_main: bool) -> dict[str, Any]:
    """The main service with the image that the spec names, or else, when the file says nothing, the Dockerfile's."""
    if not is_main:
        return service
    if spec.root.image is not None:
        return {key: value for key, value in service.items() if key != "build"} | {"image": spec.root.image}
    return service if service.get("build") or service.get("image") else {**service, "build": "."}


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


def _keep(folder: Path, text: str, store: Path) -> str:
    """A copy of the folder with the pinned file, under a digest of both, so that it starts when the folder is gone."""
    state = hashlib.sha256(context_digest(folder, Recipe(PINNED)).encode() + text.encode())
    digest = state.hexdigest()
    store.mkdir(parents=True, exist_ok=True, mode=0o700)

    def copy(target: Path) -> None:
        shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
        (target / PINNED).write_text(text)

    build_once(store / digest, copy)
    return digest
