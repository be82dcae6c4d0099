"""Several layers of changes unpacked into one: a later one replaces and removes what an earlier one left."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from . import removing
from .tar import OPAQUE, split
from .unpack import Unpacker

if TYPE_CHECKING:
    from .tar import Member, Reader


class Merger(Unpacker):
    """As its parent; layers that share a root come one after the other, the lowest first."""

    def place(self, member: Member, reader: Reader) -> None:
        """Make one member in the place of what an earlier layer has there.

        An opaque folder hides what the layers below it have, so it begins empty and stays opaque.
        """
        first, parts = split(member.name)
        if parts:
            self._make_way(member, self._parent(self.roots[first], "/".join(parts[:-1])), parts[-1])
        super().place(member, reader)

    def _make_way(self, member: Member, parent: int, name: str) -> None:
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return
        keeps = stat.S_ISDIR(found.st_mode) and member.kind == "folder" and OPAQUE not in member.attributes
        if not keeps:
            removing.remove(parent, name)

    def _set_folder_time(self, root: int, path: str, mtime_ns: int) -> None:
        # A later layer may have something else there.
        with contextlib.suppress(NotADirectoryError):
            super()._set_folder_time(root, path, mtime_ns)
