"""Where the proxy of a sandbox lets it go."""

from __future__ import annotations

import asyncio
import socket

import pytest

from termarena.sandbox.proxy import AT_ONCE, Proxy, is_allowed, is_public
from termarena.sandbox.spec import Network


@pytest.mark.parametrize(
    ("host", "port", "allowed", "expected"),
    [
        ("example.com", 443, ("example.com",), True),
        ("EXAMPLE.com.", 443, ("example.com",), True),
        ("example.com", 80, ("example.com:443",), False),
        ("a.example.com", 443, ("*.example.com",), True),
        ("example.com", 443, ("*.example.com",), False),
        ("badexample.com", 443, ("*.example.com", "example.com"), False),
        ("example.com.evil.org", 443, ("example.com",), False),
        ("example.com", 443, (), False),
    ],
)
def test_allowed_hosts(host: str, port: int, allowed: tuple[str, ...], *, expected: bool) -> None:
    assert is_allowed(host, port, allowed) is expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [("1.1.1.1", True), ("10.0.0.1", True), ("127.8.8.8", False), ("169.254.169.254", False), ("0.0.0.0", False),  # noqa: S104 - refused here
     ("::1", False), ("fe80::1%eth0", False), ("::ffff:127.0.0.1", False), ("2606:4700::1111", True)],
)  # fmt: skip
def test_public_addresses(address: str, *, expected: bool) -> None:
    assert is_public(address) is expected


async def test_a_sandbox_that_opens_connections_without_end_has_so_many_and_no_more() -> None:
    """The harness's open files are shared: what one sandbox takes, the others have not."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    async with asyncio.timeout(60), Proxy(Network(mode="allowlist", allowed_hosts=("a",))).serve(listener):
        held = [await asyncio.open_connection(*address) for _ in range(AT_ONCE)]
        for _ in range(300):
            reader, writer = await asyncio.open_connection(*address)
            assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
            writer.close()
        for reader, writer in held:
            writer.write(b"CONNECT b:443 HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
            writer.close()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"CONNECT b:443 HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
        writer.close()
