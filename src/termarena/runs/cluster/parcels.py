"""Folders on their way between machines: pieces of files, in parcels that are small enough to be held in memory."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from termarena.core.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

__all__ = ["PARCEL_BYTES", "Parcel", "Piece", "pack", "pack_named", "unpack"]

# Large enough that a trial is one parcel as a rule, small enough for any node's memory.
PARCEL_BYTES: Final = 4 << 20

Kind = Literal["folder", "file", "program", "link"]


class Piece(NamedTuple):
    """A part of one file, or a whole one; a folder or a link, which `data` is the target of."""

    path: str
    """Relative to the folder, with slashes."""
    kind: Kind
    data: bytes
    is_first: bool = True


Parcel = tuple[Piece, ...]


def pack(folder: Path, *, without: Container[str] = ()) -> Iterator[Parcel]:
    """All that a folder holds, but for names at its top; sockets and the like are left out. Raises OSError."""
    return _in_parcels(_pieces(folder, without))


def pack_named(places: Mapping[str, Path], of_folders: Container[str]) -> Iterator[Parcel]:
    """Files and folders from anywhere, each under another name; of folders only the files of these names.

    What a link leads to is taken in its place. Raises OSError.
    """
    return _in_parcels(piece for name, path in places.items() for piece in _named(Path(name), path, of_folders))


def _named(name: Path, path: Path, of_folders: Container[str]) -> Iterator[Piece]:
    if not path.is_dir():
        yield from _parts(name, path.resolve(strict=True))
        return
    yield Piece(name.as_posix(), "folder", b"")
    for place, _, files in os.walk(path):
        for file in sorted(files):
            if file in of_folders:
                found = Path(place, file)
                yield from _parts(name / found.relative_to(path), found.resolve(strict=True))


def _in_parcels(pieces: Iterable[Piece]) -> Iterator[Parcel]:
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        if held and size + len(piece.data) > PARCEL_BYTES:
            yield tuple(held)
            held, size = [], 0
        held.append(piece)
        size += len(piece.data)
    yield tuple(held)


def unpack(parcel: Iterable[Piece], folder: Path, *, takes_links: bool = False) -> None:
    """Write the pieces below a folder that nobody else writes to.

    Raises `ClusterError` for a path that leaves the folder, and for a link where none is taken; OSError.
    """
    for piece in parcel:
        path = folder / _safe(piece.path)
        if piece.kind == "folder":
            path.mkdir(parents=True, exist_ok=True)
        elif piece.kind != "link":
            _write(path, piece)
        elif takes_links:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(os.fsdecode(piece.data))
        else:
            raise ClusterError(f"a node sent a link among the files of a trial: {piece.path}")


def _pieces(folder: Path, without: Container[str]) -> Iterator[Piece]:
    for place, folders, files in os.walk(folder):
        here = Path(place).relative_to(folder)
        is_top = here == Path()
        for name in sorted(folders):
            path = Path(place, name)
            if not path.is_symlink():
                yield Piece((here / name).as_posix(), "folder", b"")
            else:
                yield _link(here / name, path)
        for name in sorted(files):
            if not (is_top and name in without):
                yield from _parts(here / name, Path(place, name))


def _parts(name: Path, path: Path) -> Iterator[Piece]:
    if path.is_symlink():
        yield _link(name, path)
        return
    if not path.is_file():
        return
    with path.open("rb") as file:
        kind: Kind = "program" if os.fstat(file.fileno()).st_mode & 0o100 else "file"
        is_first = True
        while (data := file.read(PARCEL_BYTES)) or is_first:
            yield Piece(name.as_posix(), kind, data, is_first)
            is_first = False


def _link(name: Path, path: Path) -> Piece:
    return Piece(name.as_posix(), "link", os.fsencode(path.readlink()))


def _write(path: Path, piece: Piece) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb" if piece.is_first else "ab") as file:
        file.write(piece.data)
    if piece.kind == "program" and piece.is_first:
        path.chmod(0o755)


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise ClusterError(f"a node sent a file with a path that leaves its folder: {name!r}")
    return path
