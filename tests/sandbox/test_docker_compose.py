"""Tasks of several services."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.docker_support import left_over
from termarena.core.errors import BuildError, ImageError, SandboxBroken, SandboxStartError
from termarena.sandbox import Limits, Root, SandboxSpec
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.docker.compose import ComposeSandbox
from termarena.sandbox.docker.composition import rewrite
from termarena.sandbox.docker.sweeping import ask

if TYPE_CHECKING:
    from pathlib import Path

needs_compose = pytest.mark.needs("docker", "docker-compose")

SERVER = (
    "import http.server, os\n"
    "class Answer(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(b'from web')\n"
    "print('serving', flush=True)\n"
    "http.server.HTTPServer(('', 8000), Answer).serve_forever()\n"
)
FETCH = "import urllib.request; print(urllib.request.urlopen('http://web:8000/', timeout=10).read().decode())"
PROBE = "import socket; socket.create_connection(('127.0.0.1', 8000)).close()"


def _write(folder: Path, *, probe: str = PROBE) -> Path:
    (folder / "web").mkdir()
    (folder / "web/server.py").write_text(SERVER)
    (folder / "web/Dockerfile").write_text("FROM debian:bookworm\nCOPY server.py /server.py\n")
    (folder / "docker-compose.yaml").write_text(
        f"""
version: "3"
services:
  main:
    image: debian:bookworm
    container_name: would-clash
    depends_on: [web]
    environment: {{FROM_FILE: "${{WORD}}"}}
  web:
    build: ./web
    command: ["python3", "/server.py"]
    volumes: ["state:/state"]
    healthcheck:
      test: ["CMD", "python3", "-c", "{probe}"]
      interval: 1s
      retries: 3
volumes:
  state: {{}}
"""
    )
    return folder / "docker-compose.yaml"


@needs_compose
@pytest.mark.slow
async def test_services_reach_each_other_and_all_goes(tmp_path: Path) -> None:
    root = Root(kind="compose", path=_write(tmp_path))
    spec = SandboxSpec(root=root, env={"WORD": "said"}, workdir="/srv/work", limits=Limits(pids=64))
    async with DockerDriver(home=tmp_path) as driver:
        async with driver.start(spec) as box:
            assert isinstance(box, ComposeSandbox)
            assert box.services == ("web",)
            assert (await box.exec(["python3", "-c", FETCH], timeout_s=30)).stdout == b"from web\n"
            assert (await box.exec(["sh", "-c", "pwd; echo $FROM_FILE"])).stdout == b"/srv/work\nsaid\n"
            assert (await box.service("web").exec(["sh", "-c", "cat /server.py | head -c 6"])).stdout == b"import"
            assert b"serving" in await box.logs("web")
            with pytest.raises(SandboxBroken, match="there is: web"):
                box.service("db")
            slow = await box.exec(["sh", "-c", "setsid sleep 90 & sleep 91"], timeout_s=0.5)
            assert slow.timed_out
            assert await box.processes() == ()
            assert len(left_over(tmp_path)) >= 4
            await box.write("/srv/mark", b"kept")
            snapshot = await box.snapshot()
        async with driver.start(snapshot) as fork:
            assert await fork.read("/srv/mark") == b"kept"
        snapshot.close()
        assert left_over(tmp_path) == []


@needs_compose
@pytest.mark.slow
async def test_service_that_never_gets_healthy(tmp_path: Path) -> None:
    root = Root(kind="compose", path=_write(tmp_path, probe="raise SystemExit(1)"))
    async with DockerDriver(home=tmp_path) as driver:
        with pytest.raises(SandboxStartError, match="web is unhealthy"):
            async with driver.start(SandboxSpec(root=root, env={"WORD": ""})):
                raise AssertionError("started")
        assert left_over(tmp_path) == []


@needs_compose
async def test_service_that_does_not_build(tmp_path: Path) -> None:
    path = _write(tmp_path)
    (tmp_path / "web/Dockerfile").write_text(f"FROM debian:bookworm\nRUN exit 9 # {tmp_path}\n")
    async with DockerDriver(home=tmp_path) as driver:
        with pytest.raises(BuildError, match="RUN exit 9"):
            async with driver.start(SandboxSpec(root=Root(kind="compose", path=path), env={"WORD": ""})):
                raise AssertionError("started")
        assert left_over(tmp_path) == []
        everything = await asyncio.to_thread(ask, driver.address, "GET", "/containers/json", all=1)
        assert not [row for row in everything if str(tmp_path) in row["Command"]]


def test_file_is_made_ours() -> None:
    document = {"version": "3", "services": {"main": {"build": "."}, "db": {"image": "x", "labels": ["a=b"]}}}
    made = rewrite(document, SandboxSpec(), service="main", tags={"t": "1"}, source="f", image=None)
    assert made["services"]["db"]["labels"] == {"a": "b", "t": "1"}
    assert made["services"]["main"]["build"] == {"context": ".", "labels": {"t": "1"}}
    assert made["networks"] == {"default": {"labels": {"t": "1"}, "internal": True}}
    assert "version" not in made


@pytest.mark.parametrize("key", ["privileged", "network_mode", "pid"])
def test_file_that_reaches_out_is_refused(key: str) -> None:
    document = {"services": {"main": {"image": "x", key: "host"}}}
    with pytest.raises(ImageError, match=key):
        rewrite(document, SandboxSpec(), service="main", tags={}, source="f", image=None)


def test_file_without_the_service() -> None:
    with pytest.raises(ImageError, match="there is: client"):
        rewrite({"services": {"client": {}}}, SandboxSpec(), service="main", tags={}, source="f", image=None)
