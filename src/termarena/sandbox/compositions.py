"""Compose files as every driver takes them: read and bounded, kept with their folder, and what none may ask for."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, runtime_checkable

import yaml

from termarena.core.errors import ImageError, SandboxBroken, TaskFormatError
from termarena.sandbox.contract import Sandbox
from termarena.sandbox.namespace.building import build_once, remove_tree
from termarena.tasks.documents import read_text
from termarena.tasks.yaml_documents import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.sandbox.spec import Root, SandboxSpec

__all__ = [
    "Beside",
    "ComposedSandbox",
    "check_reach",
    "forget_compositions",
    "has_binds",
    "keep_composition",
    "load_composition",
    "names_in",
    "own_user",
    "parse_composition",
    "service_of",
    "with_source",
]

PINNED: Final = "termarena-compose.yaml"
REACHES_OUT: Final = ("privileged", "network_mode", "pid", "ipc", "userns_mode", "cgroup_parent", "devices")
"""What would open a service to the machine it runs on."""


@runtime_checkable
class ComposedSandbox(Sandbox, Protocol):
    """The main service of a compose file. Snapshots, diffs, `seal` and `kill_processes` are about it alone; `freeze`
    and `stop` are about every service."""

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the other services."""

    def service(self, name: str) -> Sandbox:
        """Another service, to run commands in; raises `SandboxBroken` for a name that the file does not have."""

    async def logs(self, name: str) -> bytes:
        """What another service wrote so far, both outputs in order."""


BoxT = TypeVar("BoxT", bound=Sandbox)


class Beside(Generic[BoxT]):
    """The other services of a compose file, as its main one has them."""

    def __init__(self, main: str, boxes: Mapping[str, BoxT] = MappingProxyType({})) -> None:
        """`main` is the id of the sandbox that they belong to."""
        self._main = main
        self.boxes = boxes

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted."""
        return tuple(sorted(self.boxes))

    def find(self, name: str) -> BoxT:
        """One of them; raises `SandboxBroken` for a name that the file does not have."""
        if name not in self.boxes:
            raise SandboxBroken(self._main, f"has no service {name}; there is: {', '.join(self.names)}")
        return self.boxes[name]

    async def freeze(self) -> None:
        """Let none run; one that has ended does not."""
        for box in self.boxes.values():
            with contextlib.suppress(SandboxBroken):
                await box.freeze()

    async def thaw(self) -> None:
        """Let all go on that have not ended."""
        for box in self.boxes.values():
            with contextlib.suppress(SandboxBroken):
                await box.thaw()


def load_composition(path: Path) -> dict[str, Any]:
    """Read a compose file; raises `ImageError` for one that is none."""
    try:
        return parse_composition(read_text(str(path)), source=str(path))
    except TaskFormatError as error:
        raise ImageError(str(path), f"found {error.found}; expected {error.expected}", cause="task") from error


def parse_composition(text: str, *, source: str) -> dict[str, Any]:
    """A compose file's text; raises `ImageError` for one without services, `TaskFormatError` for what is no YAML."""
    document = parse_yaml(text, file=source)
    services = document.get("services") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(services, dict):
        raise ImageError(source, "has no services", cause="task")
    for name, body in services.items():
        if body is not None and not isinstance(body, dict):
            raise ImageError(source, f"the service {name} is no table", cause="task")
    return document


def service_of(document: dict[str, Any], name: str, *, source: str) -> dict[str, Any]:
    """What the file says of one service; raises `ImageError` where it has none of this name."""
    services = document["services"]
    if name not in services:
        names = ", ".join(sorted(services))
        raise ImageError(source, f"has no service {name}; there is: {names}", hint="name it: Root(service=…)")
    return dict(services[name] or {})


def check_reach(name: str, body: dict[str, Any], *, source: str) -> None:
    """Raise `ImageError` for a service that asks for more than a sandbox."""
    for key in REACHES_OUT:
        if body.get(key):
            raise ImageError(source, f"the service {name} asks for {key}, which would reach the engine's machine")


def names_in(path: Path) -> tuple[str, ...]:
    """What the services of a file are called on their networks; raises `ImageError`."""
    found: list[str] = []
    for name, body in load_composition(path)["services"].items():
        networks = (body or {}).get("networks")
        rows = networks.values() if isinstance(networks, dict) else ()
        found += [name, *(alias for row in rows for alias in (row or {}).get("aliases") or ())]
    return tuple(dict.fromkeys(found))


def has_binds(document: dict[str, Any]) -> bool:
    """Whether a service mounts a file or a folder by its path, or a secret or a config, which are files."""
    if document.get("secrets") or document.get("configs"):
        return True
    mounts = [mount for body in document["services"].values() for mount in (body or {}).get("volumes") or ()]
    return any(
        mount.get("type") == "bind" if isinstance(mount, dict) else str(mount).startswith((".", "/", "~", "$"))
        for mount in mounts
    )


def with_source(service: dict[str, Any], root: Root, *, is_main: bool) -> dict[str, Any]:
    """The main service with the image that the root names, or else, when the file says nothing, the Dockerfile's."""
    if not is_main:
        return service
    if root.image is not None:
        return {key: value for key, value in service.items() if key != "build"} | {"image": root.image}
    return service if service.get("build") or service.get("image") else {**service, "build": "."}


def own_user(spec: SandboxSpec, image_user: str, *, named: object = None) -> str:
    """Whom commands run as: the spec's user unless it is the default, a service's, the image's."""
    if spec.user != type(spec).model_fields["user"].default:
        return spec.user
    wanted = str(named) if named is not None and "$" not in str(named) else image_user
    return wanted or spec.user


def keep_composition(folder: Path, document: dict[str, Any], *, home: Path) -> Path:
    """A copy of the folder with this document, so that it starts when the folder is gone: the path of the file.

    The copy lies in a folder named by a digest of both.
    """
    text = yaml.safe_dump(document, sort_keys=True)
    state = hashlib.sha256((_digest(folder) + text).encode()).hexdigest()
    store = home / "compose"
    store.mkdir(parents=True, exist_ok=True, mode=0o700)

    def copy(target: Path) -> None:
        shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
        (target / PINNED).write_text(text)

    kept = build_once(store / state, copy)
    with contextlib.suppress(OSError):
        os.utime(kept)
    return kept / PINNED


def forget_compositions(home: Path, *, older_than_s: float) -> int:
    """Remove the copies that were last asked for longer ago; how many. A run that needs one again makes it anew."""
    gone = [
        folder
        for folder in sorted((home / "compose").glob("*"))
        if folder.is_dir() and time.time() - folder.stat().st_mtime >= older_than_s
    ]
    for folder in gone:
        remove_tree(folder)
    return len(gone)


def _digest(folder: Path) -> str:
    """Of names, kinds, modes and contents of everything in it: services may see what no image has."""
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        content = ""
        if stat.S_ISLNK(found.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(found.st_mode):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        state.update(os.fsencode(f"{path.relative_to(folder)}\0{found.st_mode:o}\0{content}\n"))
    return state.hexdigest()
