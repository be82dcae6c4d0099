"""Names of the sandbox, resolved by process 1 within the sandbox's root: users, and paths that may be hostile.

Process 1 can do more than the sandbox's programs, so a path is never followed through the kernel's magic links: a
link to `/proc/1/fd` must not lend them its descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Any, Final, NamedTuple

from . import owners
from . import syscalls as sc

RESOLVE: Final = sc.RESOLVE_IN_ROOT | sc.RESOLVE_NO_MAGICLINKS
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSWD, GROUP = ACCOUNTS = ("/etc/passwd", "/etc/group")
PASSWD_LIMIT: Final = 1 << 20
ID_DIGITS: Final = 10
SETTLED_NS: Final = 1_000_000_000

FileState = tuple[int, int, int, int]


def open_inside(path: str, flags: int, *, mode: int = 0) -> int:
    """Open a path of the sandbox; it cannot lead out of the root nor through a magic link."""
    quiet = 0 if flags & os.O_PATH else os.O_NOCTTY
    return sc.openat2(sc.AT_FDCWD, path, flags | quiet, mode=mode, resolve=RESOLVE)


class Identity:
    """A user of the sandbox as its `/etc/passwd` and `/etc/group` have it."""

    __slots__ = ("gid", "groups", "home", "name", "uid")

    def __init__(self, uid: int, gid: int, *, name: str, home: str, groups: list[int]) -> None:
        """`groups` are the supplementary ones."""
        self.uid = uid
        self.gid = gid
        self.name = name
        self.home = home
        self.groups = groups

    def environment(self, *, is_login: bool = True) -> dict[str, str]:
        """What a login would set, and no more; without one, what no program can do without."""
        if not is_login:
            return {"PATH": DEFAULT_PATH, "HOME": self.home}
        return {"PATH": DEFAULT_PATH, "HOME": self.home, "USER": self.name, "LOGNAME": self.name, "LANG": "C.UTF-8"}

    def assume(self) -> None:
        """Become this user for good; root stays as it is."""
        if self.uid == 0 and self.gid == 0:
            return
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def find_user(wanted: str) -> Identity:
    """`name`, `uid` or either with `:group`; raises `LookupError` when the sandbox has no such name."""
    state = tuple(_state(path) for path in ACCOUNTS)
    known = _known.get(wanted)
    if known is None or known.state != state:
        known = Known(state, _look_up(wanted))
        if _is_old(state):
            _known[wanted] = known
    found = known.identity
    home = found.home if _is_folder(found.home) else "/"
    return Identity(found.uid, found.gid, name=found.name, home=home, groups=found.groups)


class Known(NamedTuple):
    """Who a word means as long as the files of accounts are as they were."""

    state: tuple[FileState | None, ...]
    identity: Identity


_known: Final[dict[str, Known]] = {}


def _state(path: str) -> FileState | None:
    """What changes with a file's content; None for what is no file, such as a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns) if stat.S_ISREG(found.st_mode) else None


def _is_old(state: tuple[FileState | None, ...]) -> bool:
    """Whether a further change would show: two within one tick of the clock have the same time."""
    return all(found is not None and time.time_ns() - found[3] > SETTLED_NS for found in state)


def _look_up(wanted: str) -> Identity:
    name, _, group = wanted.partition(":")
    entry = next((row for row in _table(PASSWD, name) if _is_named(row, name)), None)
    if entry is None:
        if not _is_id(name) and name != "root":
            raise LookupError(f"the sandbox has no user {name}")
        uid = 0 if name == "root" else int(name)
        found = Identity(uid, uid, name=name, home="/root" if uid == 0 else "/", groups=[])
    else:
        groups = [int(row[2]) for row in _table(GROUP, entry[0]) if entry[0] in row[3].split(",")]
        found = Identity(int(entry[2]), int(entry[3]), name=entry[0], home=entry[5] or "/", groups=groups)
    if group:
        found.gid = find_group(group)
    return found


