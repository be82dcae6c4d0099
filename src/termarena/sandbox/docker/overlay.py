"""The change layer of a container on this machine, read and filled as what it is: the upper folder of an overlay.

An engine takes a second and more to tell what changed and to keep it as an image; the folder itself takes milliseconds.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from termarena.sandbox.docker.changes import INIT_NAMES
from termarena.sandbox.docker.files import is_of_kernel
from termarena.sandbox.namespace.inside import changes, mounts, tar, unpack
from termarena.sandbox.namespace.inside import syscalls as sc

__all__ = ["PREFIX", "Overlay", "can_read_layers", "find_overlay"]

PREFIX: Final = "0.0"
"""The layer and volume of every member of an archive."""
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
KEPT: Final = frozenset({"security.capability"})
"""What programs of the image may need: `ping` has its right to raw sockets in it."""
NOT_PLAIN: Final = ("redirect_dir", "metacopy")
"""What lets a kernel write layers that refer to the ones below."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """The folders of one container."""

    upper: str
    lowers: tuple[str, ...]

    def changes(self) -> tuple[dict[str, Any], ...]:
        """Every difference from the image, by path, without what the engine leaves in every container.

        Blocks. Raises `OSError`.
        """
        upper, base = os.open(self.upper, FOLDER), self._open_base()
        try:
            volume = mounts.Volume("", upper_fd=upper, base_fd=base, layer_fds=[], tree_fds=[])
            found = changes.index([volume])
        finally:
            os.close(upper)
            os.close(base)
        return tuple(_without_init(found))

    def pack(self, out: IO[bytes], *, max_bytes: int) -> None:
        """Write the layer as an archive. Blocks. Raises `OSError`, EFBIG beyond `max_bytes`."""
        upper = os.open(self.upper, FOLDER)
        try:
            packer = tar.Packer(out, exact=True, max_bytes=max_bytes, keeps=KEPT)
            packer.pack(upper, PREFIX)
            packer.finish()
        finally:
            os.close(upper)

    def fill(self, archive: IO[bytes]) -> None:
        """Unpack an archive of a layer; the container must not run. Blocks. Raises `OSError`, `ValueError`."""
        upper = os.open(self.upper, FOLDER)
        try:
            unpack.Unpacker({PREFIX: upper}, exact=True, opaque=tar.TRUSTED_OPAQUE).unpack(archive)
        finally:
            os.close(upper)

    def _open_base(self) -> int:
        return os.open(self.lowers[0], FOLDER) if len(self.lowers) == 1 else sc.detached_overlay([*self.lowers])


def can_read_layers() -> bool:
    """Whether this kernel lets us look at an overlay's layers and writes them plainly, tried with two empty folders."""
    try:
        if not all(_is_off(name) for name in NOT_PLAIN):
            return False
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            os.close(sc.detached_overlay([one, other]))
    except OSError:
        return False
    return True


def find_overlay(told: dict[str, Any]) -> Overlay | None:
    """The layers of a container as its engine tells them; None where it has none that we could use."""
    graph = told.get("GraphDriver") or {}
    folders = graph.get("Data") or {}
    upper, lowers = folders.get("UpperDir"), folders.get("LowerDir")
    if graph.get("Name") != "overlay2" or not upper or not lowers or not Path(upper).is_dir():
        return None
    return Overlay(str(upper), tuple(str(lowers).split(":")))


def _is_off(name: str) -> bool:
    return Path("/sys/module/overlay/parameters", name).read_text().strip() == "N"


def _without_init(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An engine leaves an empty file where it mounted its init program, and the folder above if that was missing."""
    kept = [entry for entry in found if not is_of_kernel(entry["path"]) and entry["path"] not in INIT_NAMES]
    for folder in {os.path.dirname(name) for name in INIT_NAMES}:  # noqa: PTH120 - a path of the container
        if not any(entry["path"].startswith(f"{folder}/") for entry in kept):
            kept = [entry for entry in kept if entry["path"] != folder or entry["change"] != "added"]
    return kept
