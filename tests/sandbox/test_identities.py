"""Who a process is after each call, where the kernel cannot say: held to the kernel itself, which knows for root."""

from __future__ import annotations

import errno
import itertools
import os
from typing import TYPE_CHECKING

import pytest

from termarena.sandbox.namespace.inside import identities
from termarena.sandbox.namespace.inside.identities import MOST, ROOT, UNCHANGED, Ids, Register, single

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = (0, 5, 7, UNCHANGED)
SETTERS: dict[str, tuple[Callable[..., None], int]] = {
    "setuid": (os.setuid, 1), "setreuid": (os.setreuid, 2), "setresuid": (os.setresuid, 3),
    "setgid": (os.setgid, 1), "setregid": (os.setregid, 2), "setresgid": (os.setresgid, 3),
}  # fmt: skip
STARTS = (Ids(0, 0, 0), Ids(5, 5, 5), Ids(5, 7, 7), Ids(0, 5, 7), Ids(7, 0, 5))


def _by_the_kernel(call: str, start: Ids, wanted: tuple[int, ...]) -> str:
    """What a child that is `start` becomes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            is_users = call.endswith("uid")
            (os.setresuid if is_users else os.setresgid)(*start)
            try:
                SETTERS[call][0](*(-1 if value == UNCHANGED else value for value in wanted))
                told = repr(tuple((os.getresuid if is_users else os.getresgid)()))
            except PermissionError:
                told = "refused"
            os.write(writing, told.encode())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        return os.read(reading, 100).decode()
    finally:
        os.close(reading)
        os.waitpid(pid, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others, to see what the kernel says")
@pytest.mark.parametrize("call", ["setuid", "setreuid", "setresuid"])
def test_changes_of_users_are_the_kernels(call: str) -> None:
    count = SETTERS[call][1]
    for start, wanted in itertools.product(STARTS, itertools.product(VALUES, repeat=count)):
        if call == "setuid" and wanted == (UNCHANGED,):
            continue  # the kernel calls it invalid
        who = single(0, 0)._replace(users=start)
        try:
            ours = repr(tuple(identities.changed(who, call, wanted).users))
        except PermissionError:
            ours = "refused"
        assert ours == _by_the_kernel(call, start, wanted), (start, wanted)


def test_groups_change_as_users_do_by_the_users_rights() -> None:
    alice = single(5, 5)
    assert identities.changed(alice, "setresgid", (UNCHANGED, 5, 5)).groups == Ids(5, 5, 5)
    with pytest.raises(PermissionError):
        identities.changed(alice, "setgid", (7,))
    assert identities.changed(ROOT, "setregid", (7, UNCHANGED)).groups == Ids(7, 0, 0)
    assert identities.with_groups(ROOT, (1, 2)).others == (1, 2)
    with pytest.raises(PermissionError):
        identities.with_groups(alice, ())


def test_a_number_means_one_identity_and_there_are_not_endlessly_many() -> None:
    register = Register()
    numbers = [register.number_of(single(uid, uid)) for uid in range(1, MOST)]
    assert (register.number_of(ROOT), numbers[0], len(set(numbers))) == (0, 1, MOST - 1)
    assert register.who(numbers[4]) == single(5, 5)
    assert register.who(MOST + 1) == ROOT
    with pytest.raises(OSError, match="temporarily") as caught:
        register.number_of(single(MOST, MOST))
    assert caught.value.errno == errno.EAGAIN
