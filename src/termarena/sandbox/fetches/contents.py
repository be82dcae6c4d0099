"""Contents on the disk, each under its digest."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import DigestMismatch, FetchError
from termarena.sandbox.fetches.index import BLOBS, blob_path

if TYPE_CHECKING:
    from io import BufferedReader

__all__ = ["HINT", "Content", "Taking", "open_content"]

MAX_BYTES: Final = 16 << 30
HINT: Final = "record anew, or put the file back: --record-fetches"


class Content(NamedTuple):
    """What a content is known by."""

    digest: str
    size_bytes: int


class Taking:
    """A content that is coming in."""

    def __init__(self, folder: Path) -> None:
        """Opens a file that `finish` gives its name, or `close` removes. Raises `OSError`."""
        self._folder = folder
        fd, name = tempfile.mkstemp(prefix=".partial-", dir=folder / BLOBS)
        self._file = os.fdopen(fd, "wb")
        self._path = Path(name)
        self._state = hashlib.sha256()
        self._size_bytes = 0

    def take(self, chunk: bytes) -> None:
        """Raises `FetchError` beyond the limit, `OSError`."""
        self._size_bytes += len(chunk)
        if self._size_bytes > MAX_BYTES:
            raise FetchError("an answer", f"it is longer than {MAX_BYTES} bytes")
        self._state.update(chunk)
        self._file.write(chunk)

    def finish(self) -> Content:
        """All of it is there. Raises `OSError`."""
        self._file.close()
        found = Content(f"sha256:{self._state.hexdigest()}", self._size_bytes)
        self._path.chmod(0o644)
        self._path.replace(blob_path(self._folder, found.digest))
        return found

    def close(self) -> None:
        """Nothing stays of what was not finished."""
        self._file.close()
        self._path.unlink(missing_ok=True)


def open_content(folder: Path, content: Content) -> BufferedReader:
    """The file, at its beginning, after all of it was read and found to be what it should.

    Raises `DigestMismatch` for one that is missing, is no plain file, or holds something else.
    """
    path = blob_path(folder, content.digest)
    shown = f"{BLOBS}/{path.name}"
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    except OSError as error:
        raise DigestMismatch(str(folder), files=(f"{shown}: {error.strerror}",), hint=HINT) from error
    try:
        if _holds(file, content):
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    raise DigestMismatch(str(folder), files=(f"{shown} holds something else",), hint=HINT)


def _holds(file: BufferedReader, content: Content) -> bool:
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_size != content.size_bytes:
        return False
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return f"sha256:{digest}" == content.digest
