"""The way out of a sandbox: an HTTP proxy in the harness that accepts on a socket of the sandbox's loopback.

The sandbox has no route of its own. `allowlist` and `model_only` permit the named hosts only; `public` permits
everything but addresses that would reach this machine itself or its cloud's metadata service. What is asked of the
listener itself, and not of a host through it, goes to the network's gateway, where there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from termarena.sandbox.spec import PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from termarena.sandbox.spec import Network

    Inside = Callable[[str, int], Awaitable[socket.socket | None]]
    _ServeOne = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

__all__ = ["HEAD_LIMIT", "Inside", "Proxy", "RefusedError", "accepting", "split_address"]

HEAD_LIMIT: Final = 64 << 10
HEAD_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 20.0
CHUNK: Final = 64 << 10
AT_ONCE: Final = 256
"""Connections of one sandbox. Each costs the harness two open files, which all its sandboxes share."""
FULL: Final = b"HTTP/1.1 503 Refused\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
HOP_HEADERS: Final = (b"proxy-connection:", b"proxy-authorization:", b"connection:", b"keep-alive:")


class RefusedError(Exception):
    """A request that the proxy does not serve; `status` is what the client is told."""

    def __init__(self, status: int, reason: str) -> None:
        """`reason` is one line for the client."""
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Proxy:
    """One sandbox's proxy; `refused` collects the hosts that were asked for in vain."""

    def __init__(self, network: Network, *, inside: Inside | None = None) -> None:
        """Serves nothing yet. `inside` connects to what is the sandbox's own, and has None for any other host."""
        self.network = network
        self.inside = inside
        self.refused: list[str] = []

    @staticmethod
    def environment(port: int, *, direct: Iterable[str] = ()) -> dict[str, str]:
        """The variables by which programs find the proxy; the names in `direct` are not to be asked of it."""
        address = f"http://127.0.0.1:{port}"
        found = {}
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            found[name] = found[name.upper()] = address
        found["no_proxy"] = found["NO_PROXY"] = ",".join(("localhost", "127.0.0.1", "::1", *direct))
        return found

    @asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[None]:
        """Accept on the listener, which is closed in the end, with every connection."""
        async with accepting(listener, self._serve_one):
            yield

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_TIMEOUT_S)
            await self._answer(head, reader, writer)
        except RefusedError as refused:
            body = f"termarena: {refused.reason}\n".encode()
            writer.write(
                b"HTTP/1.1 %d Refused\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                % (refused.status, len(body), body)
            )
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # The client or the server broke off or spoke something else: the connection closes, as it would directly.
            pass
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, _, headers = head.partition(b"\r\n")
        method, target, version = line.split(b" ", 2)
        if target.startswith(b"/") and self.network.gateway is not None:
            upstream = await _open(*split_address(self.network.gateway, 80))
            upstream.writer.write(head)
        elif method == b"CONNECT":
            host, port = split_address(target.decode("ascii"), 443)
            upstream = await self._connect(host, port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            url = urlsplit(target.decode("ascii"))
            if url.scheme != "http" or not url.hostname:
                raise RefusedError(400, "this is a proxy: ask with a full http:// address, or CONNECT")
            upstream = await self._connect(url.hostname, url.port or 80)
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            upstream.writer.write(b"%b %b %b\r\n" % (method, path.encode("ascii"), version))
            upstream.writer.write(_end_to_end(headers) + b"Connection: close\r\n\r\n")
        await _relay(_Stream(reader, writer), upstream)

    async def _connect(self, host: str, port: int) -> _Stream:
        """Connect to the very address that was judged; raises `RefusedError`."""
        gateway = self.network.gateway
        if gateway is not None and port == PROXY_PORT and host in ("127.0.0.1", "localhost"):
            # Some clients ask a proxy even for what lies on loopback, whatever no_proxy says.
            return await _open(*split_address(gateway, 80))
        if self.inside is not None and (own := await self.inside(host, port)) is not None:
            return _Stream(*await asyncio.open_connection(sock=own))
        if self.network.mode != "public" and not is_allowed(host, port, self.network.allowed_hosts):
            self.refused.append(f"{host}:{port}")
            raise RefusedError(403, f"{host}:{port} is not among this sandbox's allowed hosts")
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RefusedError(502, f"{host} cannot be resolved: {error.strerror}") from error
        addresses = [str(row[4][0]) for row in found]
        if self.network.mode == "public":
            addresses = [address for address in addresses if is_public(address)]
            if not addresses:
                self.refused.append(f"{host}:{port}")
                raise RefusedError(403, f"{host} is an address of the host machine or link-local")
        for address in addresses:
            with contextlib.suppress(RefusedError):
                return await _open(address, port)
        raise RefusedError(502, f"{host}:{port} does not answer")


@asynccontextmanager
async def accepting(listener: socket.socket, serve_one: _ServeOne) -> AsyncIterator[None]:
    """Serve every connection of the listener, which is closed in the end, with all of them.

    One beyond `AT_ONCE` is told to come again, and closed.
    """
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(tasks) >= AT_ONCE:
            writer.write(FULL)
            writer.close()
            return
        task = asyncio.create_task(serve_one(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # One that is cancelled before its first step closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    listener.settimeout(0)
    server = await asyncio.start_server(accept, sock=listener, limit=HEAD_LIMIT)
    try:
        yield
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


class _Stream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer


async def _open(address: str, port: int) -> _Stream:
    """Raises `RefusedError`."""
    try:
        return _Stream(*await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_TIMEOUT_S))
    except (OSError, TimeoutError) as error:
        raise RefusedError(502, f"{address}:{port} does not answer") from error


def is_allowed(host: str, port: int, allowed: tuple[str, ...]) -> bool:
    """Whether an entry names the host, exactly or as `*.domain`, on this port or any."""
    host = host.lower().rstrip(".")
    for entry in allowed:
        name, entry_port = split_address(entry.lower(), port)
        if entry_port == port and (host == name or (name.startswith("*.") and host.endswith(name[1:]))):
            return True
    return False


def is_public(address: str) -> bool:
    """Whether an address is neither this machine's loopback nor link-local, where clouds keep their credentials."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified or parsed.is_multicast)


def split_address(text: str, default_port: int) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[v6]` or `[v6]:port`; raises `ValueError` for a port that is none."""
    host, _, port = text.rpartition(":") if text.count(":") == 1 or text.startswith("[") else (text, "", "")
    if text.startswith("[") and text.endswith("]"):
        host, port = text, ""
    return host.strip("[]"), int(port) if port else default_port


def _end_to_end(headers: bytes) -> bytes:
    lines = [line for line in headers.split(b"\r\n") if line and not line.lower().startswith(HOP_HEADERS)]
    return b"".join(line + b"\r\n" for line in lines)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK):
            sink.write(chunk)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


async def _relay(client: _Stream, upstream: _Stream) -> None:
    """Carry bytes both ways until the server has closed; a client that only stopped sending still gets its answer."""
    sending = asyncio.create_task(_pump(client.reader, upstream.writer))
    try:
        await _pump(upstream.reader, client.writer)
    finally:
        sending.cancel()
        # Before anything is awaited: a relay that is cancelled here must not leave it open.
        upstream.writer.close()
        await asyncio.gather(sending, return_exceptions=True)
        with contextlib.suppress(OSError):
            await upstream.writer.wait_closed()
