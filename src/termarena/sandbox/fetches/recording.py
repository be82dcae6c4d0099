"""Answers from the network, kept as they come."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

import httpx

from termarena.core.errors import FetchError
from termarena.sandbox.fetches.addresses import bare_address
from termarena.sandbox.fetches.contents import Taking
from termarena.sandbox.fetches.exchange import NOT_RECORDABLE, Answer, is_recordable
from termarena.sandbox.fetches.index import (
    KEPT_HEADERS,
    LENGTH,
    MOST_ENTRIES,
    FetchEntry,
    FetchKey,
    merge_index,
    open_recording,
)
from termarena.sandbox.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from termarena.core.scrub import Scrubber
    from termarena.sandbox.fetches.contents import Content
    from termarena.sandbox.fetches.exchange import Asked
    from termarena.sandbox.spec import Network

__all__ = ["Recorder"]

TIMEOUT_S: Final = 60.0
MOST_BYTES: Final = 64 << 30
"""What one step or one grading may fetch."""
BAD_GATEWAY: Final = 502
NOT_SENT: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""Of this connection only, or what would let a server answer that nothing has changed."""


class Recorder:
    """Asks the network, as far as the sandbox's policy lets it, and keeps every answer below a folder."""

    def __init__(self, folder: Path, network: Network, scrubber: Scrubber, *, most_bytes: int = MOST_BYTES) -> None:
        """Nothing is opened yet. `most_bytes`: of all answers together."""
        self._most_bytes = most_bytes
        self._taken_bytes = 0
        self._folder = folder
        self._network = network
        self._scrubber = scrubber
        self._entries: dict[FetchKey, FetchEntry] = {}
        self._stack = AsyncExitStack()
        self._client: httpx.AsyncClient | None = None
        self._failed: Exception | None = None

    async def __aenter__(self) -> Self:
        """Raises `FetchError` for a folder that cannot be written, `TaskFormatError` for one that is a link, or has
        links in the places of ours."""
        open_recording(self._folder)
        listener = socket.create_server(("127.0.0.1", 0))
        way = f"http://127.0.0.1:{listener.getsockname()[1]}"
        await self._stack.enter_async_context(Proxy(self._network).serve(listener))
        trusted = await asyncio.to_thread(ssl.create_default_context)
        client = httpx.AsyncClient(proxy=way, verify=trusted, trust_env=False, timeout=TIMEOUT_S)
        self._client = await self._stack.enter_async_context(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write the index. Raises `OSError`."""
        await self._stack.aclose()
        if self._entries:
            await asyncio.to_thread(merge_index, self._folder, self._entries.values())

    @property
    def fault(self) -> Exception | None:
        """A disk that took no more, or what no index can hold; all else that goes wrong is an answer, and recorded."""
        return self._failed

    def told(self, asked: Asked, problem: str) -> None:
        """See `Source`."""
        self._keep(asked, BAD_GATEWAY, {}, self._nothing(), problem=problem)

    async def answer(self, asked: Asked) -> Answer:
        """See `Source`."""
        if not is_recordable(asked):
            return self._refuse(asked, NOT_RECORDABLE, f"{asked.method} is not recorded, and was not sent")
        if self._client is None:
            raise ValueError("a recorder answers while it is open")
        headers = {name: value for name, value in asked.headers.items() if name not in NOT_SENT}
        headers["accept-encoding"] = "identity"
        if asked.url.startswith("http:"):
            # The proxy ends such a connection after one answer, which the server's own words need not say: a client
            # that keeps it may ask again on a connection that is just being ended.
            headers["connection"] = "close"
        try:
            request = self._client.build_request(asked.method, asked.url, headers=headers, content=asked.body or None)
            got = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return self._refuse(asked, BAD_GATEWAY, f"not reached: {type(error).__name__}: {error}")
        kept = {name: value for name, value in got.headers.items() if name in KEPT_HEADERS}
        length = got.headers.get(LENGTH)
        entered = {**kept, LENGTH: length} if length and asked.method == "HEAD" else kept
        return Answer(got.status_code, kept, int(length) if length else None, self._through(asked, got, entered))

    async def _through(self, asked: Asked, got: httpx.Response, kept: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The body; its last part only when all of it is on the disk and entered."""
        held = b""
        taking = Taking(self._folder)
        try:
            async for chunk in got.aiter_raw():
                self._spend(len(chunk))
                await asyncio.to_thread(taking.take, chunk)
                if held:
                    yield held
                held = chunk
            self._keep(asked, got.status_code, kept, await asyncio.to_thread(taking.finish))
        except httpx.HTTPError as error:
            self.told(asked, f"it broke off: {type(error).__name__}: {error}")
            raise ConnectionError("the server broke off") from error
        except OSError as error:
            self._failed = error
            raise
        finally:
            taking.close()
            await got.aclose()
        if held:
            yield held

    def _spend(self, size_bytes: int) -> None:
        """Raises `FetchError` when all answers together are too long: a step could fill the disk by asking on."""
        self._taken_bytes += size_bytes
        if self._taken_bytes > self._most_bytes:
            raise FetchError(str(self._folder), f"more than {self._most_bytes} bytes were fetched in one step")

    def _refuse(self, asked: Asked, status: int, problem: str) -> Answer:
        self._keep(asked, status, {}, self._nothing(), problem=problem)
        return Answer(status)

    def _nothing(self) -> Content:
        taking = Taking(self._folder)
        try:
            return taking.finish()
        finally:
            taking.close()

    def _keep(
        self, asked: Asked, status: int, headers: Mapping[str, str], content: Content, *, problem: str = ""
    ) -> None:
        try:
            entry = self._entry(asked, status, headers, content, problem)
        except ValueError as error:
            self._failed = FetchError(asked.url.partition("?")[0], f"it cannot be entered: {error}")
            raise
        if len(self._entries) >= MOST_ENTRIES and entry.key not in self._entries:
            self._failed = FetchError(str(self._folder), f"more than {MOST_ENTRIES} different requests were made")
            raise self._failed
        self._entries[entry.key] = entry

    def _entry(
        self, asked: Asked, status: int, headers: Mapping[str, str], content: Content, problem: str
    ) -> FetchEntry:
        """Without secrets. Raises `ValueError` for what no index can hold."""
        key = asked.key(bare_address(asked.url, self._scrubber))
        written = {name: self._scrubber.scrub(value) for name, value in headers.items()}
        if "location" in headers:
            absolute = str(httpx.URL(asked.url).join(headers["location"]))
            written["location"] = bare_address(absolute, self._scrubber)
        return FetchEntry.model_validate(
            {
                **key._asdict(),
                "status": status,
                "headers": written,
                "digest": content.digest,
                "size_bytes": content.size_bytes,
                "problem": self._scrubber.scrub(problem),
                "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
