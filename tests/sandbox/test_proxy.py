"""Where the proxy of a sandbox lets it go."""

from __future__ import annotations

import pytest

from termarena.sandbox.proxy import is_allowed, is_public


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
