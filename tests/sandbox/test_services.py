"""Tasks of several services on embedded sandboxes: what a compose file says is done, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.images.differing import busybox_root
from sandbox.support import out
from termarena.core.errors import (
    SandboxBroken,
)
from termarena.sandbox import Limits, Root, SandboxSpec
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.services import ServicesSandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.needs("busybox", "user-namespaces")

SERVE = "mkdir -p /www; echo from web > /www/index.html; echo serving; exec httpd -f -p 8000 -h /www"


@pytest.fixture(scope="module")
def busybox_tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("busybox")
    (folder / "root.tar").write_bytes(busybox_root(folder / "root"))
    return folder / "root.tar"


@pytest.fixture
async def embedded(tmp_path: Path, busybox_tar: Path) -> AsyncIterator[NamespaceDriver]:
    """With the image `box:1` in its store."""
    async with NamespaceDriver(home=tmp_path / "home") as made:
        shelf = ImageShelf(made, tmp_path / "home")
        await shelf.import_archive(busybox_tar, name="box:1")
        shelf.close()
        yield made


def composed(folder: Path, text: str) -> Root:
    (folder / "task").mkdir(exist_ok=True)
    (folder / "task/docker-compose.yaml").write_text(text)
    return Root(kind="compose", path=folder / "task/docker-compose.yaml")


async def test_services_reach_each_other_by_name_and_all_goes(embedded: NamespaceDriver, tmp_path: Path) -> None:
    root = composed(
        tmp_path,
        f"""
version: "3"
services:
  main:
    image: box:1
    container_name: would-clash
    depends_on: {{web: {{condition: service_healthy}}}}
    environment: {{FROM_FILE: "${{WORD}} $$HOME"}}
    volumes: [state:/state]
  web:
    image: box:1
    command: sh -c "{SERVE}"
    restart: always
    ports: ["80:8000"]
    networks: {{default: {{aliases: [www]}}}}
    volumes: [state:/state]
    healthcheck: {{test: [CMD, wget, -qO-, "http://web:8000/"], interval: 100ms, retries: 600}}
volumes: {{state: }}
""",
    )
    spec = SandboxSpec(root=root, env={"WORD": "said"}, workdir="/srv/work", limits=Limits(pids=64))
    async with embedded.start(spec) as box:
        assert isinstance(box, ServicesSandbox)
        assert box.services == ("web",)
        assert await out(box, "wget -qO- http://web:8000/; wget -qO- http://www:8000/") == "from web\nfrom web"
        assert await out(box, "pwd; echo $FROM_FILE") == "/srv/work\nsaid $HOME"
        assert await out(box.service("web"), "hostname; cat /www/index.html") == "web\nfrom web"
        assert await box.logs("web") == b"serving\n"
        with pytest.raises(SandboxBroken, match="there is: web"):
            box.service("db")
        assert "httpd" not in " ".join(word for process in await box.processes() for word in process.argv)
        await out(box.service("web"), "echo shared > /state/word")
        assert await out(box, "cat /state/word") == "shared"
        await box.freeze()
        await box.thaw()
        await box.write("/srv/mark", b"kept")
        assert (await box.diff()).of("added") == ("/srv/mark", "/srv/work", "/state")
        await box.seal()
        snapshot = await box.snapshot()
        async with embedded.start(snapshot) as fork:
            assert isinstance(fork, ServicesSandbox)
            assert await out(fork, "cat /srv/mark; ls /state; wget -qO- http://web:8000/") == "keptfrom web"
        snapshot.close()
    assert [record for record in embedded.list() if record.is_alive] == []
