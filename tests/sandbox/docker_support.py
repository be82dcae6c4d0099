"""What the docker tests share: small images, an engine's view of what is left, real doors to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from termarena.core.errors import EngineError
from termarena.sandbox.docker.address import Address, find_address
from termarena.sandbox.docker.sweeping import ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def left_over(home: Path) -> list[str]:
    """Everything on the engine that belongs to drivers with this home."""
    chosen = {"label": [f"termarena.home={home}"]}
    address = find_address()
    found = [f"container {row['Names']}" for row in ask(address, "GET", "/containers/json", all=1, filters=chosen)]
    found += [f"network {row['Name']}" for row in ask(address, "GET", "/networks", filters=chosen)]
    found += [f"volume {row['Name']}" for row in ask(address, "GET", "/volumes", filters=chosen).get("Volumes") or []]
    found += [f"image {row['RepoTags']}" for row in ask(address, "GET", "/images/json", filters=chosen)]
    return found


def shell_only_archive(target: Path) -> Path:
    """A root file system with a static `/bin/sh` and nothing else at all."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    with tarfile.open(target, "w") as archive:
        archive.add(busybox, "bin/sh", filter=_owned_by_root)
    return target


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    return member


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server for the length of a test."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - the test's own server
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait for a server; it ends the wait by listening or by dying."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            continue
        return
    raise AssertionError(f"the server ended with {process.returncode}")


def make_certificates(folder: Path) -> None:
    """An authority, a server and a client, by openssl."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)  # noqa: S603, S607 - fixed words

    key = ("-newkey", "rsa:2048", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
    (folder / "server.ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n")
    (folder / "client.ext").write_text("extendedKeyUsage=clientAuth\n")
    for name, out, out_key in (("server", "server.pem", "server-key.pem"), ("client", "cert.pem", "key.pem")):
        openssl("req", *key, "-keyout", out_key, "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2")
        openssl("x509", "-req", "-in", f"{name}.csr", *signing, "-out", out, "-extfile", f"{name}.ext")


@contextmanager
def tls_engine(folder: Path) -> Iterator[Address]:
    """An engine of its own data that speaks TLS and asks for a certificate."""
    make_certificates(folder)
    port = free_port()
    bridge = f"tatest{port}"
    # The engine makes sockets below its exec root, and the name of a socket has at most 107 bytes.
    short = tempfile.mkdtemp(prefix="ta-")
    command = [
        "dockerd", "--data-root", str(folder / "data"), "--exec-root", short,
        "--pidfile", str(folder / "pid"), "--host", f"tcp://127.0.0.1:{port}", "--bridge", bridge, "--iptables=false",
        "--tlsverify", "--tlscacert", str(folder / "ca.pem"),
        "--tlscert", str(folder / "server.pem"), "--tlskey", str(folder / "server-key.pem"),
    ]  # fmt: skip
    address = Address("tls", "127.0.0.1", port, folder)
    try:
        with _bridge(bridge), running(command) as process:
            _until_answering(address, process)
            yield address
    finally:
        # An engine that failed to start leaves its data folder mounted on itself.
        subprocess.run(["umount", "-l", str(folder / "data")], check=False, capture_output=True)  # noqa: S603, S607 - fixed words
        shutil.rmtree(short, ignore_errors=True)


class OwnEngine:
    """An engine of the test's own, on a socket, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The engine makes sockets below its exec root, and the name of a socket has at most 107 bytes.
        self._short = tempfile.mkdtemp(prefix="ta-")
        self._bridge = f"tatest{os.getpid() % 10**6}"
        self._process: subprocess.Popen[bytes] | None = None
        self.address = Address("unix", f"{self._short}/docker.sock")

    @contextmanager
    def opened(self) -> Iterator[OwnEngine]:
        try:
            with _bridge(self._bridge):
                self.start()
                try:
                    yield self
                finally:
                    self.stop()
        finally:
            subprocess.run(["umount", "-l", str(self._folder / "data")], check=False, capture_output=True)  # noqa: S603, S607 - fixed words
            shutil.rmtree(self._short, ignore_errors=True)

    def start(self) -> None:
        """Start it on the data it has, and wait until it answers."""
        self._process = subprocess.Popen(  # noqa: S603 - the test's own server
            [  # noqa: S607 - found by PATH, as the marker checked
                "dockerd", "--data-root", str(self._folder / "data"), "--exec-root", f"{self._short}/run",
                "--pidfile", f"{self._short}/pid", "--host", str(self.address),
                "--bridge", self._bridge, "--iptables=false",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _until_answering(self.address, self._process)

    def stop(self) -> None:
        """End it and every container of it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def import_image(self, archive: Path, name: str) -> None:
        """Make an image of a root file system."""
        words = ["docker", "--host", str(self.address), "import", str(archive), name]
        subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - fixed words


def busybox_archive(target: Path) -> Path:
    """A root file system of busybox alone, with a name for each of its tools."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()  # noqa: S603 - as found
    with tarfile.open(target, "w") as archive:
        archive.add(busybox, "bin/busybox", filter=_owned_by_root)
        for name in listed:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
    return target


def _until_answering(address: Address, process: subprocess.Popen[bytes]) -> None:
    """Wait for an engine; it ends the wait by answering or by dying."""
    while process.poll() is None:
        with contextlib.suppress(EngineError):
            ask(address, "GET", "/version")
            return
    raise AssertionError(f"the engine ended with {process.returncode}")


@contextmanager
def _bridge(name: str) -> Iterator[None]:
    """A bridge of its own: a second engine without one would remove the first one's."""
    for words in (["link", "add", name, "type", "bridge"], ["addr", "add", "198.51.100.1/24", "dev", name]):
        subprocess.run(["ip", *words], check=True)  # noqa: S603, S607 - fixed words
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)  # noqa: S603, S607 - fixed words


@contextmanager
def ssh_engine(folder: Path) -> Iterator[Address]:
    """The engine at DOCKER_HOST, through a real sshd on loopback."""
    for name in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)  # noqa: S603 - fixed words
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "authorized").chmod(0o600)
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder / 'authorized'}\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        f"MaxStartups 100\nSetEnv DOCKER_HOST={find_address()}\n"
    )
    key = (folder / "host.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")
    (folder / "ssh_config").write_text(
        f"Host *\nIdentityFile {folder / 'user'}\nIdentitiesOnly yes\nUserKnownHostsFile {folder / 'known_hosts'}\n"
    )
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # noqa: PTH103 - Debian's sshd refuses to start without it
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    with running([sshd, "-D", "-f", str(folder / "sshd_config")]) as process:
        until_listening(port, process)
        user = os.environ.get("USER", "root")
        yield Address("ssh", f"{user}@127.0.0.1", port, ssh_options=("-F", str(folder / "ssh_config")))
