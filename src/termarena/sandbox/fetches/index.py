"""`fetches.json`: what was asked for, what came, and the digests of the contents that lie beside it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from termarena.core.errors import FetchError, TaskFormatError
from termarena.core.records import read_record_as, write_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = [
    "BLOBS",
    "INDEX",
    "KEPT_HEADERS",
    "LENGTH",
    "MOST_ENTRIES",
    "FetchEntry",
    "FetchKey",
    "alone_in",
    "blob_path",
    "merge_index",
    "open_recording",
    "read_index",
    "recording_digest",
]

INDEX: Final = "fetches.json"
BLOBS: Final = "sha256"
"""The folder of contents, each under its digest."""
LOCK: Final = f".{INDEX}.lock"
KIND: Final = "fetches"
MOST_ENTRIES: Final = 200_000
LONGEST_URL: Final = 16 << 10
LONGEST_HEADER: Final = 8 << 10
KEPT_HEADERS: Final = frozenset(
    {
        "content-disposition",
        "content-encoding",
        "content-range",
        "content-type",
        "docker-content-digest",
        "etag",
        "last-modified",
        "link",
        "location",
        "vary",
        "x-pypi-last-serial",
    }
)
"""What of an answer's headers decides what a client makes of it; cookies and challenges are not among them."""
LENGTH: Final = "content-length"
"""Kept of an answer to HEAD, which has no content that would tell it."""
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_PRINTABLE: Final = re.compile(r"[\x20-\x7e\x80-\xff]*")


class FetchKey(NamedTuple):
    """What makes two requests the same."""

    method: str
    url: str
    accept: str = ""
    range: str = ""
    body: str = ""


class FetchEntry(BaseModel):
    """One request, and what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"]
    url: Annotated[str, Field(max_length=LONGEST_URL, pattern=r"^https?://[\x21-\x7e]+$")]
    """Without secrets: see `bare_address`."""
    accept: Annotated[str, Field(max_length=LONGEST_HEADER)] = ""
    range: Annotated[str, Field(max_length=LONGEST_HEADER)] = ""
    body: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """The digest of what was sent, for a request of git."""
    status: Annotated[int, Field(ge=200, le=599)]
    headers: dict[str, Annotated[str, Field(max_length=LONGEST_HEADER)]] = Field(default_factory=dict)
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Field(ge=0)]
    problem: str = ""
    """Why there was no answer of a server: not reached, or a request that is not recorded."""
    recorded_at: str
    """UTC."""

    @field_validator("headers")
    @classmethod
    def _only_kept(cls, headers: dict[str, str], told: ValidationInfo) -> dict[str, str]:
        for name, value in headers.items():
            if name == LENGTH and told.data.get("method") == "HEAD" and _LENGTH.fullmatch(value):
                continue
            if name not in KEPT_HEADERS or not _PRINTABLE.fullmatch(value):
                raise ValueError(f"the header {name[:40]!r} cannot be replayed")
        return headers

    @property
    def key(self) -> FetchKey:
        """What it answers."""
        return FetchKey(self.method, self.url, self.accept, self.range, self.body)


class _Index(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    entries: Annotated[tuple[FetchEntry, ...], Field(max_length=MOST_ENTRIES)] = ()


def blob_path(folder: Path, digest: str) -> Path:
    """Where a content lies; the digest is one that an entry has."""
    return folder / BLOBS / digest.removeprefix("sha256:")


def open_recording(folder: Path) -> None:
    """Make the folder of a recording where it is missing. Raises `FetchError` where it cannot be written,
    `TaskFormatError` for one that is a link, or has links in the places of ours."""
    for path in (folder, folder / BLOBS, folder / LOCK):
        if path.is_symlink():
            raise TaskFormatError(str(path), found="a link", expected="a recording's own file or folder")
    try:
        (folder / BLOBS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name a folder that can be written: --record-fetches=FOLDER"
        raise FetchError(str(folder), f"cannot be written: {error.strerror}", hint=hint) from error


def read_index(folder: Path) -> tuple[FetchEntry, ...]:
    """All entries; none where nothing was recorded. Raises `TaskFormatError` for a file that is no index."""
    path = folder / INDEX
    if not path.exists() and not path.is_symlink():
        return ()
    entries = read_record_as(_Index, path, KIND).entries
    keys = {entry.key for entry in entries}
    if len(keys) != len(entries):
        raise TaskFormatError(str(path), field="entries", found="two of the same request", expected="each once")
    return entries


def recording_digest(folder: Path) -> str:
    """What the recording holds, as one digest: empty where there is none. Raises `TaskFormatError` as `read_index`."""
    entries = read_index(folder)
    view = "\n".join(entry.model_dump_json() for entry in entries)
    return hashlib.sha256(view.encode()).hexdigest() if entries else ""


def merge_index(folder: Path, entries: Iterable[FetchEntry]) -> None:
    """Add entries, in the place of older ones of the same request; other processes may do the same.

    Raises `OSError`, and `TaskFormatError` for an index that was there and is none.
    """
    with alone_in(folder):
        found = {entry.key: entry for entry in read_index(folder)}
        found.update({entry.key: entry for entry in entries})
        ordered = sorted(found.values(), key=lambda entry: entry.key)
        rows = [entry.model_dump(mode="json", exclude_defaults=True) for entry in ordered]
        write_record(folder / INDEX, KIND, {"entries": rows})


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Nobody else writes what a recording says of itself within the block; raises `OSError`."""
    # The folder came with a task: a link there must lead nowhere.
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
