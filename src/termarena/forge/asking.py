"""Asking servers of others: on the one way there that was looked at, without following where they lead."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import threading
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from termarena.core.addresses import AddressPolicy
from termarena.core.errors import AddressRefused
from termarena.forge.hosts import REFS, is_private

__all__ = ["MOST_HOPS", "Answer", "Way", "ask", "moved_to", "way_to"]

MOST_HOPS: Final = 5
TIMEOUT_S: Final = 30
PROXY_PORT: Final = 1080
"""What curl takes where a proxy's address has no port."""
_MOVED: Final = (301, 302, 303, 307, 308)


class Way(NamedTuple):
    """How a server is reached: at the one address that was looked up, or through a proxy of the environment."""

    host: str
    port: int
    address: str | None
    """None where only the proxy can look the name up."""
    proxy: str | None = None

    @property
    def pinned(self) -> str:
        """The address as curl is told it."""
        return f"{self.host}:{self.port}:{f'[{self.address}]' if ':' in (self.address or '') else self.address}"


class Answer(NamedTuple):
    """What a server says to one question."""

    status: int
    location: str | None = None


def way_to(url: str) -> Way:
    """The one way to the host of an address: no address of this machine or of a network around it.

    A name that cannot be looked up here is left to the proxy of the environment, if there is one, unless it is a name
    that private networks use. Raises `AddressRefused`, `OSError` where the host cannot be found, `ValueError` for what
    is no address.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxy = _proxy_for(parts.scheme, host)
    try:
        found = [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError:
        if proxy is None:
            raise
        if is_private(host):
            raise AddressRefused(host, why="it is a name of private networks") from None
        return Way(host, port, None, proxy)
    return Way(host, port, str(AddressPolicy(allows_loopback=False).first_of(host, found)), proxy)


def _proxy_for(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for a host (`https_proxy`, `no_proxy` …)."""
    if proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all")


def moved_to(url: str, way: Way) -> str | None:
    """Where the server says that the repository is now; None where it says nothing, or cannot be asked.

    Raises `ValueError` for a place where no repository can be: another path, another protocol, or one that is not
    encrypted any more.
    """
    asked = url.rstrip("/") + REFS
    try:
        answer = ask(asked, way)
    except (OSError, http.client.HTTPException):
        return None
    if answer.location is None:
        return None
    target = urljoin(asked, answer.location)
    if not target.endswith(REFS) or not target.startswith(("https://", "http://")):
        raise ValueError(f"it leads to {target[:200]}, where no repository is")
    if url.startswith("https://") and not target.startswith("https://"):
        raise ValueError(f"it leads from https to {target[:200]}")
    return target.removesuffix(REFS)


def ask(url: str, way: Way, *, method: str = "GET") -> Answer:
    """Ask once; the answer's own content is not read. Raises `OSError` and `HTTPException`."""
    parts = urlsplit(url)
    headers = {"Host": parts.netloc.rpartition("@")[2], "User-Agent": "git/2.0"}
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(way)
    try:
        if way.proxy is not None and parts.scheme == "https":
            connection.set_tunnel(way.host, way.port, headers=_authorization(way.proxy))
        elif way.proxy is not None:
            path = url
            headers |= _authorization(way.proxy)
        answer = _answered(
            connection, (method, path, headers), secured_for=way.host if parts.scheme == "https" else None
        )
    finally:
        connection.close()
    return Answer(answer.status, answer.getheader("Location") if answer.status in _MOVED else None)


def _connection(way: Way) -> http.client.HTTPConnection:
    if way.proxy is None:
        return http.client.HTTPConnection(way.address or way.host, way.port, timeout=TIMEOUT_S)
    parts = _parts_of(way.proxy)
    if parts.scheme != "http" or not parts.hostname:
        raise http.client.HTTPException("only plain HTTP proxies are asked here; git knows others")
    return http.client.HTTPConnection(parts.hostname, parts.port or PROXY_PORT, timeout=TIMEOUT_S)


def _parts_of(proxy: str) -> SplitResult:
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _authorization(proxy: str) -> dict[str, str]:
    parts = _parts_of(proxy)
    if parts.username is None:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(login.encode()).decode()}


def _answered(
    connection: http.client.HTTPConnection, question: tuple[str, str, dict[str, str]], *, secured_for: str | None
) -> http.client.HTTPResponse:
    # A timeout counts from byte to byte: a server that sends one now and then would be listened to for ever.
    ending = threading.Timer(TIMEOUT_S, _hang_up, (connection,))
    ending.start()
    try:
        connection.connect()
        if secured_for is not None:
            secured = ssl.create_default_context().wrap_socket(
                connection.sock, server_hostname=secured_for, do_handshake_on_connect=False
            )
            connection.sock = secured
            secured.do_handshake()
        method, path, headers = question
        connection.request(method, path, headers=headers)
        return connection.getresponse()
    finally:
        ending.cancel()


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, TypeError):  # it may not be connected yet
        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
