"""Where a repository has moved: its server is asked as git asks it, at the one address that was looked up."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import suppress
from typing import Final
from urllib.parse import urljoin, urlsplit

__all__ = ["MOST_HOPS", "moved_to"]

MOST_HOPS: Final = 5
TIMEOUT_S: Final = 30
ASKED: Final = "/info/refs?service=git-upload-pack"
_MOVED: Final = (301, 302, 303, 307, 308)


def moved_to(url: str, pinned: str) -> str | None:
    """Where the server says that the repository is now; None where it says nothing, or cannot be asked.

    `pinned` is HOST:PORT:ADDRESS. Raises `ValueError` for a place where no repository can be: another path, another
    protocol, or one that is not encrypted any more.
    """
    location = _location(url.rstrip("/"), pinned)
    if location is None:
        return None
    target = urljoin(url.rstrip("/") + ASKED, location)
    if not target.endswith(ASKED) or not target.startswith(("https://", "http://")):
        raise ValueError(f"it leads to {target[:200]}, where no repository is")
    if url.startswith("https://") and not target.startswith("https://"):
        raise ValueError(f"it leads from https to {target[:200]}")
    return target.removesuffix(ASKED)


def _location(url: str, pinned: str) -> str | None:
    host, port, address = pinned.split(":", 2)
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    # A timeout counts from byte to byte: a server that sends one now and then would be listened to for ever.
    ending = threading.Timer(TIMEOUT_S, _hang_up, (connection,))
    try:
        connection.sock = socket.create_connection((address.strip("[]"), int(port)), timeout=TIMEOUT_S)
        ending.start()
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(
                connection.sock, server_hostname=host, do_handshake_on_connect=False
            )
            connection.sock.do_handshake()
        connection.request("GET", parts.path + ASKED, headers={"Host": parts.netloc, "User-Agent": "git/2.0"})
        answer = connection.getresponse()
        return answer.getheader("Location") if answer.status in _MOVED else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        ending.cancel()
        connection.close()


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
