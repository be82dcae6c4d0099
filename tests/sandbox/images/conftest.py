"""Images made by hand, a real registry on loopback, and drivers for each kind of id map that this user can have."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from sandbox.images.making import PushTarget, tar_of_folder
from sandbox.support import make_rootfs
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

REGISTRY_CONFIG = """
version: 0.1
log: {{level: info}}
storage: {{filesystem: {{rootdirectory: {data}}}}}
http: {{addr: "127.0.0.1:0", secret: tests}}
"""


@pytest.fixture(scope="session")
def root_tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with a shell and a few programs, as a tar."""
    folder = tmp_path_factory.mktemp("base")
    make_rootfs(folder / "rootfs")
    target = folder / "rootfs.tar"
    target.write_bytes(tar_of_folder(folder / "rootfs"))
    return target


@pytest.fixture(scope="session")
def root_layer(root_tar: Path) -> bytes:
    return root_tar.read_bytes()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushTarget]:
    """Debian's own, on a port that the kernel chose."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "config.yml").write_text(REGISTRY_CONFIG.format(data=folder / "data"))
    process = subprocess.Popen(  # noqa: S603 - a real registry
        ["docker-registry", "serve", str(folder / "config.yml")],  # noqa: S607 - from Debian's package
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        found = next(match for line in process.stderr if (match := re.search(r"listening on ([\d.]+:\d+)", line)))
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        yield PushTarget(found[1])
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


@pytest.fixture(params=["best", "single"])
async def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ImageShelf]:
    """Images on the best id map there is for this user, and on the one that every user has."""
    allow = request.param == "best"
    if not allow and os.geteuid() == 0:
        pytest.skip("root always has all ids; the suite runs again as an ordinary user")
    async with NamespaceDriver(home=tmp_path / "home", allow_ranges=allow) as driver:
        made = ImageShelf(driver, tmp_path / "home")
        yield made
        made.close()
