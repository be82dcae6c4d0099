"""The system-call filter: what Docker's default profile refuses to a container without extra capabilities.

The filter is a classic BPF program, assembled here and installed by each command before it is executed. Numbers newer
than the table give ENOSYS, so that a C library falls back to an older call.
"""

from __future__ import annotations

import errno
import functools
import struct
from typing import Final

from .syscalls import MACHINE

MARKER_RESOURCE: Final = 15
"""RLIMIT_RTTIME. Its value tells which exec a process belongs to; the filter keeps a process from changing it."""

_DENIED_X86_64: Final = {
    "acct": 163, "add_key": 248, "afs_syscall": 183, "bpf": 321, "clock_settime": 227, "clock_adjtime": 305,
    "adjtimex": 159, "create_module": 174, "delete_module": 176, "fanotify_init": 300, "finit_module": 313,
    "fsconfig": 431, "fsmount": 432, "fsopen": 430, "fspick": 433, "get_kernel_syms": 177, "get_mempolicy": 239,
    "init_module": 175, "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425, "ioperm": 173,
    "iopl": 172, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "lookup_dcookie": 212,
    "mbind": 237, "migrate_pages": 256, "mount": 165, "mount_setattr": 442, "move_mount": 429, "move_pages": 279,
    "name_to_handle_at": 303, "nfsservctl": 180, "open_by_handle_at": 304, "open_tree": 428, "perf_event_open": 298,
    "pidfd_getfd": 438, "pivot_root": 155, "process_madvise": 440, "process_vm_readv": 310, "process_vm_writev": 311,
    "query_module": 178, "quotactl": 179, "quotactl_fd": 443, "reboot": 169, "request_key": 249,
    "set_mempolicy": 238, "setdomainname": 171, "sethostname": 170, "setns": 308, "settimeofday": 164,
    "swapoff": 168, "swapon": 167, "sysfs": 139, "_sysctl": 156, "syslog": 103, "umount2": 166, "unshare": 272,
    "uselib": 134, "userfaultfd": 323, "ustat": 136, "vhangup": 153, "vserver": 236,
}  # fmt: skip

_DENIED_AARCH64: Final = {
    "acct": 89, "add_key": 217, "bpf": 280, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171,
    "delete_module": 106, "fanotify_init": 262, "finit_module": 273, "fsconfig": 431, "fsmount": 432, "fsopen": 430,
    "fspick": 433, "get_mempolicy": 236, "init_module": 105, "io_uring_enter": 426, "io_uring_register": 427,
    "io_uring_setup": 425, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219,
    "lookup_dcookie": 18, "mbind": 235, "migrate_pages": 238, "mount": 40, "mount_setattr": 442, "move_mount": 429,
    "move_pages": 239, "name_to_handle_at": 264, "nfsservctl": 42, "open_by_handle_at": 265, "open_tree": 428,
    "perf_event_open": 241, "pidfd_getfd": 438, "pivot_root": 41, "process_madvise": 440, "process_vm_readv": 270,
    "process_vm_writev": 271, "quotactl": 60, "quotactl_fd": 443, "reboot": 142, "request_key": 218,
    "set_mempolicy": 237, "setdomainname": 162, "sethostname": 161, "setns": 268, "settimeofday": 170,
    "swapoff": 225, "swapon": 224, "syslog": 116, "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58,
}  # fmt: skip


