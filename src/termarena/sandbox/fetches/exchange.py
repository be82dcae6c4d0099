"""One request of a sandbox, and what it is answered with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from termarena.sandbox.fetches.index import FetchKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["GIT_TYPE", "NOT_RECORDABLE", "Answer", "Asked", "Source", "is_recordable", "nothing"]

GIT_TYPE: Final = "application/x-git-upload-pack-request"
NOT_RECORDABLE: Final = 501


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    url: str
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes = b""

    def key(self, bare_url: str) -> FetchKey:
        """What it is found by; `bare_url` is its address without secrets."""
        body = f"sha256:{hashlib.sha256(self.body).hexdigest()}" if self.body else ""
        return FetchKey(self.method, bare_url, self.headers.get("accept", ""), self.headers.get("range", ""), body)


def is_recordable(asked: Asked) -> bool:
    """Whether the same request gets the same answer again: what only reads, and a clone or a fetch of git."""
    if asked.method in ("GET", "HEAD"):
        return True
    return asked.method == "POST" and asked.headers.get("content-type") == GIT_TYPE


async def nothing() -> AsyncIterator[bytes]:
    """An empty body."""
    return
    yield b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = 0
    """None where it is known at the end only."""
    body: AsyncIterator[bytes] = field(default_factory=nothing)


class Source(Protocol):
    """Where answers come from: the network, or a recording."""

    async def answer(self, asked: Asked) -> Answer:
        """The answer to a request; it is one also where there is none."""

    def told(self, asked: Asked, problem: str) -> None:
        """A request that came to nothing before it could be asked."""
