"""`RUN --mount`: what a step sees beside the layers, and what is kept of it: nothing in the layer."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.sandbox.namespace.worker import Mount
from termarena.sandbox.units import bytes_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from termarena.sandbox.images.context import Context

__all__ = ["OWN_CACHES", "MountPlaces", "Planned", "Taken", "locked", "plan_mount", "source_of"]

OWN_CACHES: Final = "caches"
"""The folder of a build's scratch that holds cache mounts of its own."""
ASK_AGAIN_S: Final = 0.05
"""How often a lock that another process has is asked for: a wait for the lock itself could not be given up."""

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "bind": frozenset({"target", "source", "from", "ro", "rw"}),
    "cache": frozenset({"target", "id", "sharing"}),
    "tmpfs": frozenset({"target", "size"}),
    "secret": frozenset({"target", "id", "required"}),
}
SAME: Final = {"dst": "target", "destination": "target", "src": "source", "readonly": "ro", "readwrite": "rw"}


class Source(NamedTuple):
    """What a mount is taken from."""

    image: str
    path: str


class Taken(NamedTuple):
    """A file or a folder out of another stage or image, where a step can see it."""

    path: Path
    is_file: bool
    key: list[str]
    """What it is known by."""


@dataclass(frozen=True, slots=True)
class MountPlaces:
    """Where mounts come from."""

    context: Context
    caches: Path | None
    """Holds the folders of `type=cache` that outlive builds; without it they are this build's own."""
    secrets: Mapping[str, Path]
    scratch: Path
    """Holds what is bound of a context that ignores something, and own caches, for the time of the build."""
    absolute: Callable[[str], str]
    """A path of the image in full."""
    taken: Mapping[str, Taken] = field(default_factory=dict)
    """What was taken out of stages and images, by the mount's own words; nothing where a build is only planned."""


class Planned(NamedTuple):
    """A mount of a step."""

    mount: Mount | None
    """None for a secret that is missing and not required."""
    key: list[str]
    """What of it is part of the step's key."""
    lock: Path | None = None
    """A file to be locked while the step runs: no other build then writes there."""


def plan_mount(text: str, places: MountPlaces) -> Planned:
    """What one `--mount` says.

    Raises `ValueError` for what is not supported, `FileNotFoundError` for what is not there.
    """
    options = dict(_option(part) for part in text.split(","))
    kind = options.pop("type", "bind")
    if kind not in KNOWN:
        raise ValueError(f"--mount=type={kind} is not supported")
    if unknown := sorted(options.keys() - KNOWN[kind]):
        raise ValueError(f"--mount=type={kind},{unknown[0]} is not supported")
    if kind == "secret":
        return _secret(options, places)
    if not options.get("target"):
        raise ValueError(f"--mount=type={kind} needs a target")
    at = places.absolute(options["target"]).rstrip("/")
    if not at:
        raise ValueError(f"--mount=type={kind} cannot have the target /")
    if kind == "tmpfs":
        return Planned(Mount(at, size_bytes=_size(options.get("size", "1g"))), [text])
    if kind == "cache":
        return _cache(at, text, options, places)
    return _bound(at, text, options, places)


def _cache(at: str, text: str, options: dict[str, str], places: MountPlaces) -> Planned:
    """`private` is this build's own, whoever else builds; `locked` is one build's at a time."""
    sharing = options.get("sharing") or "shared"
    if sharing not in ("shared", "private", "locked"):
        raise ValueError(f"--mount=type=cache,sharing={sharing} is not known: shared, private or locked")
    kept = None if sharing == "private" else places.caches
    folder = (kept or places.scratch / OWN_CACHES) / hashlib.sha256((options.get("id") or at).encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    lock = folder.with_name(f"{folder.name}.lock") if sharing == "locked" else None
    return Planned(Mount(at, folder, is_writable=True), [text], lock)


@asynccontextmanager
async def locked(paths: Sequence[Path]) -> AsyncIterator[None]:
    """Hold the locks of several files, in an order that everyone keeps."""
    with ExitStack() as stack:
        for path in sorted(paths):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, fd)
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(ASK_AGAIN_S)
        yield


def source_of(text: str) -> Source | None:
    """The stage or image that a mount is taken from, and what of it; None for any other mount."""
    options = dict(_option(part) for part in text.split(","))
    if options.get("type", "bind") != "bind" or not options.get("from"):
        return None
    return Source(options["from"], options.get("source") or "/")


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() in ("", "true", "1")


def _bound(at: str, text: str, options: dict[str, str], places: MountPlaces) -> Planned:
    """A file or a folder of the context; where some are ignored, or it may be written to, a copy."""
    writes = _is_on(options, "rw") or ("ro" in options and not _is_on(options, "ro"))
    if options.get("from"):
        if writes:
            raise ValueError("--mount=type=bind,from,rw is not supported")
        taken = places.taken.get(text)
        if taken is None:
            return Planned(None, [text])
        return Planned(Mount(at, taken.path, is_file=taken.is_file), [text, *taken.key])
    source = options.get("source", ".")
    picked = places.context.pick(source)
    if not picked:
        raise FileNotFoundError(f"{source} is not in the context")
    digest = places.context.digest(picked[0], "x")
    path = places.context.folder / picked[0].path
    if writes and not picked[0].is_folder:
        raise ValueError("--mount=type=bind,rw of a file is not supported")
    if picked[0].is_folder and (places.context.has_ignored or writes):
        path = places.scratch / f"bound-{digest}"
        if writes:
            path = places.scratch / OWN_CACHES / f"written-{secrets.token_hex(8)}"
            path.parent.mkdir(exist_ok=True, mode=0o755)
        if not path.exists():
            places.context.copy_to(picked[0], path)
    return Planned(Mount(at, path, is_file=not picked[0].is_folder, is_writable=writes), [text, digest])


def _option(part: str) -> tuple[str, str]:
    key, _, value = part.strip().partition("=")
    return SAME.get(key.lower(), key.lower()), value


def _size(text: str) -> int:
    try:
        return bytes_of(text)
    except ValueError as error:
        raise ValueError(f"--mount=type=tmpfs,size={error}") from error


def _secret(options: dict[str, str], places: MountPlaces) -> Planned:
    name = options.get("id") or options.get("target", "").rpartition("/")[2]
    path = places.secrets.get(name)
    if path is None:
        if options.get("required", "false").lower() in ("true", "1", ""):
            raise FileNotFoundError(f"the secret {name} was not given: --secret {name}=FILE")
        return Planned(None, [name])
    at = places.absolute(options.get("target") or f"/run/secrets/{name}")
    return Planned(Mount(at, path.resolve(), is_file=True), [name])