_WATCHED_X86_64: Final = {
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "stat": 4, "fstat": 5, "lstat": 6, "newfstatat": 262,
    "statx": 332, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getresuid": 118, "getresgid": 120,
    "getgroups": 115, "setuid": 105, "setgid": 106, "setreuid": 113, "setregid": 114, "setresuid": 117,
    "setresgid": 119, "setgroups": 116, "creat": 85, "openat2": 437, "mkdir": 83, "mkdirat": 258, "symlink": 88,
    "symlinkat": 266, "mknod": 133, "mknodat": 259, "rename": 82, "renameat": 264, "renameat2": 316,
}  # fmt: skip
_WATCHED_AARCH64: Final = {
    "fchown": 55, "fchownat": 54, "fstat": 80, "newfstatat": 79, "statx": 291, "getuid": 174, "getgid": 176,
    "geteuid": 175, "getegid": 177, "getresuid": 148, "getresgid": 150, "getgroups": 158, "setuid": 146,
    "setgid": 144, "setreuid": 145, "setregid": 143, "setresuid": 147, "setresgid": 149, "setgroups": 159,
    "openat2": 437, "mkdirat": 34, "symlinkat": 36, "mknodat": 33, "renameat": 38, "renameat2": 276,
}  # fmt: skip


class SyscallTable:
    """What the filter needs to know about one architecture."""

    def __init__(
        self, *, audit_arch: int, denied: dict[str, int], checked: dict[str, int], watched: dict[str, int]
    ) -> None:
        """`checked` holds the numbers of calls whose arguments decide: clone, ioctl, socket, prlimit64 and others.

        `watched` are those about owners and users, which process 1 answers where there is one id.
        """
        self.audit_arch = audit_arch
        self.denied = denied
        self.checked = checked
        self.watched = watched


TABLES: Final = {
    "x86_64": SyscallTable(
        audit_arch=0xC000003E,
        denied=_DENIED_X86_64,
        checked={
            "clone": 56,
            "ioctl": 16,
            "socket": 41,
            "personality": 135,
            "prlimit64": 302,
            "setrlimit": 160,
            "open": 2,
            "openat": 257,
            "getsockopt": 55,
            "prctl": 157,
            "setfsuid": 122,
            "setfsgid": 123,
            "capset": 126,
        },
        watched=_WATCHED_X86_64,
    ),
    "aarch64": SyscallTable(
        audit_arch=0xC00000B7,
        denied=_DENIED_AARCH64,
        checked={
            "clone": 220,
            "ioctl": 29,
            "socket": 198,
            "personality": 92,
            "prlimit64": 261,
            "setrlimit": 164,
            "openat": 56,
            "getsockopt": 209,
            "prctl": 167,
            "setfsuid": 151,
            "setfsgid": 152,
            "capset": 91,
        },
        watched=_WATCHED_AARCH64,
    ),
}

CLONE3: Final = 435
# The last number whose meaning was known when the table was written (6.10: mseal 462).
NEWEST_KNOWN: Final = 462
NAMESPACE_FLAGS: Final = 0x7E020000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
AF_KEY, AF_ALG, AF_VSOCK = 15, 38, 40
O_CREAT, SOL_SOCKET, SO_PEERCRED, PR_SET_KEEPCAPS = 0o100, 1, 17, 8
PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _WATCH = 0x7FFF0000, 0x80000000, 0x7FC00000
_NR, _ARCH, _ARGS = 0, 4, 16
FEW: Final = 3
"""So many cases are looked at one after the other."""


def _errno(code: int) -> int:
    return 0x00050000 | code


def _step(code: int, value: int, *, hit: int = 0, miss: int = 0) -> bytes:
    return struct.pack("<HBBI", code, hit, miss, value)


def _argument(index: int, *, high: bool = False) -> bytes:
    return _step(_LD, _ARGS + 8 * index + (4 if high else 0))


