"""Where a repository has moved: its server is asked as git asks it, on the one way there that was looked at."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import threading
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

__all__ = ["MOST_HOPS", "Way", "moved_to", "proxy_for"]

MOST_HOPS: Final = 5
TIMEOUT_S: Final = 30
ASKED: Final = "/info/refs?service=git-upload-pack"
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


def proxy_for(scheme: str, host: str) -> str | None:
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
    location = _location(url.rstrip("/"), way)
    if location is None:
        return None
    target = urljoin(url.rstrip("/") + ASKED, location)
    if not target.endswith(ASKED) or not target.startswith(("https://", "http://")):
        raise ValueError(f"it leads to {target[:200]}, where no repository is")
    if url.startswith("https://") and not target.startswith("https://"):
        raise ValueError(f"it leads from https to {target[:200]}")
    return target.removesuffix(ASKED)


def _location(url: str, way: Way) -> str | None:
    parts = urlsplit(url)
    headers = {"Host": parts.netloc.rpartition("@")[2], "User-Agent": "git/2.0"}
    path = parts.path + ASKED
    connection: http.client.HTTPConnection | None = None
    try:
        connection = _connection(way)
        if way.proxy is not None and parts.scheme == "https":
            connection.set_tunnel(way.host, way.port, headers=_authorization(way.proxy))
        elif way.proxy is not None:
            path = url + ASKED
            headers |= _authorization(way.proxy)
        return _asked(connection, path, headers, secured_for=way.host if parts.scheme == "https" else None)
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        if connection is not None:
            connection.close()


def _connection(way: Way) -> http.client.HTTPConnection:
    if way.proxy is None:
        return http.client.HTTPConnection(way.address or way.host, way.port, timeout=TIMEOUT_S)
    parts = urlsplit(way.proxy if "://" in way.proxy else f"http://{way.proxy}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("only plain HTTP proxies are asked here; git knows others")
    return http.client.HTTPConnection(parts.hostname, parts.port or PROXY_PORT, timeout=TIMEOUT_S)


def _authorization(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.username is None:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(login.encode()).decode()}


def _asked(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str], *, secured_for: str | None
) -> str | None:
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
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.getheader("Location") if answer.status in _MOVED else None
    finally:
        ending.cancel()


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, TypeError):  # it may not be connected yet
        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
