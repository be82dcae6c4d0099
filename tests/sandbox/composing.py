"""What the tests of several services share: one small image on both drivers, compose files, what is left behind."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.docker_support import left_over
from sandbox.images.differing import busybox_root, docker
from termarena.sandbox import Root
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from pathlib import Path

BASE = f"termarena-services-{os.getpid()}:1"
"""An image with every tool of busybox, and the user alice."""


@dataclass
class Composer:
    """Drivers of one kind with one home, which has the image."""

    kind: str
    home: Path
    made: list[str] = field(default_factory=list)

    def prepare(self, archive: Path) -> None:
        if self.kind == "docker":
            docker("import", str(archive), BASE)
            self.made.append(BASE)
        else:
            asyncio.run(self._import(archive))

    async def _import(self, archive: Path) -> None:
        async with NamespaceDriver(home=self.home) as driver:
            shelf = ImageShelf(driver, self.home)
            await shelf.import_archive(archive, name=BASE)
            shelf.close()

    def driver(self) -> NamespaceDriver | DockerDriver:
        return DockerDriver(home=self.home) if self.kind == "docker" else NamespaceDriver(home=self.home)

    def left_over(self) -> list[str]:
        """Containers, networks and volumes, or living sandboxes; images are a cache."""
        if self.kind == "docker":
            return [one for one in left_over(self.home) if not one.startswith("image ")]
        return [record.id for record in NamespaceDriver(home=self.home).list() if record.is_alive]

    def close(self) -> None:
        if self.made:
            docker("rmi", "-f", *self.made, check=False)


def base_archive(folder: Path) -> Path:
    (folder / "root.tar").write_bytes(busybox_root(folder / "root"))
    return folder / "root.tar"


def composed(folder: Path, text: str, **files: str) -> Root:
    """A compose file with BASE for `BASE`, and files beside it by their names with `__` for `/`."""
    folder.mkdir(exist_ok=True)
    for name, content in {**files, "docker-compose.yaml": text}.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("BASE", BASE))
    return Root(kind="compose", path=folder / "docker-compose.yaml")
