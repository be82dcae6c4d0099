"""Linux system calls that Python does not offer, through ctypes; each raises `OSError` with the call's name."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

MACHINE: Final = os.uname().machine

SYS_CLONE, SYS_PIVOT_ROOT, SYS_KEYCTL = {"x86_64": (56, 155, 250), "aarch64": (220, 41, 219)}.get(MACHINE, (-1, -1, -1))
SYS_SECCOMP, SYS_NEWFSTATAT, SYS_STATX = {"x86_64": (317, 262, 332), "aarch64": (277, 79, 291)}.get(
    MACHINE, (-1, -1, -1)
)
SYS_PIDFD_GETFD: Final = 438
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_FSOPEN, SYS_FSCONFIG, SYS_FSMOUNT, SYS_CLONE3 = 428, 429, 430, 431, 432, 435
SYS_CLOSE_RANGE, SYS_OPENAT2, SYS_MOUNT_SETATTR = 436, 437, 442

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_PARENT: Final = 0x8000
SIGCHLD: Final = 17
CLONE_INTO_CGROUP: Final = 0x200000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
MNT_DETACH: Final = 2

FSOPEN_CLOEXEC: Final = 1
FSCONFIG_SET_STRING, FSCONFIG_CMD_CREATE = 1, 6
AT_FDCWD: Final = -100
AT_EMPTY_PATH: Final = 0x1000
AT_SYMLINK_NOFOLLOW: Final = 0x100
OPEN_TREE_CLONE: Final = 1
MOVE_MOUNT_F_EMPTY_PATH: Final = 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_IDMAP = 1, 2, 4, 0x100000

RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_IN_ROOT = 2, 4, 16
OPEN_TRIES: Final = 64

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
KEYCTL_JOIN_SESSION_KEYRING: Final = 1

STAT_BYTES, STATX_BYTES = {"x86_64": 144}.get(MACHINE, 128), 256

_libc = ctypes.CDLL(None, use_errno=True)
# The same library with the interpreter lock held during the call: after a raw clone the child must own it.
_libc_locked = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc_locked.syscall.restype = ctypes.c_long


def _fail(name: str, *, path: str | None = None) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{name}: {os.strerror(code)}", path)


def _call(name: str, number: int, *args: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *args))
    if result < 0:
        raise _fail(name)
    return result


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def mount(
    source: str | None, target: str, *, fstype: str | None = None, flags: int = 0, options: str | None = None
) -> None:
    """`mount(2)`; options beyond 4,095 bytes are refused here because the kernel would cut them without a word."""
    data = _encoded(options)
    if data is not None and len(data) >= os.sysconf("SC_PAGE_SIZE"):
        raise OSError(7, "mount options longer than a page", target)
    if _libc.mount(_encoded(source), _encoded(target), _encoded(fstype), ctypes.c_ulong(flags), data) < 0:
        raise _fail(f"mount {fstype or 'bind'}", path=target)


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """`umount2(2)`."""
    if _libc.umount2(_encoded(target), flags) < 0:
        raise _fail("umount", path=target)


def unshare(flags: int) -> None:
    """`unshare(2)`."""
    if _libc.unshare(ctypes.c_int(flags)) < 0:
        raise _fail("unshare")


def pivot_root(new: str, old: str) -> None:
    """`pivot_root(2)`."""
    _call("pivot_root", SYS_PIVOT_ROOT, _encoded(new), _encoded(old))


def setns(fd: int, kind: int) -> None:
    """`setns(2)`; `kind` is the flag of the namespace that `fd` is to be."""
    if _libc.setns(fd, kind) < 0:
        raise _fail("setns")


def prctl(option: int, value: int = 0) -> int:
    """`prctl(2)` for the options that take one number."""
    unsigned = ctypes.c_ulong
    result = int(_libc.prctl(option, unsigned(value), unsigned(0), unsigned(0), unsigned(0)))
    if result < 0:
        raise _fail(f"prctl {option}")
    return result


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Install an assembled seccomp filter on the calling process; needs `no_new_privs`."""
    packed = _FilterProgram(len(program) // 8, program)
    unsigned = ctypes.c_ulong
    if _libc.prctl(PR_SET_SECCOMP, unsigned(2), ctypes.byref(packed), unsigned(0), unsigned(0)) < 0:
        raise _fail("seccomp")


SECCOMP_SET_MODE_FILTER, SECCOMP_NEW_LISTENER, SECCOMP_WAIT_KILLABLE = 1, 8, 32


def install_watched_filter(program: bytes) -> int:
    """Install a filter some of whose calls are decided by whoever reads the descriptor returned; as above.

    A caller that waits for an answer is not disturbed by signals that do not end it, where the kernel can (5.19): a
    program that is interrupted often would ask for ever.
    """
    packed = _FilterProgram(len(program) // 8, program)
    for flags in (SECCOMP_NEW_LISTENER | SECCOMP_WAIT_KILLABLE, SECCOMP_NEW_LISTENER):
        fd = int(
            _libc.syscall(
                ctypes.c_long(SYS_SECCOMP), SECCOMP_SET_MODE_FILTER, ctypes.c_uint(flags), ctypes.byref(packed)
            )
        )
        if fd >= 0:
            return fd
    raise _fail("seccomp")


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _transfer(name: str, pid: int, ours: ctypes.Array[ctypes.c_char], address: int) -> int:
    near, far = _Span(ctypes.addressof(ours), len(ours)), _Span(address, len(ours))
    unsigned = ctypes.c_ulong
    one, none = unsigned(1), unsigned(0)
    result = int(getattr(_libc, name)(pid, ctypes.byref(near), one, ctypes.byref(far), one, none))
    if result < 0:
        raise _fail(name)
    return result


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Bytes of another process's memory, as many as are there in one piece."""
    buffer = ctypes.create_string_buffer(size)
    count = _transfer("process_vm_readv", pid, buffer, address)
    return buffer.raw[:count]


def write_memory(pid: int, address: int, data: bytes) -> None:
    """Write into another process's memory; raises `OSError` where it may not be written."""
    if _transfer("process_vm_writev", pid, (ctypes.c_char * len(data)).from_buffer_copy(data), address) != len(data):
        raise OSError(14, "the memory ends")


def descriptor_of(pidfd: int, fd: int) -> int:
    """A copy of another process's descriptor."""
    return _call("pidfd_getfd", SYS_PIDFD_GETFD, pidfd, fd, ctypes.c_uint(0))


def raw_stat(fd: int) -> bytearray:
    """What the kernel says of an open file, in the form in which programs get it."""
    buffer = ctypes.create_string_buffer(STAT_BYTES)
    _call("newfstatat", SYS_NEWFSTATAT, fd, b"", ctypes.byref(buffer), AT_EMPTY_PATH)
    return bytearray(buffer.raw)


def raw_statx(fd: int, *, flags: int, mask: int) -> bytearray:
    """The same of `statx`."""
    buffer = ctypes.create_string_buffer(STATX_BYTES)
    wanted = ctypes.c_uint(flags | AT_EMPTY_PATH)
    _call("statx", SYS_STATX, fd, b"", wanted, ctypes.c_uint(mask), ctypes.byref(buffer))
    return bytearray(buffer.raw)


def close_range(first: int, last: int) -> None:
    """Close every file descriptor from `first` to `last`."""
    if first <= last:
        _call("close_range", SYS_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(last), ctypes.c_uint(0))


def close_all_but(keep: set[int]) -> None:
    """Close every file descriptor that is not in `keep`."""
    first = 0
    for fd in sorted(keep):
        close_range(first, fd - 1)
        first = fd + 1
    close_range(first, 0x7FFFFFFF)


class _CloneArguments(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls", "set_tid",
            "set_tid_size", "cgroup",
        )
    )  # fmt: skip


def clone(flags: int = 0, *, cgroup_fd: int | None = None) -> int:
    """Fork, into new namespaces, or into a cgroup of version 2 given by its folder.

    The caller must have one thread only, or the child may hang in `malloc`.
    """
    api = ctypes.pythonapi
    api.PyOS_BeforeFork()
    pid = _plain_clone(flags) if cgroup_fd is None else _clone_into(flags, cgroup_fd)
    if pid == 0:
        api.PyOS_AfterFork_Child()
        return 0
    code = ctypes.get_errno()
    api.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(code, f"clone: {os.strerror(code)}")
    return pid


def _plain_clone(flags: int) -> int:
    """The older call: filters that know clone3 refuse it without looking at its flags."""
    zero = ctypes.c_ulong(0)
    return int(_libc_locked.syscall(ctypes.c_long(SYS_CLONE), ctypes.c_ulong(flags | SIGCHLD), zero, zero, zero, zero))


def _clone_into(flags: int, cgroup_fd: int) -> int:
    wanted = _CloneArguments(flags=flags | CLONE_INTO_CGROUP, exit_signal=SIGCHLD, cgroup=cgroup_fd)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    return int(_libc_locked.syscall(ctypes.c_long(SYS_CLONE3), ctypes.byref(wanted), size))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(dir_fd: int, path: str, flags: int, *, mode: int = 0, resolve: int) -> int:
    """`openat2(2)`: open below `dir_fd` with the given `RESOLVE_*` restrictions; the result is close-on-exec.

    What a rename or a mount anywhere on the machine meets on its way through `..` is tried again: the kernel does not
    know then whether it stayed below the root, and says EAGAIN.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    name = _encoded(path)
    for left in reversed(range(OPEN_TRIES)):
        result = int(_libc.syscall(ctypes.c_long(SYS_OPENAT2), dir_fd, name, ctypes.byref(how), ctypes.c_size_t(24)))
        if result >= 0:
            return result
        code = ctypes.get_errno()
        if code != errno.EAGAIN or not left:
            break
    raise OSError(code, os.strerror(code), path)


def open_tree(path: str, *, dir_fd: int = AT_FDCWD) -> int:
    """A detached copy of the mount at `path`, without the mounts below it."""
    flags = OPEN_TREE_CLONE | os.O_CLOEXEC | (AT_EMPTY_PATH if not path else 0)
    return _call("open_tree", SYS_OPEN_TREE, dir_fd, _encoded(path), ctypes.c_uint(flags))


def move_mount(tree_fd: int, target: str) -> None:
    """Attach a detached mount at `target`."""
    _call(
        "move_mount", SYS_MOVE_MOUNT, tree_fd, b"", AT_FDCWD, _encoded(target), ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH)
    )


def detached_overlay(lowers: list[str]) -> int:
    """A read-only overlay of at least two folders, uppermost first, that is mounted nowhere (kernel 6.5)."""
    fs = _call("fsopen", SYS_FSOPEN, b"overlay", ctypes.c_uint(FSOPEN_CLOEXEC))
    try:
        for lower in lowers:
            _call("fsconfig", SYS_FSCONFIG, fs, ctypes.c_uint(FSCONFIG_SET_STRING), b"lowerdir+", _encoded(lower), 0)
        _call("fsconfig", SYS_FSCONFIG, fs, ctypes.c_uint(FSCONFIG_CMD_CREATE), None, None, 0)
        attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
        return _call("fsmount", SYS_FSMOUNT, fs, ctypes.c_uint(FSOPEN_CLOEXEC), ctypes.c_uint(attributes))
    finally:
        os.close(fs)


class _MountAttributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd"))


def set_mount_attributes(tree_fd: int, attributes: int, *, userns_fd: int = 0) -> None:
    """`mount_setattr(2)` on a detached mount."""
    wanted = _MountAttributes(attributes, 0, 0, userns_fd)
    _call("mount_setattr", SYS_MOUNT_SETATTR, tree_fd, b"", AT_EMPTY_PATH, ctypes.byref(wanted), ctypes.c_size_t(32))


def join_fresh_keyring() -> None:
    """Leave the inherited session keyring, so that no key of the host's session is reachable."""
    _call("keyctl", SYS_KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, None)


def set_hostname(name: str) -> None:
    """`sethostname(2)`."""
    raw = os.fsencode(name)
    if _libc.sethostname(raw, ctypes.c_size_t(len(raw))) < 0:
        raise _fail("sethostname")


def overwrite_command_line(title: bytes) -> None:
    """Replace the process's visible argv, which names paths of the host, by `title`."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, min(len(title), end - start - 1))
