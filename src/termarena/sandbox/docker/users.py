"""Users of a container, as its own `/etc/passwd` and `/etc/group` have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from termarena.core.errors import NotFound

__all__ = ["ROOT", "Identity", "resolve"]

PASSWD_FIELDS: Final = 6


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs a command."""

    spelled: str
    """For the engine."""
    name: str
    home: str
    uid: int
    gid: int

    def environment(self) -> dict[str, str]:
        """The variables that tell a program who it is."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


ROOT: Final = Identity("0:0", "root", "/root", 0, 0)


def resolve(user: str, *, passwd: bytes, group: bytes) -> Identity:
    """`name`, `uid`, `name:group` or `uid:gid`; raises `NotFound` for a name that the files do not have."""
    name, _, group_name = user.partition(":")
    row = next((row for row in _rows(passwd) if len(row) >= PASSWD_FIELDS and name in (row[0], row[2])), None)
    if row is None and not name.isdecimal():
        raise NotFound(f"the sandbox has no user {name}")
    uid = int(row[2] if row else name)
    gid = int(row[3]) if row else 0
    if group_name:
        found = next((one for one in _rows(group) if len(one) > 2 and group_name in (one[0], one[2])), None)  # noqa: PLR2004 - name, password, number
        if found is None and not group_name.isdecimal():
            raise NotFound(f"the sandbox has no group {group_name}")
        gid = int(found[2] if found else group_name)
    return Identity(
        spelled=f"{uid}:{gid}" if group_name else user,
        name=row[0] if row else str(uid),
        home=(row[5] if row else "") or "/",
        uid=uid,
        gid=gid,
    )


def _rows(content: bytes) -> list[list[str]]:
    return [line.split(":") for line in content.decode(errors="surrogateescape").splitlines()]
