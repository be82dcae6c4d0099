"""`RUN --mount`: what a step sees beside the layers, and what is kept of it: nothing in the layer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.sandbox.namespace.worker import Mount
from termarena.sandbox.units import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.sandbox.images.context import Context

__all__ = ["MountPlaces", "plan_mount"]

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "bind": frozenset({"target", "source", "ro"}),
    "cache": frozenset({"target", "id", "sharing"}),
    "tmpfs": frozenset({"target", "size"}),
    "secret": frozenset({"target", "id", "required"}),
}
SAME: Final = {"dst": "target", "destination": "target", "src": "source", "readonly": "ro"}


@dataclass(frozen=True, slots=True)
class MountPlaces:
    """Where mounts come from."""

    context: Context
    caches: Path
    """Holds the folders of `type=cache`, which outlive builds."""
    secrets: Mapping[str, Path]
    scratch: Path
    """Holds what is bound of a context that ignores something, for the time of the build."""
    absolute: Callable[[str], str]
    """A path of the image in full."""


def plan_mount(text: str, places: MountPlaces) -> tuple[Mount | None, list[str]]:
    """The mount, and what of it is part of the step's key; no mount for a secret that is missing and not required.

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
        return Mount(at, size_bytes=_size(options.get("size", "1g"))), [text]
    if kind == "cache":
        name = hashlib.sha256((options.get("id") or at).encode()).hexdigest()
        folder = places.caches / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        return Mount(at, folder, is_writable=True), [text]
    return _bound(at, text, options.get("source", "."), places)


def _bound(at: str, text: str, source: str, places: MountPlaces) -> tuple[Mount, list[str]]:
    """A file or a folder of the context; where some are ignored, a copy without them."""
    picked = places.context.pick(source)
    if not picked:
        raise FileNotFoundError(f"{source} is not in the context")
    digest = places.context.digest(picked[0], "x")
    path = places.context.folder / picked[0].path
    if picked[0].is_folder and places.context.has_ignored:
        path = places.scratch / f"bound-{digest}"
        if not path.exists():
            places.context.copy_to(picked[0], path)
    return Mount(at, path, is_file=not picked[0].is_folder), [text, digest]


def _option(part: str) -> tuple[str, str]:
    key, _, value = part.strip().partition("=")
    return SAME.get(key.lower(), key.lower()), value


def _size(text: str) -> int:
    try:
        return bytes_of(text)
    except ValueError as error:
        raise ValueError(f"--mount=type=tmpfs,size={error}") from error


def _secret(options: dict[str, str], places: MountPlaces) -> tuple[Mount | None, list[str]]:
    name = options.get("id") or options.get("target", "").rpartition("/")[2]
    path = places.secrets.get(name)
    if path is None:
        if options.get("required", "false").lower() in ("true", "1", ""):
            raise FileNotFoundError(f"the secret {name} was not given: --secret {name}=FILE")
        return None, [name]
    at = places.absolute(options.get("target") or f"/run/secrets/{name}")
    return Mount(at, path.resolve(), is_file=True), [name]
