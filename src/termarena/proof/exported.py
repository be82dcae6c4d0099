"""What the layers of an image hold, read out of the archive that an engine makes of it."""

from __future__ import annotations

import hashlib
import os
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from termarena.sandbox.images.layers import BoundedMember, decompressed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

__all__ = ["Exported", "read_export"]

MOST_FILES: Final = 50_000
LAYERS: Final = (".tar", "blobs/sha256/")
"""The end of a layer's name in archives of older engines and of Podman, the beginning of one in those of newer ones."""


@dataclass(slots=True)
class Exported:
    """The files of all layers that were looked for."""

    layers: int = 0
    files: dict[tuple[str, str], None] = field(default_factory=dict)
    """Path and SHA-256 of each; of a folder that was looked for, the path alone."""


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


def read_export(fd: int, *, below: Sequence[str], folders: Sequence[str], sizes: range) -> Exported:
    """Every regular file of such a size below these folders, in any layer, also where a later one hides it; and which
    of `folders` are there. Takes the descriptor over; an archive that breaks off counts as far as it goes. What is no
    layer is left out: links, devices, names that lead out of the image, other members of the archive. Raises
    `MissingExtra` for a layer that cannot be unpacked here."""
    found = Exported()
    with os.fdopen(fd, "rb") as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=BoundedMember) as archive:
                for member in archive:
                    is_layer = member.isreg() and (member.name.endswith(LAYERS[0]) or member.name.startswith(LAYERS[1]))
                    content = archive.extractfile(member) if is_layer else None
                    if content is not None:
                        _read_layer(content, found, below=(*below, *folders), folders=folders, sizes=sizes)
        except tarfile.TarError:
            return found
    return found


def _read_layer(
    content: IO[bytes], found: Exported, *, below: Sequence[str], folders: Sequence[str], sizes: range
) -> None:
    try:
        with tarfile.open(
            fileobj=decompressed(cast("IO[bytes]", _Rewinding(content))), mode="r|", tarinfo=BoundedMember
        ) as layer:
            found.layers += 1
            for member in layer:
                path = "/" + os.path.normpath(member.name).lstrip("/")
                if path in folders and member.isdir():
                    found.files[path, ""] = None
                elif member.isreg() and member.size in sizes and any(path.startswith(f"{top}/") for top in below):
                    _take(layer, member, path, found)
    except (tarfile.TarError, ValueError):
        return  # the description of an image, which lies among its layers, or one that breaks off


def _take(layer: tarfile.TarFile, member: tarfile.TarInfo, path: str, found: Exported) -> None:
    content = layer.extractfile(member) if len(found.files) < MOST_FILES else None
    if content is not None:
        found.files[path, hashlib.sha256(content.read()).hexdigest()] = None
