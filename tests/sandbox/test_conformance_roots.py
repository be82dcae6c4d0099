"""Root file systems and networks: what every driver promises about where a sandbox begins and what it can reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from sandbox.support import out, sh
from termarena.core.errors import ImageError
from termarena.sandbox import MODEL_URL, Driver, Mount, Network, Root, Sandbox, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_folder_root(driver: Driver, rootfs: Path) -> None:
    async with driver.start(SandboxSpec(root=Root(kind="folder", path=rootfs))) as box:
        assert await out(box, "ls /; cat /etc/motd; echo >> /etc/motd; rm /bin/mv; cat /etc/hosts") != ""
        assert (await box.diff()).of("removed") == ("/bin/mv",)
        assert (await box.diff()).of("modified") == ("/etc/motd",)
    assert (rootfs / "etc/motd").read_text() == "welcome\n"
    assert (rootfs / "bin/mv").exists()


async def test_sandboxes_do_not_see_each_other(driver: Driver, rootfs: Path) -> None:
    spec = SandboxSpec(root=Root(kind="folder", path=rootfs))
    async with driver.start(spec) as first, driver.start(spec) as second:
        await sh(first, "echo mine > /etc/motd; sleep 90 >/dev/null 2>&1 &")
        assert await out(second, "cat /etc/motd") == "welcome"
        assert await second.processes() == ()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
async def test_archive_root(driver: Driver, rootfs: Path, tmp_path: Path, mode: Literal["w", "w:gz", "w:xz"]) -> None:
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, mode) as out_file:
        out_file.add(rootfs, ".")
    async with driver.start(SandboxSpec(root=Root(kind="archive", path=archive))) as box:
        assert await out(box, "cat /etc/motd; echo x > /bin/new; id -u") == "welcome\n0"


async def test_fork_of_an_archive_root(driver: Driver, rootfs: Path) -> None:
    async with driver.start(SandboxSpec(root=Root(kind="folder", path=rootfs))) as box:
        await sh(box, "rm -r /home/alice; echo x > /etc/new")
        snapshot = await box.snapshot()
        async with driver.start(snapshot) as fork:
            assert await out(fork, "ls /home; cat /etc/new") == "x"
        snapshot.close()


@pytest.mark.parametrize("kind", ["folder", "archive"])
async def test_root_that_does_not_exist(driver: Driver, tmp_path: Path, kind: str) -> None:
    spec = SandboxSpec.model_validate({"root": {"kind": kind, "path": tmp_path / "missing"}})
    with pytest.raises(ImageError, match="No such file"):
        async with driver.start(spec):
            raise AssertionError("started")


async def test_root_that_is_none(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for spec in (
        SandboxSpec(root=Root(kind="folder", path=tmp_path)),
        SandboxSpec(root=Root(kind="folder", path=tmp_path / "file")),
        SandboxSpec(root=Root(kind="archive", path=tmp_path / "file")),
    ):
        with pytest.raises(ImageError):
            async with driver.start(spec):
                raise AssertionError("started")
    assert not [record for record in driver.list() if record.is_alive]


async def test_list_shows_live_sandboxes(driver: Driver) -> None:
    async with driver.start(SandboxSpec()) as box:
        assert [record.id for record in driver.list() if record.is_alive] == [box.id]
        assert driver.sweep() == 0
    assert driver.list() == ()


async def test_loopback_works(box: Sandbox) -> None:
    script = (
        "import socket, threading\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "server.accept()[0].send(b'hi')\nprint(client.recv(2).decode())\n"
    )
    assert (await box.exec(["/usr/bin/python3", "-c", script])).stdout == b"hi\n"


@contextlib.asynccontextmanager
async def _web_server() -> AsyncIterator[int]:
    """A server on the host that answers with its name."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nfrom host")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


FETCH = (
    "import sys, urllib.request, urllib.error\n"
    "try: print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())\n"
    "except urllib.error.HTTPError as error: print(error.code, error.read().decode().strip())\n"
    "except OSError as error: print('failed', error)\n"
)


async def _fetch(box: Sandbox, url: str, *, env: dict[str, str] | None = None) -> str:
    result = await box.exec(["/usr/bin/python3", "-c", FETCH, url], env=env, timeout_s=20)
    return result.stdout.decode().strip()


async def test_network_none(box: Sandbox) -> None:
    async with _web_server() as port:
        assert (await _fetch(box, f"http://127.0.0.1:{port}/")).startswith("failed")
        addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        for address in [*addresses, "169.254.169.254", "1.1.1.1"]:
            assert (await _fetch(box, f"http://{address}:{port}/")).startswith("failed")
    assert await out(box, "grep -c : /proc/net/dev; wc -l < /proc/net/route") == "1\n1"


