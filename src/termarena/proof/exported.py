"""What the layers of an image hold, read out of the archive that an engine makes of it."""

from __future__ import annotations

import hashlib
import os
import tarfile
from dataclasses import dataclass, field
from tarfile import HeaderError, ReadError
from typing import TYPE_CHECKING, Final, NamedTuple, Self, cast

from termarena.sandbox.images.layers import BoundedMember, decompressed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

__all__ = ["Buried", "read_export"]

MOST_FILES: Final = 50_000
MOST_TOLD: Final = 20
SHOWN: Final = 100
ENDS: Final = ("EOFHeaderError", "EmptyHeaderError")
"""How an archive may end; the classes are no part of what `tarfile` promises."""
LAYERS: Final = (".tar", "blobs/sha256/")
"""The end of a layer's name in archives of older engines and of Podman, the beginning of one in those of newer ones."""


@dataclass(slots=True)
class Buried:
    """The files of all layers that were looked for."""

    layers: int = 0
    files: dict[tuple[str, str], None] = field(default_factory=dict)
    """Path and SHA-256 of each; of a folder that was looked for, the path alone."""
    unread: dict[str, None] = field(default_factory=dict)
    """What was not looked at, and why: a sentence each, at most twenty."""

    def leave_out(self, what: str, why: str) -> None:
        """Say that something was not looked at; names are an image's, so they are cut."""
        if len(self.unread) < MOST_TOLD:
            self.unread[f"{what[:SHOWN]}: {why}"] = None


class _Member(BoundedMember):
    """One after which an archive does not just end where it breaks off, as `tarfile` takes it."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if tarfile.offset and type(error).__name__ not in ENDS:
                raise ReadError(f"it breaks off after {tarfile.offset} bytes") from error
            raise


class _Rewinding:
    """A member of an archive that comes as a stream, which can go back within what was read last."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last = self._again = b""

    def read(self, size: int = -1) -> bytes:
        again = self._again if size < 0 else self._again[:size]
        self._again = self._again[len(again) :]
        self._last = again + self._stream.read(-1 if size < 0 else size - len(again))
        return self._last

    def seek(self, offset: int, whence: int) -> None:
        """Back from where it is."""
        if whence != os.SEEK_CUR or not -len(self._last) <= offset <= 0:
            raise OSError("a stream goes on")
        self._again = self._last[len(self._last) + offset :]


def read_export(fd: int, *, below: Sequence[str], folders: Sequence[str], sizes: range) -> Buried:
    """Every regular file of such a size below these folders, in any layer, also where a later one hides it; and which
    of `folders` are there. Takes the descriptor over; an archive that breaks off counts as far as it goes, and `unread`
    says that it does. What is no file of a layer is left out: links, devices, names that lead out of the image, other
    members of the archive. Raises `MissingExtra` for a layer that cannot be unpacked here."""
    found = Buried()
    with os.fdopen(fd, "rb") as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
                for member in archive:
                    is_layer = member.isreg() and (member.name.endswith(LAYERS[0]) or member.name.startswith(LAYERS[1]))
                    content = archive.extractfile(member) if is_layer else None
                    if content is not None:
                        _read_layer(member.name, content, found, _Sought((*below, *folders), folders, sizes))
        except tarfile.TarError as error:
            found.leave_out("the image's archive", f"broken: {error}")
    return found


class _Sought(NamedTuple):
    below: Sequence[str]
    folders: Sequence[str]
    sizes: range


def _read_layer(name: str, content: IO[bytes], found: Buried, sought: _Sought) -> None:
    start = _Rewinding(content)
    first = start.read(1)
    start.seek(-len(first), os.SEEK_CUR)
    is_description = first in (b"{", b"")
    try:
        with tarfile.open(fileobj=decompressed(cast("IO[bytes]", start)), mode="r|", tarinfo=_Member) as layer:
            is_description = False
            found.layers += 1
            for member in layer:
                path = "/" + os.path.normpath(member.name).lstrip("/")
                if path in sought.folders and member.isdir():
                    found.files[path, ""] = None
                elif member.isreg() and member.size in sought.sizes and _is_below(path, sought.below):
                    _take(layer, member, path, found)
    except (tarfile.TarError, ValueError) as error:
        # The description of an image lies among its layers, and is JSON.
        if not is_description:
            found.leave_out(name, f"a layer that is broken: {error}")


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{top}/") for top in folders)


def _take(layer: tarfile.TarFile, member: tarfile.TarInfo, path: str, found: Buried) -> None:
    if len(found.files) >= MOST_FILES:
        found.leave_out("layers of the image", f"more than {MOST_FILES:,} files: the rest")
        return
    content = layer.extractfile(member)
    if content is not None:
        found.files[path, hashlib.sha256(content.read()).hexdigest()] = None
