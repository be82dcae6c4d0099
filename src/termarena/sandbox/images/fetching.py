"""Files that ADD takes from an address."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import posixpath
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from termarena.core.errors import FetchError, ImageError, MissingExtra
from termarena.sandbox.fetches import open_fetches
from termarena.sandbox.images.context import Context, Picked
from termarena.sandbox.proxy import Proxy

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.spec import Fetches, Network

__all__ = ["Fetched", "fetch_file"]

TIMEOUT_S: Final = 60.0
MAX_BYTES: Final = 16 << 30
LONGEST_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that was downloaded, as something to copy."""

    context: Context
    picked: Picked
    digest: str


async def fetch_file(
    url: str, folder: Path, *, checksum: str | None, network: Network, fetches: Fetches | None = None
) -> Fetched:
    """Download into a new folder below `folder`, through what the build's commands may reach, and nothing else.

    Raises `FetchError`, `ImageError` for another checksum and for a host that is not for this build; with a recording,
    what `open_fetches` raises.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    way = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if fetches is not None:
        with contextlib.closing(listener):
            async with open_fetches(fetches, network) as session, session.proxy.serve(listener):
                trusted = ssl.create_default_context(cadata=session.certificate.decode())
                return await asyncio.to_thread(_fetch, url, folder, checksum, _Way(way, trusted))
    proxy = Proxy(network)
    async with proxy.serve(listener):
        try:
            return await asyncio.to_thread(_fetch, url, folder, checksum, _Way(way))
        except FetchError as error:
            if not proxy.refused:
                raise
            raise ImageError(url, f"the build's network does not reach {proxy.refused[-1]}", cause="task") from error


class _Way(NamedTuple):
    proxy: str
    trusted: ssl.SSLContext | None = None
    """None for this machine's own."""


def _fetch(url: str, folder: Path, checksum: str | None, way: _Way) -> Fetched:
    try:
        import httpx  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise MissingExtra("httpx", extra="images", purpose="ADD of an address") from error
    name = unquote(posixpath.basename(urlsplit(url).path)) or "download"
    if "/" in name or "\0" in name or name in (".", "..") or len(os.fsencode(name)) > LONGEST_NAME:
        raise ImageError(url, "names no file", cause="task")
    place = folder / hashlib.sha256(url.encode()).hexdigest()
    place.mkdir(exist_ok=True)
    state, size = hashlib.sha256(), 0
    try:
        with (
            httpx.Client(
                proxy=way.proxy,
                verify=way.trusted or True,
                follow_redirects=True,
                timeout=TIMEOUT_S,
                trust_env=False,
            ) as client,
            client.stream("GET", url) as answer,
            (place / name).open("wb") as out,
        ):
            answer.raise_for_status()
            for block in answer.iter_bytes():
                size += len(block)
                if size > MAX_BYTES:
                    raise FetchError(url, f"is longer than {MAX_BYTES} bytes")
                state.update(block)
                out.write(block)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchError(url, f"{type(error).__name__}: {error}", hint="check the network") from error
    digest = "sha256:" + state.hexdigest()
    if checksum is not None and checksum != digest:
        raise ImageError(url, f"is {digest}, and --checksum says {checksum}", cause="task")
    return Fetched(Context(place), Picked(name, is_folder=False), digest)