def _is_named(row: list[str], name: str) -> bool:
    return row[0] == name or (name.isdecimal() and row[2] == name)


def _is_folder(path: str) -> bool:
    try:
        os.close(open_inside(path, os.O_PATH | os.O_DIRECTORY))
    except OSError:
        return False
    return True


def find_group(group: str) -> int:
    """A group's number by its name or number; raises `LookupError`."""
    if _is_id(group):
        return int(group)
    for row in _table(GROUP, group):
        if row[0] == group:
            return int(row[2])
    raise LookupError(f"the sandbox has no group {group}")


def _table(path: str, word: str) -> list[list[str]]:
    """The rows of a colon-separated file of accounts that have the word in them; those that are none are left out."""
    try:
        fd = open_inside(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        text = os.read(fd, PASSWD_LIMIT).decode(errors="surrogateescape")
    except OSError:
        return []
    finally:
        os.close(fd)
    width, numbers = (7, slice(2, 4)) if path == PASSWD else (4, slice(2, 3))
    rows = [line.split(":") for line in text.splitlines() if word in line]
    return [row for row in rows if len(row) == width and all(_is_id(field) for field in row[numbers])]


def _is_id(field: str) -> bool:
    return field.isdecimal() and len(field) <= ID_DIGITS


def open_for(request: dict[str, Any]) -> int:
    """The descriptor of a regular file, to read or to write; raises `OSError` for anything else."""
    path: str = request["path"]
    if request["access"] == "read":
        fd = open_inside(path, os.O_RDONLY | os.O_NONBLOCK)
    else:
        owner = find_user(request["user"])
        make_folder(os.path.dirname(path))
        fd = _open_to_write(path, request["mode"])
    try:
        _check_regular(fd, path)
        if request["access"] == "write":
            os.fchmod(fd, request["mode"])
            owners.give(fd, owner.uid, owner.gid)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_regular(fd: int, path: str) -> None:
    """Raise `OSError` for what is no regular file, and for one of the kernel's.

    A link into /proc or /sys must not make process 1 read or write there with more rights than its planter has.
    """
    found = os.fstat(fd)
    if found.st_dev in (os.stat("/proc").st_dev, os.stat("/sys").st_dev):
        raise OSError(errno.EINVAL, "a file of the kernel", path)
    if not stat.S_ISREG(found.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(code, "not a regular file", path)


def _open_empty(path: str, mode: int) -> int:
    """Create a file, or open one with nothing in it: one of a lower layer is not copied only to be cut off."""
    try:
        place = open_inside(path, os.O_PATH)
    except FileNotFoundError:
        return open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, mode=mode)
    try:
        _check_regular(place, path)
        # Not blocking: whoever holds a lease on it would keep process 1 waiting for most of a minute.
        return os.open(f"/proc/self/fd/{place}", os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)


def _open_to_write(path: str, mode: int) -> int:
    """Open or create; a file that cannot be written in place, because the host owns it or for a lease, is replaced."""
    try:
        return _open_empty(path, mode)
    except (PermissionError, BlockingIOError):
        parent = open_inside(os.path.dirname(path) or "/", os.O_PATH | os.O_DIRECTORY)
        try:
            os.unlink(os.path.basename(path), dir_fd=parent)
        finally:
            os.close(parent)
        return open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=mode)


def make_folder(path: str) -> list[str]:
    """Make the folder and those above it where missing; those that were made, uppermost first."""
    if not path or path == "/":
        return []
    try:
        os.close(open_inside(path, os.O_PATH | os.O_DIRECTORY))
    except FileNotFoundError:
        parent, name = os.path.split(path.rstrip("/"))
        made = make_folder(parent)
        fd = open_inside(parent or "/", os.O_PATH | os.O_DIRECTORY)
        try:
            os.mkdir(name, 0o755, dir_fd=fd)
        except FileExistsError:
            raise FileNotFoundError(errno.ENOENT, "a link that leads nowhere", path) from None
        finally:
            os.close(fd)
        return [*made, path]
    return []
