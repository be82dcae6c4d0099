"""Unpacking what came from outside: every entry stays inside, is a plain file, a folder or a link that stays inside,
and the whole stays within limits. What breaks a rule is refused whole, never skipped.

Files and folders are written before any link exists, and where the links lead is told from their names before the first
is made, so nothing is written through one. The tree is looked at once more when they are there.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import itertools
import lzma
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Protocol, cast

from termarena.tasks.pull.contract import PullError, is_safe_path
from termarena.tasks.pull.trees import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from termarena.tasks.pull.contract import Plan, Reporter

__all__ = ["LIMITS", "Limits", "check_links", "unpack"]

_BLOCK_BYTES = 1 << 20
_HEADERS_BYTES = 64 << 20
_HEADERS_BYTES_PER_FILE = 8 << 10
_LONGEST_LINK_BYTES = 4095
# Linux follows no more in one path.
_MOST_HOPS = 40


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an archive may become."""

    files: int = 500_000
    size_bytes: int = 64 << 30
    ratio: int = 200
    """Unpacked to packed; gzip can reach 1,000 only on repetition, and the public task sets stay below 30."""
    ratio_from_bytes: int = 256 << 20
    """A small archive may be as dense as it likes."""


LIMITS = Limits()


def unpack(
    archive: Path,
    into: Path,
    plan: Plan,
    report: Reporter,
    *,
    name: str | None = None,
    password: bytes | None = None,
) -> None:
    """Unpack `archive` below `into`, an empty folder. `name` tells the format, where the file's own name does not.

    Files become 0755 or 0644. Raises PullError: `unsafe` for an entry or a size that is refused, `broken` for a file
    that cannot be read to its end.
    """
    writer = _Writer(into, plan, report, archive.stat().st_size, LIMITS)
    report.begin("unpacking")
    suffix = (name or archive.name).lower()
    try:
        if suffix.endswith(".zip"):
            _unpack_zip(archive, writer, password)
        else:
            with _decompressed(archive, suffix, plan) as stream:
                _unpack_tar(stream, writer)
        writer.make_links()
    except PullError:
        raise
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile) as error:
        raise PullError(plan, "broken", f"the archive is damaged or cut short ({error})") from error
    # zipfile's word for a method that it cannot unpack is NotImplementedError, for a password RuntimeError.
    except (NotImplementedError, RuntimeError, ValueError) as error:
        raise PullError(plan, "broken", f"the archive cannot be read: {error}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise PullError(
            plan, "unsafe", f"it has two entries for one name, or a file for a folder: {error.filename}"
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise PullError(plan, "broken", f"the archive is damaged ({error})") from error


@dataclass(slots=True)
class _Writer:
    """Writes entries below `root` and counts."""

    root: Path
    plan: Plan
    report: Reporter
    packed_bytes: int
    limits: Limits
    files: int = 0
    size_bytes: int = 0
    links: dict[str, str] = field(default_factory=dict)
    """The target of each link, by its path below `root`."""

    def place(self, name: str) -> Path | None:
        """Where an entry goes; None for the root itself."""
        path = name.removeprefix("./").rstrip("/")
        if path in ("", "."):
            return None
        if not is_safe_path(path):
            raise self.refusal(f"the entry {name!r} would leave its folder")
        self.count_file()
        return self.root / path

    def folder(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)

    def file(self, place: Path, content: IO[bytes], *, executable: bool) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as out:
            while block := content.read(_BLOCK_BYTES):
                self.count_bytes(len(block))
                out.write(block)
        place.chmod(0o755 if executable else 0o644)
        self.report.advance(files=1)

    def link(self, place: Path, target: str) -> None:
        """Note a link, to be made when every file is there."""
        path = str(place.relative_to(self.root))
        if target.startswith("/"):
            raise self.refusal(f"the link {path} points to {target}")
        if len(os.fsencode(target)) > _LONGEST_LINK_BYTES:
            raise self.refusal(f"the link {path} points to a name that no system can hold")
        if path in self.links:
            raise self.refusal(f"it has two entries for one name: {path}")
        self.links[path] = target

    def hard_link(self, place: Path, target: str, *, executable: bool) -> None:
        """Write a second name for a file as a copy of it."""
        original = self.place(target)
        if original is None or original.is_symlink() or not original.is_file():
            raise self.refusal(f"{place.relative_to(self.root)} is a link to {target!r}, which is no file before it")
        with original.open("rb") as content:
            self.file(place, content, executable=executable)

    def make_links(self) -> None:
        """Make the noted links, or none of them if one leaves or lies below another."""
        for path, target in self.links.items():
            parents = itertools.accumulate(path.split("/")[:-1], "{}/{}".format)
            if above := next((parent for parent in parents if parent in self.links), None):
                raise self.refusal(f"the link {path} lies below another link, {above}")
            if not _stays_inside(path, self.links):
                raise self.refusal(f"the link {path} leaves it (to {target})")
        places = [(self.root / path, target) for path, target in self.links.items()]
        # Every folder first: a link cannot take the place of one, also where upper and lower case are the same.
        for place, _ in places:
            place.parent.mkdir(parents=True, exist_ok=True)
        for place, target in places:
            place.symlink_to(target)
        if places:
            check_links(self.root, self.plan)

    def count_file(self) -> None:
        self.files += 1
        if self.files > self.limits.files:
            raise self.refusal(f"it has more than {self.limits.files:,} entries")

    def count_bytes(self, count: int) -> None:
        self.size_bytes += count
        if self.size_bytes > self.limits.size_bytes:
            raise self.refusal(f"it unpacks to more than {self.limits.size_bytes:,} bytes")
        if self.size_bytes > max(self.limits.ratio_from_bytes, self.limits.ratio * self.packed_bytes):
            raise self.refusal(f"it unpacks to more than {self.limits.ratio} times its size, as a bomb would")
        self.report.advance(size_bytes=count)

    def refusal(self, problem: str) -> PullError:
        return PullError(self.plan, "unsafe", problem)


def _stays_inside(path: str, links: Mapping[str, str]) -> bool:
    """Whether the link at `path` leads to a place below the root, told from the names of all links alone.

    One that goes in a circle leads nowhere, and so stays.
    """
    at: list[str] = []
    ahead = path.split("/")[::-1]
    hops = 0
    while ahead and hops <= _MOST_HOPS:
        part = ahead.pop()
        if part == ".." and not at:
            return False
        if part == "..":
            at.pop()
        elif part not in ("", "."):
            at.append(part)
        target = links.get("/".join(at))
        if target is not None:
            hops += 1
            at.pop()
            ahead += target.split("/")[::-1]
    return True


def check_links(root: Path, plan: Plan) -> None:
    """Follow every link below `root`, as it lies there. Raises PullError (`unsafe`) if one leads out of `root`."""
    inside = os.path.realpath(root)
    for file in files_below(root):
        if not file.is_symlink():
            continue
        real = os.path.realpath(file)
        if real != inside and not real.startswith(inside + "/"):
            path, target = file.relative_to(root), file.readlink()
            raise PullError(plan, "unsafe", f"the link {path} leaves it (to {target})")


def _unpack_tar(stream: IO[bytes], writer: _Writer) -> None:
    guarded = _Counted(stream, writer)
    with tarfile.open(fileobj=cast("IO[bytes]", guarded), mode="r|") as archive:
        for entry in archive:
            place = writer.place(entry.name)
            executable = bool(entry.mode & 0o100)
            if place is None or entry.isdir():
                writer.folder(place or writer.root)
            elif entry.issym():
                writer.link(place, entry.linkname)
            elif entry.islnk():
                writer.hard_link(place, entry.linkname, executable=executable)
            elif entry.isreg() and (content := archive.extractfile(entry)) is not None:
                writer.file(place, content, executable=executable)
            else:
                raise writer.refusal(f"{entry.name!r} is a device, a pipe or something else that is no file")


class _Counted(io.RawIOBase):
    """The decompressed stream, of which little may be headers: tarfile holds them in memory, whatever they claim."""

    def __init__(self, stream: IO[bytes], writer: _Writer) -> None:
        self._stream = stream
        self._writer = writer
        self._read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size if size >= 0 else _BLOCK_BYTES)
        self._read_bytes += len(block)
        headers = self._read_bytes - self._writer.size_bytes
        if headers > _HEADERS_BYTES + _HEADERS_BYTES_PER_FILE * self._writer.files:
            raise self._writer.refusal("it has far more headers than files")
        return block


