"""Taking a bundle apart, whoever made it: only files of its own table, only inside one new folder, within limits."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from termarena.core.errors import BadBundle
from termarena.runs.bundle import BLOCK_BYTES, KIND, MANIFEST, Manifest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BundleLimits", "Unpacked", "unpack"]

LARGEST_MANIFEST: Final = 256 << 20
LONGEST_NAME: Final = 1024
LONGEST_PART_BYTES: Final = 255
HEADER_BYTES: Final = 1 << 20
"""Of what stands before a member's content, and of what is read ahead; a header is held in memory while it is read."""


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """What a bundle may hold; more is refused before it is written."""

    files: int = 500_000
    file_bytes: int = 4 << 30
    total_bytes: int = 64 << 30


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What was in it."""

    manifest: Manifest
    problems: tuple[str, ...]
    """Files that are not as the table says: missing, or others. They are told, and the rest is there."""


def unpack(bundle: Path, into: Path, limits: BundleLimits | None = None) -> Unpacked:
    """Write a bundle's files below the folder `into`, which must be empty.

    Raises `BadBundle` for a file that is no bundle, names a path outside, holds anything but files, or is too large;
    and OSError where `into` takes no more.
    """
    try:
        with gzip.open(bundle, "rb") as packed:
            source = _Rationed(packed)
            with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|") as archive:
                return _Unpacking(bundle, into, limits or BundleLimits(), source).take(archive)
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise BadBundle(str(bundle), problem=f"it does not read as a compressed archive ({error})") from error
    except OSError as error:
        if error.filename == str(bundle):
            raise BadBundle(str(bundle), problem=error.strerror or str(error)) from error
        raise


class _Rationed:
    """A file of which only so much is read: an archive may claim any size for what it holds in memory."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._left = HEADER_BYTES

    def allow(self, content_bytes: int) -> None:
        """From here on, so much content and one more header."""
        self._left = content_bytes + HEADER_BYTES

    def read(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise tarfile.ReadError("more stands between its files than an archive needs")
        return self._file.read(size)


class _Unpacking:
    def __init__(self, bundle: Path, into: Path, limits: BundleLimits, source: _Rationed) -> None:
        self._bundle = bundle
        self._into = into
        self._limits = limits
        self._source = source
        self._problems: list[str] = []

    def take(self, archive: tarfile.TarFile) -> Unpacked:
        members = iter(archive)
        manifest = self._manifest(archive, next(members, None))
        due = dict(manifest.files)
        for member in members:
            held = due.pop(member.name, None)
            if held is None or not member.isreg() or member.size != held.size_bytes:
                raise self._bad(f"{member.name!r} is not a file of its table, or comes twice, or has another size")
            self._source.allow(member.size)
            source = archive.extractfile(member)
            if source is not None and self._write(member.name, source) != held.sha256:
                self._problems.append(f"{member.name} is not the file that was packed")
        self._problems += [f"{name} is missing" for name in due]
        return Unpacked(manifest, tuple(self._problems))

    def _manifest(self, archive: tarfile.TarFile, member: tarfile.TarInfo | None) -> Manifest:
        if member is None or member.name != MANIFEST or not member.isreg() or member.size > LARGEST_MANIFEST:
            raise self._bad(f"it does not begin with {MANIFEST}")
        self._source.allow(member.size)
        source = archive.extractfile(member)
        try:
            document = json.loads(source.read() if source is not None else b"")
            if (document.pop("kind"), document.pop("schema_version")) != (KIND, 1):
                raise self._bad("it is of another kind, or of a newer version")
            manifest = Manifest.model_validate(document)
        except (ValueError, AttributeError, KeyError, RecursionError, ValidationError) as error:
            raise self._bad(f"its {MANIFEST} is none") from error
        self._check(manifest)
        return manifest

    def _check(self, manifest: Manifest) -> None:
        sizes = [file.size_bytes for file in manifest.files.values()]
        limits = self._limits
        if len(sizes) > limits.files or max(sizes, default=0) > limits.file_bytes or sum(sizes) > limits.total_bytes:
            raise self._bad(f"it holds {len(sizes)} files of {sum(sizes)} bytes, which is more than is taken")
        if min(sizes, default=0) < 0:
            raise self._bad("a file of less than nothing")
        for name in (manifest.run_id, *manifest.files):
            if not _is_harmless(name):
                raise self._bad(f"it names the path {name!r}")
        folders = {name[:at] for name in manifest.files for at, sign in enumerate(name) if sign == "/"}
        if both := sorted(folders & manifest.files.keys()):
            raise self._bad(f"{both[0]!r} is a file in it and a folder")

    def _write(self, name: str, source: IO[bytes]) -> str:
        """Write one file; its digest. Nothing but new files and folders is ever made, so no link can lead away."""
        path = self._into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            while block := source.read(BLOCK_BYTES):
                digest.update(block)
                file.write(block)
        return digest.hexdigest()

    def _bad(self, problem: str) -> BadBundle:
        return BadBundle(str(self._bundle), problem=problem)


def _is_harmless(name: str) -> bool:
    parts = name.split("/")
    is_short = 0 < len(name) <= LONGEST_NAME and name.isprintable()
    return (
        is_short
        and not {"", ".", "..", MANIFEST} & set(parts)
        and all(len(part.encode()) <= LONGEST_PART_BYTES for part in parts)
    )
