"""Where an engine listens, and how to reach it: a Unix socket, TCP with or without TLS, or a command over ssh."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal
from urllib.parse import urlsplit

from termarena.core.errors import EngineError, UsageError

__all__ = ["Address", "Dialled", "dial", "find_address", "parse_address", "tls_context"]

CONNECT_TIMEOUT_S: Final = 20.0
END_TIMEOUT_S: Final = 5.0
KEEPALIVE_S: Final = 30
"""After so much silence a far engine's machine is asked for a sign of life, as Docker's own client does."""
PLAIN_PORT: Final = 2375
TLS_PORT: Final = 2376
ADVICE: Final = "start a Docker or Podman engine and see that you may use it: termarena doctor --docker"


@dataclass(frozen=True, slots=True)
class Address:
    """One engine."""

    scheme: Literal["unix", "tcp", "tls", "ssh"]
    host: str
    """The socket's path for `unix`; `name` or `user@name` for `ssh`."""
    port: int | None = None
    certificates: Path | None = None
    """`tls`: a folder with `ca.pem`, and `cert.pem` and `key.pem` where the engine asks for them."""
    ssh_options: tuple[str, ...] = ()
    """Words for `ssh` before the host, such as `-F FILE`."""

    def __str__(self) -> str:
        """As DOCKER_HOST has it."""
        scheme = "tcp" if self.scheme == "tls" else self.scheme
        return f"{scheme}://{self.host}" + (f":{self.port}" if self.port else "")


def parse_address(text: str, *, certificates: Path | None = None, ssh_options: tuple[str, ...] = ()) -> Address:
    """Read what DOCKER_HOST holds; `certificates` make a `tcp://` address one with TLS. Raises `UsageError`."""
    scheme, found, rest = text.partition("://")
    if found and scheme == "unix" and rest.startswith("/"):
        return Address("unix", rest)
    try:
        url = urlsplit(text)
        port, host = url.port, url.hostname
    except ValueError:
        host = port = None
    if host and scheme in ("tcp", "http", "https"):
        if certificates is not None or scheme == "https":
            return Address("tls", host, port or TLS_PORT, certificates)
        return Address("tcp", host, port or PLAIN_PORT)
    if host and scheme == "ssh":
        name = f"{url.username}@{host}" if url.username else host
        return Address("ssh", name, port, ssh_options=ssh_options)
    raise UsageError(
        f"{text!r} is no address of an engine", hint="use unix:///path, tcp://host:port or ssh://user@host"
    )


def find_address() -> Address:
    """What DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say, else the first usual socket that is there."""
    named = os.environ.get("DOCKER_HOST")
    if named:
        wants_tls = bool(os.environ.get("DOCKER_TLS_VERIFY")) or "DOCKER_CERT_PATH" in os.environ
        folder = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
        return parse_address(named, certificates=folder if wants_tls else None)
    own = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    usual = ("/var/run/docker.sock", f"{own}/docker.sock", f"{own}/podman/podman.sock", "/run/podman/podman.sock")
    return Address("unix", next((path for path in usual if os.path.exists(path)), usual[0]))  # noqa: PTH110 - never raises


@dataclass(slots=True)
class Dialled:
    """A fresh connection; for `ssh` with the process that carries it."""

    socket: socket.socket
    process: subprocess.Popen[bytes] | None = None
    complaints: IO[bytes] | None = None

    def said(self) -> str:
        """What ssh wrote to its standard error."""
        if self.complaints is None or self.complaints.closed:
            return ""
        self.complaints.seek(0)
        return self.complaints.read(2000).decode(errors="replace").strip()

    def close(self) -> None:
        """Close the socket and end the process."""
        self.socket.close()
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.complaints is not None:
            self.complaints.close()


def dial(address: Address) -> Dialled:
    """Connect; TLS, where there is any, has yet to be spoken. Raises `EngineError`."""
    try:
        if address.scheme == "ssh":
            return _dial_ssh(address)
        if address.scheme != "unix":
            return Dialled(_dial_tcp(address))
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # An engine that accepts nothing any more fills its queue, and then a connection waits.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(CONNECT_TIMEOUT_S), 0))
            opened.connect(address.host)
        except BaseException:
            opened.close()
            raise
        return Dialled(opened)
    except OSError as error:
        raise EngineError(str(address), error.strerror or str(error), hint=ADVICE) from error


def _dial_tcp(address: Address) -> socket.socket:
    opened = socket.create_connection((address.host, address.port), timeout=CONNECT_TIMEOUT_S)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 3)
    return opened


def _dial_ssh(address: Address) -> Dialled:
    ours, theirs = socket.socketpair()
    port = ["-p", str(address.port)] if address.port else []
    command = ["ssh", "-T", "-o", "BatchMode=yes", *address.ssh_options, *port, "--", address.host]
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - the connection owns it
    try:
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - the user's own ssh; the address is one word
                [*command, "docker", "system", "dial-stdio"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=complaints,
            )
    except BaseException:
        ours.close()
        complaints.close()
        raise
    return Dialled(ours, process, complaints)


def tls_context(address: Address) -> ssl.SSLContext:
    """The certificates of the address's folder; raises `EngineError` where they cannot be read."""
    folder = address.certificates
    try:
        authority = folder / "ca.pem" if folder is not None else None
        context = ssl.create_default_context(cafile=str(authority) if authority and authority.exists() else None)
        if folder is not None and (folder / "cert.pem").exists():
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    except (OSError, ssl.SSLError) as error:
        raise EngineError(str(address), f"certificates in {folder}: {error}", hint="see DOCKER_CERT_PATH") from error
    return context
