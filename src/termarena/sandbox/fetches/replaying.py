"""Answers from a recording, and from nowhere else."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, Self

from termarena.core.errors import DigestMismatch, FetchNotRecorded
from termarena.sandbox.fetches.addresses import bare_address
from termarena.sandbox.fetches.contents import Content, open_content
from termarena.sandbox.fetches.exchange import NOT_RECORDABLE, Answer, is_recordable, nothing
from termarena.sandbox.fetches.index import LENGTH, FetchKey, read_index

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from io import BufferedReader
    from pathlib import Path

    from termarena.core.scrub import Scrubber
    from termarena.sandbox.fetches.exchange import Asked
    from termarena.sandbox.fetches.index import FetchEntry

__all__ = ["Replayer"]

BLOCK: Final = 256 << 10
OK: Final = 200
PARTIAL: Final = 206
UNKNOWN: Final = 504
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")


class Replayer:
    """Answers what was recorded below a folder; remembers what was not."""

    def __init__(self, folder: Path, scrubber: Scrubber) -> None:
        """Nothing is read yet."""
        self._folder = folder
        self._scrubber = scrubber
        self._entries: dict[FetchKey, FetchEntry] = {}
        self._missing: dict[str, None] = {}
        self._failed: Exception | None = None

    async def __aenter__(self) -> Self:
        """Raises `TaskFormatError` for an index that is none."""
        entries = await asyncio.to_thread(read_index, self._folder)
        self._entries = {entry.key: entry for entry in entries}
        for entry in entries:
            # A client may ask in other words for what does not depend on them.
            if "accept" not in entry.headers.get("vary", "").lower().replace("accept-encoding", ""):
                self._entries.setdefault(entry.key._replace(accept=""), entry)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held."""

    @property
    def fault(self) -> Exception | None:
        """What was asked for and not recorded, or is not what was recorded."""
        if self._failed is not None or not self._missing:
            return self._failed
        return FetchNotRecorded(tuple(self._missing), folder=str(self._folder))

    def told(self, asked: Asked, problem: str) -> None:
        """See `Source`: the client is told so by its own connection, as it was when it was recorded."""

    async def answer(self, asked: Asked) -> Answer:
        """See `Source`."""
        if not is_recordable(asked):
            # It was not sent when it was recorded either, whatever was in it.
            return Answer(NOT_RECORDABLE)
        try:
            key = asked.key(bare_address(asked.url, self._scrubber))
        except ValueError:
            key = asked.key(asked.url)
        entry = self._find(key)
        if entry is None:
            self._missing[f"{key.method} {key.url}"] = None
            return Answer(UNKNOWN)
        try:
            file = await asyncio.to_thread(open_content, self._folder, Content(entry.digest, entry.size_bytes))
        except DigestMismatch as error:
            self._failed = error
            return Answer(UNKNOWN)
        return _answer(entry, key, file)

    def _find(self, key: FetchKey) -> FetchEntry | None:
        """What was recorded of it: in the same words, in others, or as a part of the whole."""
        methods = ("HEAD", "GET") if key.method == "HEAD" else (key.method,)
        ranges = (key.range, "") if key.range else ("",)
        for method in methods:
            for part in ranges:
                for accept in (key.accept, ""):
                    found = self._entries.get(key._replace(method=method, range=part, accept=accept))
                    if found is not None:
                        return found
        return None


def _answer(entry: FetchEntry, key: FetchKey, file: BufferedReader) -> Answer:
    first, last = 0, entry.size_bytes - 1
    status, headers = entry.status, dict(entry.headers)
    if entry.method == "HEAD":
        file.close()
        length = headers.pop(LENGTH, None)
        return Answer(status, headers, None if length is None else int(length))
    asked = _RANGE.fullmatch(key.range)
    if asked and not entry.range and status == OK and int(asked[1]) < entry.size_bytes:
        first = int(asked[1])
        last = min(int(asked[2] or last), last)
        status, headers["content-range"] = PARTIAL, f"bytes {first}-{last}/{entry.size_bytes}"
    return _cut(status, headers, file, range(first, last + 1))


def _cut(status: int, headers: Mapping[str, str], file: BufferedReader, part: range) -> Answer:
    if not part:
        file.close()
        return Answer(status, headers, 0, nothing())
    return Answer(status, headers, len(part), _read(file, part))


async def _read(file: BufferedReader, part: range) -> AsyncIterator[bytes]:
    with file:
        file.seek(part.start)
        left = len(part)
        while left and (block := await asyncio.to_thread(file.read, min(BLOCK, left))):
            left -= len(block)
            yield block