@pytest.mark.parametrize("mode", ["allowlist", "model_only"])
async def test_network_of_named_hosts(driver: Driver, mode: str) -> None:
    async with _web_server() as port, _web_server() as other:
        network = Network.model_validate({"mode": mode, "allowed_hosts": [f"localhost:{port}"]})
        async with driver.start(SandboxSpec(network=network)) as box:
            always = {"no_proxy": "", "NO_PROXY": ""}
            assert await _fetch(box, f"http://localhost:{port}/", env=always) == "from host"
            assert (await _fetch(box, f"http://localhost:{other}/", env=always)).startswith("403")
            assert (await _fetch(box, f"http://127.0.0.1:{port}/", env=always)).startswith("403")
            assert (await _fetch(box, f"http://127.0.0.1:{port}/")).startswith("failed")


async def test_network_connect_is_checked_too(driver: Driver) -> None:
    script = (
        "import socket, sys\n"
        "for host in sys.argv[1:]:\n"
        " s = socket.create_connection(('127.0.0.1', 3128))\n"
        " s.sendall(f'CONNECT {host} HTTP/1.1\\r\\n\\r\\n'.encode())\n"
        " head = s.recv(4096)\n"
        " print(head.split()[1].decode())\n"
        " if not head.startswith(b'HTTP/1.1 200'): continue\n"
        " s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n"
        " print(s.makefile('rb').read()[-9:].decode())\n"
    )
    async with _web_server() as port:
        network = Network(mode="allowlist", allowed_hosts=(f"localhost:{port}",))
        async with driver.start(SandboxSpec(network=network)) as box:
            result = await box.exec(
                ["/usr/bin/python3", "-c", script, f"localhost:{port}", f"127.0.0.1:{port}", "localhost:1"]
            )
    assert result.stdout == b"200\nfrom host\n403\n403\n"


async def test_a_gateway_is_the_only_way_out(driver: Driver) -> None:
    async with _web_server() as port, _web_server() as other:
        network = Network().with_gateway(f"127.0.0.1:{port}")
        async with driver.start(SandboxSpec(network=network)) as box:
            assert await _fetch(box, MODEL_URL) == "from host"
            assert await _fetch(box, MODEL_URL, env={"no_proxy": "", "NO_PROXY": ""}) == "from host"
            for address in (f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{other}/"):
                assert (await _fetch(box, address)).startswith("failed")
                assert (await _fetch(box, address, env={"no_proxy": "", "NO_PROXY": ""})).startswith("403")


async def test_a_gateway_beside_named_hosts(driver: Driver) -> None:
    async with _web_server() as port, _web_server() as other:
        network = Network(mode="allowlist", allowed_hosts=(f"localhost:{other}",)).with_gateway(f"127.0.0.1:{port}")
        async with driver.start(SandboxSpec(network=network)) as box:
            assert await _fetch(box, MODEL_URL) == "from host"
            named = f"http://localhost:{other}/"
            assert await _fetch(box, named, env={"no_proxy": "", "NO_PROXY": ""}) == "from host"


async def test_a_gateway_that_is_gone(driver: Driver) -> None:
    async with _web_server() as port:
        network = Network().with_gateway(f"127.0.0.1:{port}")
    async with driver.start(SandboxSpec(network=network)) as box:
        assert (await _fetch(box, MODEL_URL)).startswith("502")


async def test_a_mounted_folder_is_seen_and_not_changed(driver: Driver, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "tool").write_text("#!/bin/sh\necho works\n")
    (shown / "tool").chmod(0o755)
    for folder in (*tmp_path.parents, tmp_path, shown):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    spec = SandboxSpec(mounts=(Mount(source=shown, target="/opt/shown/here"),))
    async with driver.start(spec) as box:
        assert await out(box, "/opt/shown/here/tool") == "works"
        assert (await sh(box, "echo x >>/opt/shown/here/tool || touch /opt/shown/here/more")).exit_status != 0
        assert not [change for change in (await box.diff()).changes if change.path.startswith("/opt/shown/here/")]
        snapshot = await box.snapshot()
        async with driver.start(snapshot, spec=SandboxSpec(root=box.spec.root)) as fork:
            assert (await sh(fork, "ls /opt/shown/here/tool")).exit_status != 0
        snapshot.close()
    assert (shown / "tool").read_text() == "#!/bin/sh\necho works\n"


def test_a_network_keeps_what_it_had_without_its_gateway() -> None:
    assert Network().with_gateway("127.0.0.1:1").mode == "model_only"
    assert Network().with_gateway("127.0.0.1:1").without_gateway() == Network()
    public = Network(mode="public")
    assert public.with_gateway("127.0.0.1:1").without_gateway() == public
    with pytest.raises(ValueError, match="none takes no gateway"):
        Network(gateway="127.0.0.1:1")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "169.254.169.254", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "2130706433"],  # noqa: S104 - refused here
)
async def test_network_public_spares_the_host(driver: Driver, host: str) -> None:
    async with _web_server() as port, driver.start(SandboxSpec(network=Network(mode="public"))) as box:
        answer = await _fetch(box, f"http://{host}:{port}/", env={"no_proxy": "", "NO_PROXY": ""})
    assert answer.startswith(("403", "502"))
