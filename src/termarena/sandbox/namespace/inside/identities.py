"""Users that programs believe to be where the kernel has one id to give: what each call makes of what they were.

The kernel's own rules, on numbers: root may become anybody, others may go back and forth between the ids they have.
"""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

UNCHANGED: Final = 0xFFFFFFFF
"""What a program passes for an id that is to stay."""
MOST: Final = 1 << 16
"""How many different identities one sandbox keeps apart."""
MOST_OTHERS: Final = 1 << 20
"""Supplementary groups of all of them together: process 1 keeps them, and no limit of the sandbox is on it."""


class Ids(NamedTuple):
    """The ids of one kind that a process has."""

    real: int
    effective: int
    saved: int


class Who(NamedTuple):
    """Who a process is."""

    users: Ids
    groups: Ids
    others: tuple[int, ...] = ()
    """The supplementary groups."""

    @property
    def is_root(self) -> bool:
        """Whether it may do what root may."""
        return self.users.effective == 0


ROOT: Final = Who(Ids(0, 0, 0), Ids(0, 0, 0))


def single(uid: int, gid: int, others: tuple[int, ...] = ()) -> Who:
    """Somebody who is one user in every respect."""
    return Who(Ids(uid, uid, uid), Ids(gid, gid, gid), others)


def _refuse() -> PermissionError:
    return PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _set(ids: Ids, wanted: int, *, is_root: bool) -> Ids:
    """`setuid` and `setgid`."""
    if wanted == UNCHANGED:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    if is_root:
        return Ids(wanted, wanted, wanted)
    if wanted not in (ids.real, ids.saved):
        raise _refuse()
    return ids._replace(effective=wanted)


def _set_three(ids: Ids, wanted: tuple[int, ...], *, is_root: bool) -> Ids:
    """`setresuid` and `setresgid`."""
    new = [old if value == UNCHANGED else value for old, value in zip(ids, wanted, strict=True)]
    if not is_root and any(value not in ids for value in new):
        raise _refuse()
    return Ids(*new)


def _set_two(ids: Ids, wanted: tuple[int, ...], *, is_root: bool) -> Ids:
    """`setreuid` and `setregid`: the saved id follows when the real one is set, or the effective one leaves it."""
    real, effective = (
        old if value == UNCHANGED else value for old, value in zip((ids.real, ids.effective), wanted, strict=True)
    )
    if not is_root and (real not in (ids.real, ids.effective) or effective not in ids):
        raise _refuse()
    follows = wanted[0] != UNCHANGED or (wanted[1] != UNCHANGED and effective != ids.real)
    return Ids(real, effective, effective if follows else ids.saved)


def changed(who: Who, call: str, wanted: tuple[int, ...], *, may: bool | None = None) -> Who:
    """Who a process is after `setuid`, `setresgid` or one of their relatives; raises `OSError`.

    `may`: whether it may do what root may, where that is not simply being root.
    """
    may = who.is_root if may is None else may
    is_users = call.endswith("uid")
    ids = who.users if is_users else who.groups
    shape = call.removeprefix("set").removesuffix("id")[:-1]
    if shape == "res":
        new = _set_three(ids, wanted, is_root=may)
    elif shape == "re":
        new = _set_two(ids, wanted, is_root=may)
    else:
        new = _set(ids, wanted[0], is_root=may)
    return who._replace(users=new) if is_users else who._replace(groups=new)


def with_groups(who: Who, others: tuple[int, ...], *, may: bool | None = None) -> Who:
    """Who a process is after `setgroups`; raises `PermissionError`. `may` as above."""
    if not (who.is_root if may is None else may):
        raise _refuse()
    return who._replace(others=others)


class Register:
    """Identities by number: the number is what a process and all that it starts carry."""

    def __init__(self) -> None:
        """Number 0 is root."""
        self._known: list[Who] = [ROOT]
        self._numbers: dict[Who, int] = {ROOT: 0}
        self._others = 0

    def number_of(self, who: Who) -> int:
        """Raises `OSError` when there have been too many, or too many groups in all."""
        if who not in self._numbers:
            if len(self._known) >= MOST or self._others + len(who.others) > MOST_OTHERS:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._others += len(who.others)
            self._numbers[who] = len(self._known)
            self._known.append(who)
        return self._numbers[who]

    def who(self, number: int) -> Who:
        """Whom a number means; unknown ones are root."""
        return self._known[number] if 0 <= number < len(self._known) else ROOT
