"""Addresses as they may be written down: without users, passwords, tokens and signatures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

if TYPE_CHECKING:
    from termarena.core.scrub import Scrubber

__all__ = ["bare_address"]

HIDDEN: Final = "hidden"
_PORTS: Final = {"http": 80, "https": 443}
_SECRET: Final = re.compile(
    r"token|key(?!word)|secret|passw|credential|auth(?!or)|signature|^sig$|^x-amz-|^x-goog-|^se$|^sp$|^skoid$|session",
    re.IGNORECASE,
)


def bare_address(url: str, scrubber: Scrubber) -> str:
    """The address without what may be a secret: the same for a request and for its replay.

    Values of queries whose names say so become `hidden`, and so does everything that the scrubber knows. Raises
    `ValueError` for what is no address of http or https.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("no address of http or https")
    query = "&".join(_bare_pair(pair) for pair in parts.query.split("&")) if parts.query else ""
    bare = SplitResult(parts.scheme, _place(parts), parts.path or "/", query, "")
    return scrubber.scrub(urlunsplit(bare)).replace(" ", "-")


def _place(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, _PORTS[parts.scheme]) else f"{host}:{parts.port}"


def _bare_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={HIDDEN}" if equals and _SECRET.search(name) else pair
