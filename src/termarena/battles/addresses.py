"""Which network addresses may be reached, and an HTTP client that reaches no other.

Every request is checked where it leaves, so that what a redirect or an agent card names is checked as well; the address
that was checked is the one that is connected to. Nobody leads us nearer to this machine than it is itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import httpx

from termarena.core.addresses import AddressPolicy, meant
from termarena.core.errors import AddressRefused

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from termarena.core.addresses import Address

__all__ = ["LED_BY_ANSWER", "AddressPolicy", "TooMuchSaid", "open_http"]

CONNECT_S: Final = 10.0
LARGEST_ANSWER_BYTES: Final = 16 << 20
"""Of one answer, a stream as a whole included."""
MOST_REDIRECTS: Final = 3
LED_FROM: Final = "termarena.led_from"
LED_BY_ANSWER: Final = "termarena.led_by_answer"
"""Of a request: an answer led to it, so what it repeats has been heard."""
QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
"""Linux has it, others do not."""
PLAIN: Final = "identity"
"""The only encoding: what is unpacked has no limit, a compressed answer of 16 MiB may hold many GiB."""


class TooMuchSaid(httpx.RequestError):
    """An answer that goes on beyond its limit."""


def open_http(policy: AddressPolicy, *, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """A client for agents and backends: no proxy of the environment, no answer without end, no waiting limit of its
    own but for the connection: whoever uses it has a deadline."""
    return httpx.AsyncClient(
        transport=_Guarded(policy),
        timeout=httpx.Timeout(None, connect=CONNECT_S, write=60.0, pool=60.0),
        follow_redirects=True,
        max_redirects=MOST_REDIRECTS,
        trust_env=False,
        headers={**(headers or {}), "Accept-Encoding": PLAIN},
    )


def _nearness_of(address: Address) -> int:
    """0 for public addresses, 1 for private ones, 2 for this machine's own."""
    plain = meant(address)
    return 2 if plain.is_loopback else 0 if plain.is_global else 1


@functools.cache
def _trust() -> ssl.SSLContext:
    """Whose certificates are believed; read once: it takes longer than a battle's first turn."""
    return httpx.create_ssl_context(trust_env=False)


class _Guarded(httpx.AsyncBaseTransport):
    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
        self._wire = httpx.AsyncHTTPTransport(verify=_trust(), limits=limits)
        self._first_seen: dict[str, int] = {}
        """How near each name was when it was first asked for."""
        self._connections: WeakKeyDictionary[object, socket.socket | None] = WeakKeyDictionary()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises `AddressRefused`, and what httpx raises."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise AddressRefused(str(url), why="only http and https are spoken here", hint="write http://HOST:PORT")
        address = await self._checked(url.host, url.port or (443 if url.scheme == "https" else 80))
        nearness = self._nearness(request, address)
        # A redirect's request has the extensions of the one that it answers.
        request.extensions = {**request.extensions, "sni_hostname": url.host, LED_FROM: nearness}
        request.url = url.copy_with(host=str(address))
        try:
            response = await self._wire.handle_async_request(request)
        finally:
            request.url = url
        request.extensions[LED_BY_ANSWER] = True  # of a redirect's request, as above
        if response.headers.get("content-encoding", PLAIN).strip().lower() not in ("", PLAIN):
            await response.aclose()
            raise httpx.DecodingError("the answer is compressed, which was not asked for", request=request)
        stream = response.stream
        if isinstance(stream, httpx.AsyncByteStream):
            response.stream = _Bounded(stream, request, self._connection_of(response))
        return response

    def _nearness(self, request: httpx.Request, address: Address) -> int:
        """How near the address is. Raises `AddressRefused` where a redirect leads nearer than it came from, or a name
        to a nearer address than before: whoever is far away could send us to what only this machine can reach."""
        host, nearness = request.url.host, _nearness_of(address)
        allowed = min(request.extensions.get(LED_FROM, nearness), self._first_seen.setdefault(host, nearness))
        if nearness > allowed:
            shown = host if host == str(address) else f"{host} ({address})"
            raise AddressRefused(shown, why="an agent elsewhere leads to it, and it is nearer to this machine")
        return nearness

    def _connection_of(self, response: httpx.Response) -> socket.socket | None:
        """Kept for each stream: to be asked for it takes a tenth of a millisecond."""
        stream = response.extensions.get("network_stream")
        if stream is None:
            return None
        if stream not in self._connections:
            self._connections[stream] = stream.get_extra_info("socket")
        return self._connections[stream]

    async def _checked(self, host: str, port: int) -> Address:
        """The first address of the name, if all of them may be reached."""
        if (literal := self._policy.literal(host)) is not None:
            return literal
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"{host} has no address: {error}") from error
        return self._policy.first_of(host, [str(one[4][0]) for one in found])

    async def aclose(self) -> None:
        """Close every connection."""
        await self._wire.aclose()


def _acknowledge(connection: socket.socket | None) -> None:
    """Tell the other side at once that its bytes have come; the kernel forgets it, so for every piece.

    A server that writes an answer in pieces, without TCP_NODELAY, holds the second back until the first is
    acknowledged, which the kernel puts off by 40 ms: most of a turn, and http.server is such a one.
    """
    if connection is not None and QUICKACK is not None:
        with contextlib.suppress(OSError):  # closed: nobody waits for it
            connection.setsockopt(socket.IPPROTO_TCP, QUICKACK, 1)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, request: httpx.Request, connection: socket.socket | None) -> None:
        self._stream = stream
        self._request = request
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        _acknowledge(self._connection)
        async for chunk in self._stream:
            _acknowledge(self._connection)
            seen += len(chunk)
            if seen > LARGEST_ANSWER_BYTES:
                raise TooMuchSaid(f"the answer is longer than {LARGEST_ANSWER_BYTES} bytes", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
