"""Layers as images bring them: tar archives of any dialect, checked and translated to the one form that we unpack.

A layer is hostile input. Its names cannot climb, its devices are left out, its attributes are an allow list, its size
is bounded; where it is unpacked, links cannot lead out of the layer's folder.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, Self, cast

from termarena.core.errors import ImageError, MissingExtra
from termarena.sandbox.namespace.inside import owners, tar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["MAX_BYTES", "BoundedMember", "LayerFacts", "Translator", "decompressed"]

WHITEOUT: Final = ".wh."
OPAQUE_MARK: Final = ".wh..wh..opq"
LARGEST_ID: Final = 65_535
MAX_LEFT_OUT: Final = 1000
MAX_ENTRIES: Final = 3_000_000
MAX_BYTES: Final = 256 << 30
"""What one layer may hold: far beyond any image, and below what a bomb of zeros would announce."""
HEADER_LIMIT_BYTES: Final = 1 << 20
"""Of a member's additional headers: what Go's reader, and with it Docker, takes."""
EXTENDED: Final = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
CHUNK: Final = 1 << 20
GZIP, ZSTD, XZ, BZIP2 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"
PARENT_MODE: Final = 0o755


def decompressed(stream: IO[bytes]) -> IO[bytes]:
    """The uncompressed content of a stream that can seek: gzip, zstd, xz, bzip2 or plain, told by its first bytes.

    Reading what is broken raises `ValueError`.
    """
    start = stream.read(6)
    stream.seek(-len(start), os.SEEK_CUR)
    if start.startswith(GZIP):
        return _checked(gzip.GzipFile(fileobj=stream), gzip.BadGzipFile, zlib.error, EOFError)
    if start.startswith(ZSTD):
        return _unzstd(stream)
    if start.startswith(XZ):
        import lzma  # noqa: PLC0415 - seldom used

        return _checked(lzma.LZMAFile(stream), lzma.LZMAError, EOFError)
    if start.startswith(BZIP2):
        import bz2  # noqa: PLC0415 - seldom used

        return _checked(bz2.BZ2File(stream), OSError, EOFError)
    return stream


def _unzstd(stream: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("zstandard", extra="images", purpose="a layer packed with zstd") from error
    return _checked(zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True), zstandard.ZstdError)


def _checked(stream: Any, *broken: type[Exception]) -> IO[bytes]:  # noqa: ANN401 - each has a class of its own
    return cast("IO[bytes]", _Checked(stream, broken))


class _Checked:
    """A stream that is unpacked while it is read, with one error for all ways in which it can be broken."""

    def __init__(self, stream: Any, broken: tuple[type[Exception], ...]) -> None:  # noqa: ANN401 - as above
        self.stream = stream
        self.broken = broken

    def read(self, size: int = -1) -> bytes:
        try:
            data: bytes = self.stream.read(size)
        except self.broken as error:
            raise ValueError(f"its compression is broken: {error}") from error
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


class BoundedMember(tarfile.TarInfo):
    """A member of a foreign archive whose additional headers, which are read as a whole, are not of any length."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in EXTENDED and self.size > HEADER_LIMIT_BYTES:
            raise tarfile.ReadError(f"a header is longer than {HEADER_LIMIT_BYTES} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc] # not part of its types
        return member


@dataclass(slots=True)
class LayerFacts:
    """What was seen while a layer was translated."""

    diff_id: str = ""
    size_bytes: int = 0
    owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Devices, which no sandbox may have; the first of very many."""


class _Hashing:
    """A stream that is digested while it is read, and reports how far it has come."""

    def __init__(self, stream: IO[bytes], on_bytes: Callable[[int], None] | None) -> None:
        self.stream = stream
        self.state = hashlib.sha256()
        self.on_bytes = on_bytes

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.state.update(data)
        if self.on_bytes is not None:
            self.on_bytes(len(data))
        return data


class Translator:
    """Reads one layer and writes it in our own form: names below `0/`, whiteouts as devices, opaque as attribute."""

    def __init__(self, source: str, *, has_owners: bool, is_layer: bool = True) -> None:
        """`source` is named in errors. Without owners everything becomes root's, and the table says what was;
        files and folders carry it too.

        In an archive that is no layer, names that begin with `.wh.` mean themselves.
        """
        self.source = source
        self.is_layer = is_layer
        self.has_owners = has_owners
        self.facts = LayerFacts()
        self._folders: dict[str, tar.Member] = {}
        self._deleted: set[str] = set()
        self._count = 0

    def translate(self, stream: IO[bytes], out: IO[bytes], *, on_bytes: Callable[[int], None] | None = None) -> None:
        """Raises `ImageError` for anything that is no layer; `facts` is complete afterwards."""
        hashing = _Hashing(stream, on_bytes)
        try:
            for member, content in self._members(hashing):
                out.write(tar.header(member))
                if content is not None:
                    _copy(content, out, member.size)
            while hashing.read(CHUNK):
                pass
        except (tarfile.TarError, EOFError, zlib.error, ValueError, gzip.BadGzipFile) as error:
            raise ImageError(self.source, f"a layer cannot be read: {error}") from error
        out.write(bytes(2 * tar.BLOCK))
        out.flush()
        self.facts.diff_id = "sha256:" + hashing.state.hexdigest()

    def _members(self, hashing: _Hashing) -> Iterator[tuple[tar.Member, IO[bytes] | None]]:
        stream: Any = hashing
        with tarfile.open(
            fileobj=stream, mode="r|", bufsize=CHUNK, errors="surrogateescape", tarinfo=BoundedMember
        ) as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined] # it keeps all it has seen
                self._spend(info)
                parts = self._parts(info.name)
                if not parts:
                    if info.isdir():
                        yield self._folder("0", info), None
                    continue
                yield from self._parents(parts[:-1])
                yield from self._entry(archive, info, parts)

    def _spend(self, info: tarfile.TarInfo) -> None:
        self._count += 1
        self.facts.size_bytes += info.size if info.isreg() else 0
        if self._count > MAX_ENTRIES or self.facts.size_bytes > MAX_BYTES or info.size < 0:
            raise ValueError(f"it holds more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes")

    def _parts(self, name: str) -> list[str]:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in name:
            raise ValueError(f"a name climbs: {name!r}")
        return parts

    def _parents(self, parts: list[str]) -> Iterator[tuple[tar.Member, None]]:
        """The folders above an entry that the layer does not bring itself."""
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if path not in self._folders:
                member = tar.Member(f"0/{path}", "folder")
                member.mode = PARENT_MODE
                member.attributes = {} if self.is_layer else {tar.IMPLIED: b"y"}
                self._replace_deleted(member, path)
                self._folders[path] = member
                yield member, None

    def _entry(
        self, archive: tarfile.TarFile, info: tarfile.TarInfo, parts: list[str]
    ) -> Iterator[tuple[tar.Member, IO[bytes] | None]]:
        name, path = parts[-1], "/".join(parts)
        if name == OPAQUE_MARK and self.is_layer:
            yield self._opaque("/".join(parts[:-1])), None
        elif name.startswith(WHITEOUT) and self.is_layer:
            hidden = "/".join((*parts[:-1], name.removeprefix(WHITEOUT)))
            if name == WHITEOUT or hidden.endswith(("/.", "/..")) or hidden in (".", ".."):
                raise ValueError(f"a deletion without a name: {path!r}")
            self._deleted.add(hidden)
            yield tar.Member(f"0/{hidden}", "device"), None
        elif info.isdir():
            yield self._folder(f"0/{path}", info), None
        elif info.issym():
            self._folders.setdefault(path, tar.Member(path, "symlink"))
            yield self._member(f"0/{path}", "symlink", info, target=info.linkname), None
        elif info.islnk():
            target = "/".join(self._parts(info.linkname))
            yield self._member(f"0/{path}", "link", info, target=f"0/{target}"), None
        elif info.isreg():
            member = self._member(f"0/{path}", "file", info)
            member.size = info.size
            yield member, archive.extractfile(info)
        elif info.isfifo():
            yield self._member(f"0/{path}", "fifo", info), None
        else:
            self.facts.left_out += [path] if len(self.facts.left_out) < MAX_LEFT_OUT else []

    def _opaque(self, path: str) -> tar.Member:
        known = self._folders.get(path)
        member = tar.Member(f"0/{path}" if path else "0", "folder")
        if known is not None:
            member.mode, member.uid, member.gid, member.mtime_ns = known.mode, known.uid, known.gid, known.mtime_ns
        member.attributes = {tar.OPAQUE: b"y"}
        return member

    def _folder(self, name: str, info: tarfile.TarInfo) -> tar.Member:
        member = self._member(name, "folder", info)
        self._replace_deleted(member, name.removeprefix("0/"))
        self._folders[name.removeprefix("0/")] = member
        return member

    def _replace_deleted(self, member: tar.Member, path: str) -> None:
        """A folder whose name the same layer deletes replaces the one below it: a deletion is about lower layers."""
        if path in self._deleted:
            member.attributes[tar.OPAQUE] = b"y"

    def _member(self, name: str, kind: str, info: tarfile.TarInfo, *, target: str = "") -> tar.Member:
        member = tar.Member(name, kind, target=target)
        member.mode = info.mode & 0o7777
        member.mtime_ns = _nanoseconds(info)
        if kind in ("file", "folder"):
            member.attributes = _attributes(info)
        self._own(member, info)
        return member

    def _own(self, member: tar.Member, info: tarfile.TarInfo) -> None:
        if not (0 <= info.uid <= LARGEST_ID and 0 <= info.gid <= LARGEST_ID):
            raise ValueError(f"{info.name!r} belongs to {info.uid}:{info.gid}, beyond {LARGEST_ID}")
        if self.has_owners:
            member.uid, member.gid = info.uid, info.gid
        elif info.uid or info.gid:
            self.facts.owners[member.name.removeprefix("0/")] = (info.uid, info.gid)
            if member.kind in ("file", "folder"):
                member.attributes[tar.OWNER] = owners.marked(info.uid, info.gid)


def _nanoseconds(info: tarfile.TarInfo) -> int:
    exact = info.pax_headers.get("mtime")
    if exact is None:
        return int(info.mtime) * 10**9
    seconds, _, fraction = exact.partition(".")
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or "0")


def _attributes(info: tarfile.TarInfo) -> dict[str, bytes]:
    """The user's own and file capabilities; those of overlayfs would let a layer forge deletions, ours owners."""
    found = {}
    for key, value in info.pax_headers.items():
        name = key.removeprefix("SCHILY.xattr.")
        is_users = name.startswith("user.") and not name.startswith(tar.HOUSEKEEPING)
        if name != key and (is_users or name == "security.capability"):
            found[name] = value.encode("utf-8", "surrogateescape")
    return found


def _copy(content: IO[bytes], out: IO[bytes], size: int) -> None:
    left = size
    while left:
        data = content.read(min(CHUNK, left))
        if not data:
            raise ValueError("it ends within a file")
        out.write(data)
        left -= len(data)
    out.write(bytes(-size % tar.BLOCK))
