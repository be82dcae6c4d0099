"""The system-call filter, run step by step: also for the machine that these tests do not run on."""

from __future__ import annotations

import errno
import struct
from typing import Final

import pytest

from termarena.sandbox.namespace.inside import seccomp

ALLOW, KILL, WATCH = 0x7FFF0000, 0x80000000, 0x7FC00000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
MACHINES: Final = tuple(seccomp.TABLES)
A_FEW_STEPS: Final = 24


def refused(code: int) -> int:
    return 0x00050000 | code


class Verdict:
    """What the filter says to a call, and after how many steps."""

    def __init__(self, program: bytes, number: int, *arguments: int, arch: int) -> None:
        data = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
        at = loaded = self.steps = 0
        while True:
            code, hit, miss, value = struct.unpack_from("<HBBI", program, at * 8)
            at, self.steps = at + 1, self.steps + 1
            if code == RETURN:
                self.value: int = value
                return
            if code == LOAD:
                (loaded,) = struct.unpack_from("<I", data, value)
                continue
            is_hit = {EQUAL: loaded == value, AT_LEAST: loaded >= value, ANY_BIT: bool(loaded & value)}[code]
            at += hit if is_hit else miss


@pytest.fixture(params=MACHINES)
def table(request: pytest.FixtureRequest) -> seccomp.SyscallTable:
    found: seccomp.SyscallTable = seccomp.TABLES[request.param]
    return found


def said(
    table: seccomp.SyscallTable, number: int, *arguments: int, watches: bool = False, arch: int | None = None
) -> int:
    machine = next(name for name, known in seccomp.TABLES.items() if known is table)
    program = seccomp.assemble(machine, watches_owners=watches)
    verdict = Verdict(program, number, *arguments, arch=table.audit_arch if arch is None else arch)
    assert verdict.steps <= A_FEW_STEPS
    return verdict.value


@pytest.mark.parametrize("watches", [False, True])
def test_every_number(table: seccomp.SyscallTable, *, watches: bool) -> None:
    special = {*table.denied.values(), *table.checked.values(), seccomp.CLONE3}
    special |= set(table.watched.values()) if watches else set()
    for number in range(seccomp.NEWEST_KNOWN + 1):
        if number in table.denied.values():
            assert said(table, number, watches=watches) == refused(errno.EPERM), number
        elif number not in special:
            assert said(table, number, watches=watches) == ALLOW, number
    for number in (seccomp.CLONE3, seccomp.NEWEST_KNOWN + 1, 0x40000000, 0xFFFFFFFF):
        assert said(table, number, watches=watches) == refused(errno.ENOSYS), number


def test_another_machine_is_killed(table: seccomp.SyscallTable) -> None:
    assert said(table, 0, arch=0x40000003) == KILL


def test_arguments_decide(table: seccomp.SyscallTable) -> None:
    call = table.checked
    eperm = refused(errno.EPERM)
    assert said(table, call["clone"], 0x01200011) == ALLOW
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert said(table, call["clone"], flag | 17) == eperm
    assert [said(table, call["ioctl"], 0, request) for request in (0x5401, 0x5412, 0x541C)] == [ALLOW, eperm, eperm]
    assert [said(table, call["socket"], family) for family in (1, 2, 10)] == [ALLOW] * 3
    assert {said(table, call["socket"], family) for family in (15, 38, 40)} == {refused(errno.EAFNOSUPPORT)}
    assert [said(table, call["personality"], value) for value in (0, 8, 4)] == [ALLOW, ALLOW, eperm]


def test_the_marker_of_an_exec_can_be_read_and_not_written(table: seccomp.SyscallTable) -> None:
    prlimit, setrlimit = table.checked["prlimit64"], table.checked["setrlimit"]
    marker = seccomp.MARKER_RESOURCE
    assert said(table, prlimit, 0, marker, 0) == ALLOW
    assert {said(table, prlimit, 0, marker, address) for address in (1, 1 << 32)} == {refused(errno.EPERM)}
    assert said(table, prlimit, 0, marker + 1, 1) == ALLOW
    assert said(table, setrlimit, marker) == refused(errno.EPERM)
    assert said(table, setrlimit, marker + 1) == ALLOW


def test_owners_are_watched_where_there_is_one_id(table: seccomp.SyscallTable) -> None:
    call = table.checked
    for number in table.watched.values():
        assert said(table, number, watches=True) == WATCH
    assert [said(table, call["openat"], 0, 0, flags, watches=True) for flags in (0, 0o101)] == [ALLOW, WATCH]
    assert [said(table, call["getsockopt"], 0, *at, watches=True) for at in ((1, 17), (1, 3), (6, 17))] == [
        WATCH,
        ALLOW,
        ALLOW,
    ]
    assert [said(table, call["prctl"], option, watches=True) for option in (8, 38)] == [WATCH, ALLOW]
    assert {said(table, call[name], watches=True) for name in ("setfsuid", "setfsgid", "capset")} == {refused(0)}
    assert said(table, call["capset"]) == ALLOW
