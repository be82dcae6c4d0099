"""Which ids of the host stand behind the sandbox's users: the sandbox's root is never the host's root."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

__all__ = ["IdMap", "choose_ids"]

FIRST_HOST_ID: Final = 100_000
COUNT: Final = 65_536


@dataclass(frozen=True, slots=True)
class IdMap:
    """How ids are mapped: `shifted` by root, `ranges` through newuidmap, or the user's `single` id as root."""

    kind: Literal["shifted", "ranges", "single"]
    uid_lines: tuple[tuple[int, int, int], ...]
    gid_lines: tuple[tuple[int, int, int], ...]
    helpers: tuple[str, str] | None = None

    @property
    def has_users(self) -> bool:
        """Whether the sandbox can have users other than root."""
        return self.kind != "single"

    @property
    def root(self) -> tuple[int, int]:
        """The ids of the host that stand behind the sandbox's root."""
        return self.uid_lines[0][1], self.gid_lines[0][1]

    def as_plan(self) -> dict[str, Any]:
        """The form in which the fork server takes it."""
        return {
            "uid": self.uid_lines,
            "gid": self.gid_lines,
            "helpers": self.helpers,
            "deny_setgroups": self.kind == "single",
            "shift": self.kind == "shifted",
        }


def choose_ids(*, allow_ranges: bool = True) -> IdMap:
    """The best map for the calling user; `ranges` needs newuidmap and an entry in /etc/subuid and /etc/subgid."""
    if os.geteuid() == 0:
        line = ((0, FIRST_HOST_ID, COUNT),)
        return IdMap("shifted", line, line)
    uid, gid = os.geteuid(), os.getegid()
    helpers = shutil.which("newuidmap"), shutil.which("newgidmap")
    uids, gids = _granted(Path("/etc/subuid"), uid), _granted(Path("/etc/subgid"), uid)
    if allow_ranges and helpers[0] and helpers[1] and uids and gids:
        return IdMap(
            "ranges",
            ((0, uid, 1), (1, uids[0], min(uids[1], COUNT - 1))),
            ((0, gid, 1), (1, gids[0], min(gids[1], COUNT - 1))),
            (helpers[0], helpers[1]),
        )
    return IdMap("single", ((0, uid, 1),), ((0, gid, 1),))


def _granted(file: Path, uid: int) -> tuple[int, int] | None:
    """The first range that the file grants to the user, by name or number."""
    names = {str(uid)}
    try:
        names.add(pwd.getpwuid(uid).pw_name)
        rows = [line.split(":") for line in file.read_text().splitlines()]
    except (KeyError, OSError):
        return None
    for row in rows:
        if len(row) == 3 and row[0] in names and row[1].isdecimal() and row[2].isdecimal():  # noqa: PLR2004 - subuid(5) has three columns
            return int(row[1]), int(row[2])
    return None
