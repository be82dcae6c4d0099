"""Who a process is after each call, where the kernel cannot say: held to the kernel itself, which knows for root."""

from __future__ import annotations

import errno
import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from termarena.sandbox.namespace.inside import calling, identities
from termarena.sandbox.namespace.inside.identities import MOST, MOST_OTHERS, ROOT, UNCHANGED, Ids, Register, single

VALUES = (0, 5, 7, UNCHANGED)
COUNTS = {"setuid": 1, "setreuid": 2, "setresuid": 3}
STARTS = (Ids(0, 0, 0), Ids(5, 5, 5), Ids(5, 7, 7), Ids(0, 5, 7), Ids(7, 0, 5))
BY_THE_KERNEL = """
import json, os, sys
found = []
for call, start, wanted in json.load(sys.stdin):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setresuid(*start)
        try:
            getattr(os, call)(*wanted)
            told = list(os.getresuid())
        except PermissionError:
            told = None
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.wait()
    found.append(json.loads(os.read(reading, 100)))
    os.close(reading)
    os.close(writing)
print(json.dumps(found))
"""
"""What a process that is somebody becomes by each call."""


def _by_us(call: str, start: Ids, wanted: tuple[int, ...]) -> list[int] | None:
    try:
        return list(identities.changed(single(0, 0)._replace(users=start), call, wanted).users)
    except PermissionError:
        return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others, to see what the kernel says")
def test_changes_of_users_are_the_kernels() -> None:
    cases = [
        (call, start, wanted)
        for call, count in COUNTS.items()
        for start, wanted in itertools.product(STARTS, itertools.product(VALUES, repeat=count))
        if (call, wanted) != ("setuid", (UNCHANGED,))  # the kernel calls it invalid
    ]
    asked = [(call, start, [-1 if one == UNCHANGED else one for one in wanted]) for call, start, wanted in cases]
    told = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", BY_THE_KERNEL], input=json.dumps(asked), capture_output=True, text=True, check=True
    ).stdout
    for case, theirs in zip(cases, json.loads(told), strict=True):
        assert _by_us(*case) == theirs, case


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
    assert register.who(-1) == ROOT  # a soft limit of a process that none was given to: there is no limit
    with pytest.raises(OSError, match="temporarily") as caught:
        register.number_of(single(MOST, MOST))
    assert caught.value.errno == errno.EAGAIN


def test_all_identities_together_have_so_many_groups() -> None:
    register = Register()
    groups = tuple(range(65_535))
    numbers = [register.number_of(ROOT._replace(others=(other, *groups))) for other in range(MOST_OTHERS // 65_536)]
    with pytest.raises(OSError, match="temporarily"):
        register.number_of(ROOT._replace(others=(1,)))
    assert register.number_of(ROOT._replace(others=(0, *groups))) == numbers[0]
    assert register.number_of(single(5, 5)) == len(numbers) + 1


@pytest.mark.parametrize("call", ["setuid", "setgid"])
def test_nobody_becomes_the_id_that_means_no_change(call: str) -> None:
    with pytest.raises(OSError, match="Invalid") as caught:
        identities.changed(ROOT, call, (UNCHANGED,))
    assert caught.value.errno == errno.EINVAL


def _open() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_asking_who_is_at_the_end_of_a_file_leaves_nothing_open(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with (tmp_path / "file").open("w") as file, ours, theirs:
        before = _open()
        assert [calling.peer_of(os.getpid(), file.fileno()) for _ in range(3)] == [0, 0, 0]
        assert calling.peer_of(os.getpid(), ours.fileno()) == os.getpid()
        assert _open() == before


IN_A_ROOT = "import os, signal, sys; os.chroot(sys.argv[1]); os.chdir('/below'); os.write(1, b'x'); signal.pause()"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_a_link_in_full_is_followed_below_the_callers_root(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "meant").write_text("x")
    (tmp_path / "below/link").symlink_to("/meant")
    with subprocess.Popen([sys.executable, "-c", IN_A_ROOT, tmp_path], stdout=subprocess.PIPE) as caller:  # noqa: S603 - ours
        try:
            assert caller.stdout is not None
            assert caller.stdout.read(1) == b"x"
            for path in ("link", "../below/./link", "/below/link", "../../../meant"):
                fd = calling.Place(caller.pid, calling.HERE, path).open()
                assert os.fstat(fd).st_ino == (tmp_path / "meant").stat().st_ino, path
                os.close(fd)
            folder, name = calling.Place(caller.pid, calling.HERE, "new").open_parent()
            assert (os.fstat(folder).st_ino, name) == ((tmp_path / "below").stat().st_ino, "new")
            os.close(folder)
        finally:
            caller.kill()
