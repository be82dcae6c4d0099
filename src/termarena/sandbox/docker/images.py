"""The image that a spec's root file system is on an engine: named, built, loaded or imported."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, ImageError
from termarena.sandbox.docker.archives import Packing, from_thread, pack
from termarena.sandbox.docker.blame import blame_for_pull, pull_query
from termarena.sandbox.docker.build import Built, Recipe, build_image
from termarena.sandbox.docker.client import LONG_S, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.docker.client import Engine
    from termarena.sandbox.spec import Root

__all__ = ["Image", "ImageStore", "Ready", "inspect_image"]

ROOTS: Final = "termarena/root"
NOT_FOUND: Final = 404
SHELLS: Final = ("bin/sh", "usr/bin/sh")


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the engine has."""

    name: str
    id: str
    layers: tuple[str, ...]
    env: dict[str, str]
    workdir: str
    architecture: str
    user: str = ""
    """Whom its commands run as; empty for root."""
    entrypoint: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of its files: the same on every engine."""
        return "sha256:" + hashlib.sha256("\n".join(self.layers).encode()).hexdigest()


async def inspect_image(engine: Engine, name: str) -> Image | None:
    """What the engine has under the name; None for nothing. Raises `EngineError`."""
    try:
        told = (await engine.call("GET", f"/images/{name}/json")).json()
    except EngineError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    config = told.get("Config") or {}
    return Image(
        name=name,
        id=str(told["Id"]),
        layers=tuple(told["RootFS"].get("Layers") or ()),
        env=dict(pair.partition("=")[::2] for pair in config.get("Env") or ()),
        workdir=str(config.get("WorkingDir") or ""),
        architecture=str(told.get("Architecture") or "amd64"),
        user=str(config.get("User") or ""),
        entrypoint=tuple(config.get("Entrypoint") or ()),
    )


@dataclass(frozen=True, slots=True)
class Ready:
    """An image that was prepared."""

    image: Image
    was_there: bool


class ImageStore:
    """Prepares images; what was prepared is remembered by path and time."""

    def __init__(self, on_log: Callable[[str], None] | None = None) -> None:
        """`on_log` gets the lines of pulls and builds."""
        self._on_log = on_log
        self._locks: dict[object, asyncio.Lock] = {}

    async def prepare(self, engine: Engine, root: Root) -> Ready:
        """Raises `ImageError` for what cannot be used, `BuildError` for what does not build."""
        # Fifty sandboxes that start together import or build once; locks belong to one loop.
        lock = self._locks.setdefault((asyncio.get_running_loop(), root), asyncio.Lock())
        async with lock:
            if root.kind == "image":
                return await self.named(engine, str(root.image))
            path = Path(str(root.path))
            if root.kind == "dockerfile":
                return await self.built(engine, path, Recipe(root.dockerfile))
            made = await (self._folder(engine, path) if root.kind == "folder" else self._archive(engine, path))
            return await self._ready(engine, made)

    async def built(self, engine: Engine, context: Path, recipe: Recipe) -> Ready:
        """The image of a Dockerfile; raises `ImageError`, `BuildError`."""
        return await self._ready(engine, await build_image(engine, context, recipe=recipe, on_log=self._on_log))

    async def _ready(self, engine: Engine, made: Built) -> Ready:
        image = await inspect_image(engine, made.name)
        if image is None:
            raise ImageError(made.name, "is not there although it was just made", cause="infra")
        return Ready(image, made.was_there)

    async def named(self, engine: Engine, name: str) -> Ready:
        """An image by its name, pulled if need be; raises `ImageError`."""
        found = await inspect_image(engine, name)
        if found is not None:
            return Ready(found, was_there=True)
        await self._pull(engine, name)
        return await self._ready(engine, Built(name, was_there=False))

    async def _pull(self, engine: Engine, name: str) -> None:
        hint = "check the name; for a private registry `docker login`; without network, `docker load` the image first"
        request = Request("POST", "/images/create", pull_query(name), headers=_credentials(name), patience_s=LONG_S)
        try:
            async with engine.open(request) as body:
                async for message in body.lines():
                    if "error" in message:
                        raise ImageError(name, f"cannot be pulled: {message['error']}", hint=hint, cause="infra")
                    self._log(message)
        except EngineError as error:
            problem = f"is not on the engine and cannot be pulled: {error.problem}"
            raise ImageError(name, problem, hint=hint, cause=blame_for_pull(error.status)) from error

    def say(self, line: str) -> None:
        """A line for whoever listens to pulls and builds."""
        if self._on_log is not None:
            self._on_log(line)

    def _log(self, message: dict[str, Any]) -> None:
        words = [str(message.get(key, "")) for key in ("id", "status", "progress")]
        self.say(" ".join(word for word in words if word))

    async def _folder(self, engine: Engine, path: Path) -> Built:
        _check_folder(path)
        digest = await asyncio.to_thread(_folder_digest, path)
        name = f"{ROOTS}:{digest}"
        if await inspect_image(engine, name) is not None:
            return Built(name, was_there=True)
        await self._import(engine, name, path, lambda out: pack(path, out, Packing()))
        return Built(name, was_there=False)

    async def _archive(self, engine: Engine, path: Path) -> Built:
        digest, is_image = await asyncio.to_thread(_look_at_archive, path)
        name = f"{ROOTS}:{digest}"
        if await inspect_image(engine, name) is not None:
            return Built(name, was_there=True)
        if is_image:
            await self._load(engine, name, path)
        else:
            await self._import(engine, name, path, lambda out: _copy(path, out))
        return Built(name, was_there=False)

    async def _import(self, engine: Engine, name: str, path: Path, produce: Callable[[IO[bytes]], None]) -> None:
        repository, _, tag = name.rpartition(":")
        query = {"fromSrc": "-", "repo": repository, "tag": tag}
        try:
            async with engine.open(
                Request("POST", "/images/create", query, body=from_thread(produce), patience_s=LONG_S)
            ) as body:
                async for message in body.lines():
                    if "error" in message:
                        raise ImageError(str(path), str(message["error"]))
        except EngineError as error:
            raise ImageError(str(path), f"cannot be imported: {error.problem}") from error

    async def _load(self, engine: Engine, name: str, path: Path) -> None:
        """Load what `docker save` wrote and give the image our name too."""
        loaded = ""
        async with engine.open(
            Request("POST", "/images/load", body=from_thread(lambda out: _copy(path, out)), patience_s=LONG_S)
        ) as body:
            async for message in body.lines():
                if "error" in message:
                    raise ImageError(str(path), str(message["error"]))
                text = str(message.get("stream", ""))
                if text.startswith("Loaded image"):
                    loaded = text.partition(": ")[2].strip()
        if not loaded:
            raise ImageError(str(path), "holds no image that the engine can load")
        repository, _, tag = name.rpartition(":")
        await engine.call("POST", f"/images/{loaded}/tag", query={"repo": repository, "tag": tag})


def _credentials(name: str) -> dict[str, str]:
    """What `docker login` left for the image's registry, in the engine's form; helpers are not asked."""
    first = name.partition("/")[0]
    host = first if "." in first or ":" in first else ""
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        known = json.loads((folder / "config.json").read_text()).get("auths", {})
    except (OSError, ValueError, AttributeError):
        return {}
    entry = next((value for key, value in known.items() if host and host in key), None)
    if not isinstance(entry, dict) or "auth" not in entry:
        return {}
    user, _, password = base64.b64decode(str(entry["auth"])).decode().partition(":")
    told = {"username": user, "password": password, "serveraddress": host}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(told).encode()).decode()}


def _check_folder(path: Path) -> None:
    if not path.exists():
        raise ImageError(str(path), "No such file or directory", hint="check the path")
    if not path.is_dir():
        raise ImageError(str(path), "is not a folder", hint="use an archive root for a tar file")
    if not any(os.path.lexists(path / name) for name in SHELLS):
        raise ImageError(str(path), "has no /bin/sh: not a root file system")


def _folder_digest(path: Path) -> str:
    """Of names, modes, owners, sizes and times: a root file system has too much content to read at every start."""
    state = hashlib.sha256(str(path.resolve()).encode())
    pending = [path]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                found = entry.stat(follow_symlinks=False)
                facts = (entry.path, found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns, found.st_ino)
                state.update(repr(facts).encode())
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
    return state.hexdigest()[:40]


def _look_at_archive(path: Path) -> tuple[str, bool]:
    """Its digest, and whether it is an image rather than a root file system; raises `ImageError`."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:40]
        with tarfile.open(path) as archive:
            names = {name.removeprefix("./") for name in archive.getnames()}
    except OSError as error:
        raise ImageError(str(path), error.strerror or "cannot be read", hint="check the path") from error
    except (tarfile.TarError, EOFError) as error:
        raise ImageError(str(path), f"is no archive: {error}", hint="give a tar of a root file system") from error
    is_image = "manifest.json" in names or {"index.json", "oci-layout"} <= names
    if not is_image and not names & set(SHELLS):
        raise ImageError(str(path), "has no /bin/sh: not a root file system")
    return digest, is_image


def _copy(path: Path, out: IO[bytes]) -> None:
    with path.open("rb") as file:
        shutil.copyfileobj(file, out, 1 << 20)