def _among(cases: list[tuple[int, bytes]]) -> bytes:
    """The body of the case that has the call's number, each ending with a return; other numbers are allowed.

    Found by halving: the kernel runs the whole filter for every number when it is installed, and each command does so.
    """
    if len(cases) <= FEW:
        return b"".join(_step(_JEQ, number, miss=len(body) // 8) + body for number, body in cases) + _step(_RET, _ALLOW)
    middle = len(cases) // 2
    below = _among(cases[:middle])
    return _step(_JGE, cases[middle][0], hit=len(below) // 8) + below + _among(cases[middle:])


def _refuse_values(index: int, values: tuple[int, ...], verdict: int) -> bytes:
    count = len(values)
    tests = b"".join(_step(_JEQ, value, hit=count - at) for at, value in enumerate(values))
    return _argument(index) + tests + _step(_RET, _ALLOW) + _step(_RET, verdict)


def _accept_values(index: int, values: tuple[int, ...], verdict: int) -> bytes:
    count = len(values)
    tests = b"".join(_step(_JEQ, value, hit=count - at) for at, value in enumerate(values))
    return _argument(index) + tests + _step(_RET, verdict) + _step(_RET, _ALLOW)


def _keep_marker() -> bytes:
    """`prlimit64` may read the marker and not write it: resource in argument 1, the new value's address in 2."""
    refuse = _step(_RET, _errno(errno.EPERM))
    return (
        _argument(1)
        + _step(_JEQ, MARKER_RESOURCE, miss=5)
        + _argument(2)
        + _step(_JEQ, 0, miss=2)
        + _argument(2, high=True)
        + _step(_JEQ, 0, hit=1)
        + refuse
        + _step(_RET, _ALLOW)
    )


def _watch_owners(table: SyscallTable) -> dict[int, bytes]:
    """What process 1 decides: who a process is, whose a file is, and what may make a file.

    Rights that would be given away stay: a process has no others. The ids of file access follow the user's.
    """
    checked, watch = table.checked, _step(_RET, _WATCH)
    done, allow = _step(_RET, _errno(0)), _step(_RET, _ALLOW)
    cases = {checked[name]: done for name in ("setfsuid", "setfsgid", "capset")}
    for name, index in (("open", 1), ("openat", 2)):
        if name in checked:
            cases[checked[name]] = _argument(index) + _step(_JSET, O_CREAT, hit=1) + allow + watch
    peer = _argument(1) + _step(_JEQ, SOL_SOCKET, miss=2) + _argument(2) + _step(_JEQ, SO_PEERCRED, hit=1)
    cases[checked["getsockopt"]] = peer + allow + watch
    cases[checked["prctl"]] = _argument(0) + _step(_JEQ, PR_SET_KEEPCAPS, hit=1) + allow + watch
    return cases | dict.fromkeys(table.watched.values(), watch)


@functools.cache
def assemble(machine: str = MACHINE, *, watches_owners: bool = False) -> bytes:
    """The filter for `machine`; raises `LookupError` where there is no table for it.

    `watches_owners`: calls about owners and users are decided by process 1, so that a package can be installed and a
    service change its user where there is one id only.
    """
    table = TABLES[machine]
    eperm, enosys = _errno(errno.EPERM), _errno(errno.ENOSYS)
    checked = table.checked
    flags = _argument(0) + _step(_JSET, NAMESPACE_FLAGS, hit=1) + _step(_RET, _ALLOW) + _step(_RET, eperm)
    cases = {
        **dict.fromkeys(table.denied.values(), _step(_RET, eperm)),
        CLONE3: _step(_RET, enosys),
        checked["clone"]: flags,
        checked["ioctl"]: _refuse_values(1, (TIOCSTI, TIOCLINUX), eperm),
        checked["socket"]: _refuse_values(0, (AF_KEY, AF_ALG, AF_VSOCK), _errno(errno.EAFNOSUPPORT)),
        checked["personality"]: _accept_values(0, PERSONALITIES, eperm),
        checked["prlimit64"]: _keep_marker(),
        checked["setrlimit"]: _refuse_values(0, (MARKER_RESOURCE,), eperm),
        **(_watch_owners(table) if watches_owners else {}),
    }
    known = [
        _step(_LD, _ARCH),
        _step(_JEQ, table.audit_arch, hit=1),
        _step(_RET, _KILL),
        _step(_LD, _NR),
        _step(_JGE, NEWEST_KNOWN + 1, miss=1),
        _step(_RET, enosys),
    ]
    return b"".join(known) + _among(sorted(cases.items()))
