"""What the services of one task share: their ids, their network, their volumes and the names of each other.

It is a sandbox of its own in which nothing runs. Services are made in its user and network namespaces and mount what it
lends, so that all of it ends with the last of them, however the harness ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.sandbox.namespace.services.values import unsupported
from termarena.sandbox.namespace.worker import Joining, Mount
from termarena.sandbox.spec import Limits, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from termarena.sandbox.namespace.box import NamespaceSandbox
    from termarena.sandbox.namespace.driver import NamespaceDriver
    from termarena.sandbox.namespace.services.model import Composition, Service, Volume

__all__ = ["Ground", "addresses_of", "check_sources", "laid"]

ROOM_BYTES: Final = 16 << 20
"""For the names: volumes have their own."""
VOLUMES: Final = "/volumes"
"""All of them share one disk, as large as the main service's own."""
FILE: Final = "file"
LOCAL: Final = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


@dataclass(slots=True)
class Ground:
    """The sandbox that lends, and where it holds what."""

    box: NamespaceSandbox
    namespaces: tuple[int, ...]
    places: dict[Volume, str]
    names: Mapping[str, str]
    """Of the services, with their addresses."""
    files: set[Volume] = field(default_factory=set)
    """Those that hold one file."""

    @contextlib.asynccontextmanager
    async def joining(self, service: Service) -> AsyncIterator[Joining]:
        """What a service is to be made with, while it is made."""
        with contextlib.ExitStack() as stack:
            mounts = [Mount(one.at, size_bytes=one.size_bytes, mode=one.mode) for one in service.memories]
            for use in service.uses:
                is_file = use.volume in self.files
                tree = await self._lent(self.places[use.volume] + (f"/{FILE}" if is_file else ""), stack)
                mounts.append(
                    Mount(
                        use.at,
                        is_writable=use.is_writable,
                        is_file=is_file,
                        tree_fd=tree,
                        fills=use.fills and not is_file,
                    )
                )
            # What lies deeper is mounted later.
            mounts.sort(key=lambda mount: mount.at.count("/"))
            hosts = await self._lent(f"/hosts/{service.name}", stack)
            mounts.append(Mount("/etc/hosts", is_writable=True, is_file=True, tree_fd=hosts))
            yield Joining(self.namespaces, tuple(mounts))

    async def _lent(self, path: str, stack: contextlib.ExitStack) -> int:
        tree = await self.box.doors.tree(path)
        stack.callback(os.close, tree)
        return tree

    async def fill(self, volume: Volume, folder: Path) -> None:
        """Let a volume begin with a file or a folder of the task, else as an empty folder."""
        path, place = None if volume.source is None else folder / volume.source, self.places[volume]
        if path is not None and path.is_file():
            self.files.add(volume)
            await self.box.write(f"{place}/{FILE}", path.read_bytes(), mode=path.stat().st_mode & 0o777)
        elif path is not None and path.is_dir():
            await self.box.put_tree(path, place)
        else:
            with _empty_folder() as empty:
                await self.box.put_tree(empty, place)


@contextlib.contextmanager
def _empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


def check_sources(composition: Composition, folder: Path) -> None:
    """Raise `CapabilityMissing` for a volume, a context or a Dockerfile that lies, or is led, out of the folder."""
    outside = "it lies outside the task's folder"
    top = folder.resolve()
    for service in composition.services.values():
        for use in service.uses:
            if use.volume.source is not None and not (folder / use.volume.source).resolve().is_relative_to(top):
                raise unsupported(f"services.{service.name}.volumes: {use.volume.source}", outside)
        if service.build is None:
            continue
        context = (folder / service.build.context).resolve()
        for key, path in (("context", context), ("dockerfile", (context / service.build.dockerfile).resolve())):
            if not path.is_relative_to(top):
                raise unsupported(f"services.{service.name}.build.{key}", outside)


def addresses_of(composition: Composition) -> dict[str, str]:
    """Each service's own loopback address: one that binds its own name alone leaves the port to others."""
    return {name: f"127.0.1.{number}" for number, name in enumerate(composition.services, start=1)}


def _hosts_of(service: Service, composition: Composition) -> str:
    addresses = addresses_of(composition)
    lines = [
        " ".join((addresses[name], *dict.fromkeys(filter(None, (name, other.hostname, *other.names)))))
        for name, other in composition.services.items()
    ]
    lines += [f"{addresses[name]} {alias}" for name, alias in service.links]
    lines += [f"{address} {name}" for address, name in service.hosts]
    return LOCAL + "".join(f"{line}\n" for line in lines)


def _names_of(composition: Composition) -> dict[str, str]:
    """What is their own, for clients that ask a proxy whatever `no_proxy` says, as the wget of busybox does."""
    addresses = addresses_of(composition)
    named = {
        alias: addresses[name]
        for name, service in composition.services.items()
        for alias in (name, service.hostname, *service.names, addresses[name])
        if alias is not None
    }
    return {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", **named}


@contextlib.asynccontextmanager
async def laid(
    driver: NamespaceDriver, composition: Composition, spec: SandboxSpec, *, folder: Path
) -> AsyncIterator[Ground]:
    """The ground for a composition: volumes filled, names written, the network of `spec` served."""
    places = {volume: f"{VOLUMES}/{number}" for number, volume in enumerate(composition.volumes)}
    mounts = (Mount(VOLUMES, size_bytes=spec.limits.disk_bytes, mode=0o755),)
    own = SandboxSpec(limits=Limits(disk_bytes=ROOM_BYTES), network=spec.network, fetches=spec.fetches)
    joining = Joining(mounts=mounts, names=_names_of(composition))
    async with driver.start_on(own, driver.roots.empty(), joining) as box:
        namespaces = await box.doors.namespaces()
        try:
            ground = Ground(box, namespaces, places, joining.names)
            for volume in composition.volumes:
                await ground.fill(volume, folder)
            for service in composition.services.values():
                await box.write(f"/hosts/{service.name}", _hosts_of(service, composition).encode())
            yield ground
        finally:
            for fd in namespaces:
                os.close(fd)