class _Zstd(Protocol):
    def open(self, file: Path, mode: str) -> IO[bytes]: ...


@contextmanager
def _decompressed(archive: Path, suffix: str, plan: Plan) -> Iterator[IO[bytes]]:
    if suffix.endswith(("gz",)):
        with gzip.open(archive, "rb") as stream:
            yield cast("IO[bytes]", stream)
    elif suffix.endswith("xz"):
        with lzma.open(archive, "rb") as stream:
            yield cast("IO[bytes]", stream)
    elif suffix.endswith("bz2"):
        with bz2.open(archive, "rb") as stream:
            yield cast("IO[bytes]", stream)
    elif suffix.endswith("zst"):
        with _zstd(plan).open(archive, "rb") as stream:
            yield stream
    else:
        with archive.open("rb") as stream:
            yield stream


def _zstd(plan: Plan) -> _Zstd:
    if sys.version_info < (3, 14):
        raise PullError(
            plan,
            "broken",
            "Zstandard archives need Python 3.14 or later",
            hint="unpack it with: zstd -d FILE.tar.zst && termarena datasets pull FILE.tar",
        )
    return cast("_Zstd", importlib.import_module("compression.zstd"))


def _unpack_zip(archive: Path, writer: _Writer, password: bytes | None) -> None:
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            place = writer.place(entry.filename)
            if place is None or entry.is_dir():
                writer.folder(place or writer.root)
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFLNK):
                raise writer.refusal(f"{entry.filename!r} is a device, a pipe or something else that is no file")
            with opened.open(entry, pwd=password) as content:
                if stat.S_ISLNK(mode):
                    writer.link(place, os.fsdecode(content.read(_LONGEST_LINK_BYTES + 1)))
                else:
                    writer.file(place, content, executable=bool(mode & 0o100))
