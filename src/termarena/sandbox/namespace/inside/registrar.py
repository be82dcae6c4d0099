"""Users and owners where the kernel has one id to give: process 1 answers the calls that are about them.

The filter of every command hands these calls over and waits. Who a process is lies in the soft limit beside the
marker of its exec: inherited by all that it starts, and closed to it. Whose a file is lies in its attribute. Nobody
is kept from anything by that: to the kernel they are all one user.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import socket
import stat
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from . import calling, identities, owners, wire
from . import syscalls as sc
from .seccomp import MARKER_RESOURCE, TABLES

if TYPE_CHECKING:
    from .children import Launcher

RECEIVE, ANSWER, SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
SAME_PROCESSOR: Final = 1
"""The caller and we take turns: waking each other on one processor is quicker (kernel 6.6)."""
GO_ON: Final = 1
NOTICE: Final = struct.Struct("<QIIiIQ6Q")
REPLY: Final = struct.Struct("<QqiI")
NUMBER: Final = struct.Struct("<I")
STAT_USER: Final = {"x86_64": 28}.get(sc.MACHINE, 24)
STATX_USER: Final = 20
MOST_GROUPS: Final = 65_536
MOST_COMING: Final = 256
"""Files that are about to be made; of callers that ended before they made one, the oldest are forgotten."""
LONGEST_PID: Final = 9
LARGE_BYTES: Final = 4 << 20
"""The owner of a file this large is changed by a child: one of a lower layer is copied whole."""
MARKED_FROM: Final = 1 << 40
"""A soft limit of this size is the marker itself: the process is root."""


class _Coming(NamedTuple):
    """A file that somebody is about to make."""

    tid: int
    folder_fd: int
    name: str
    owner: tuple[int, int]


class _Result(NamedTuple):
    """What a call is answered with, in the kernel's order; `flags`: the kernel is to do it."""

    value: int = 0
    error: int = 0
    flags: int = 0


class _HandedOver(Exception):
    """A child of process 1 answers."""


class Registrar:
    """Answers for all commands of one sandbox."""

    launcher: Launcher | None = None
    """Who knows where a child is to be born."""
    _is_child = False

    def __init__(self) -> None:
        """Commands send the descriptors of their filters to `door`."""
        self.register = identities.Register()
        self._inbox, self.door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._inbox.settimeout(0)
        self._coming: list[_Coming] = []
        self._keepers: dict[int, bytes] = {}
        table = TABLES[sc.MACHINE]
        numbers = {**table.watched, **{name: at for name, at in table.checked.items() if name in HANDLERS}}
        self._handlers = {number: HANDLERS[name] for name, number in numbers.items()}
        self._names = {number: name for name, number in numbers.items()}
        places = ("/proc", "/sys")
        self._kernel = {os.stat(place).st_dev for place in places if os.path.isdir(place)}

    def fileno(self) -> int:
        """Readable when a command has sent a descriptor."""
        return self._inbox.fileno()

    def accept(self) -> list[int]:
        """The descriptors that have come; the caller polls and closes them."""
        found: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while (received := wire.receive(self._inbox)) is not None:
                found += received.fds
        for fd in found:
            with contextlib.suppress(OSError):
                fcntl.ioctl(fd, SET_FLAGS, SAME_PROCESSOR)
        return found

    def number_for(self, uid: int, gid: int, groups: list[int]) -> int:
        """What a command of this user is to carry; raises `OSError`."""
        return self.register.number_of(identities.single(uid, gid, tuple(groups)))

    def serve(self, listener: int) -> None:
        """Answer one call; one that nobody waits for any more is passed over."""
        buffer = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(listener, RECEIVE, buffer)
        except OSError:
            return
        notice, tid, _, number, _, _, *args = NOTICE.unpack(buffer)
        try:
            result = self._result(number, calling.Call(self._names[number], tid, args))
            with contextlib.suppress(OSError):
                fcntl.ioctl(listener, ANSWER, REPLY.pack(notice, *result))
        except _HandedOver:
            return
        finally:
            if self._is_child:
                os._exit(0)

    def _result(self, number: int, call: calling.Call) -> _Result:
        try:
            self.settle(call.tid)
            answer = self._handlers[number](self, call)
        except OSError as problem:
            return _Result(error=-(problem.errno or errno.EIO))
        except (ValueError, OverflowError, struct.error):
            return _Result(error=-errno.EINVAL)
        return _Result(flags=GO_ON) if answer is None else _Result(answer)

    def _hand_over(self, tid: int) -> None:
        """Go on in a child, which `serve` ends once it has answered; process 1 raises `_HandedOver`.

        It lives and dies as the caller's own processes do. Where there is no room for a child, process 1 goes on.
        """
        if self.launcher is None:
            return
        marker = resource.prlimit(tid, MARKER_RESOURCE)
        try:
            pid = self.launcher.fork()
        except OSError:
            return
        if pid:
            raise _HandedOver
        self._is_child = True
        self.launcher.join()
        resource.setrlimit(MARKER_RESOURCE, marker)

    # Who a process is.

    def who(self, tid: int) -> identities.Who:
        """Root for a process that has gone, and for one that carries no number, as process 1."""
        try:
            soft = resource.prlimit(tid, MARKER_RESOURCE)[0]
        except (ProcessLookupError, PermissionError):
            return identities.ROOT
        return identities.ROOT if soft >= MARKED_FROM else self.register.who(soft)

    def _become(self, tid: int, who: identities.Who) -> None:
        number = self.register.number_of(who)
        hard = resource.prlimit(tid, MARKER_RESOURCE)[1]
        resource.prlimit(tid, MARKER_RESOURCE, (number or hard, hard))

    def get_id(self, call: calling.Call) -> int | None:
        """`getuid`, `getegid` and the like."""
        who = self.who(call.tid)
        if who is identities.ROOT:
            return None
        ids = who.users if call.name.endswith("uid") else who.groups
        return ids.effective if call.name.startswith("gete") else ids.real

    def get_ids(self, call: calling.Call) -> int | None:
        """`getresuid` and `getresgid`."""
        who = self.who(call.tid)
        if who is identities.ROOT:
            return None
        for address, number in zip(call.args, who.users if call.name.endswith("uid") else who.groups, strict=False):
            sc.write_memory(call.tid, address, NUMBER.pack(number))
        return 0

    def get_groups(self, call: calling.Call) -> int | None:
        """`getgroups`."""
        who = self.who(call.tid)
        if who is identities.ROOT:
            return None
        room = call.args[0]
        if room and room < len(who.others):
            raise OSError(errno.EINVAL, "there are more groups")
        if room and who.others:
            sc.write_memory(call.tid, call.args[1], b"".join(NUMBER.pack(group) for group in who.others))
        return len(who.others)

    def set_id(self, call: calling.Call) -> int:
        """`setuid`, `setregid`, `setresuid` and the like."""
        count = {"setre": 2, "setres": 3}.get(call.name[:-3], 1)
        wanted = tuple(arg & identities.UNCHANGED for arg in call.args[:count])
        who = self.who(call.tid)
        self._become(call.tid, identities.changed(who, call.name, wanted, may=self._may(call.tid, who)))
        return 0

    def keep_rights(self, call: calling.Call) -> None:
        """`PR_SET_KEEPCAPS`: a program that becomes another user keeps its rights, until it executes another."""
        leader = calling.leader_of(call.tid)
        self._keepers.pop(leader, None)
        if call.args[1]:
            if len(self._keepers) >= MOST_COMING:
                self._keepers.pop(next(iter(self._keepers)))
            self._keepers[leader] = calling.program_of(leader)

    def _may(self, tid: int, who: identities.Who) -> bool:
        if who.is_root or not self._keepers:
            return who.is_root
        leader = calling.leader_of(tid)
        return self._keepers.get(leader) == calling.program_of(leader)

    def set_groups(self, call: calling.Call) -> int:
        """`setgroups`."""
        who, count = self.who(call.tid), call.args[0]
        may = self._may(call.tid, who)
        identities.with_groups(who, (), may=may)
        if count > MOST_GROUPS:
            raise OSError(errno.EINVAL, "too many groups")
        raw = call.bytes_at(1, 4 * count) if count else b""
        others = tuple(number for (number,) in NUMBER.iter_unpack(raw))
        self._become(call.tid, identities.with_groups(who, others, may=may))
        return 0

    def peer(self, call: calling.Call) -> int | None:
        """Who is at the other end of a local socket, by `SO_PEERCRED`."""
        pid = calling.peer_of(call.tid, call.args[0])
        who = self.who(pid) if pid > 0 else identities.ROOT
        room = NUMBER.unpack(call.bytes_at(4, NUMBER.size))[0]
        if who is identities.ROOT or room < calling.PEER.size:
            return None
        sc.write_memory(call.tid, call.args[3], calling.PEER.pack(pid, who.users.effective, who.groups.effective))
        sc.write_memory(call.tid, call.args[4], NUMBER.pack(calling.PEER.size))
        return 0

    # Whose a file is.

    def change_owner(self, call: calling.Call) -> int:
        """`chown` and its relatives; a file of the kernel's says that it changed and does not."""
        place, uid, gid = call.owning()
        try:
            fd = place.open()
        except OSError as error:
            if error.errno == errno.ELOOP and place.path.startswith(("/dev/", "/proc/")):
                return 0
            raise
        try:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode) and found.st_size >= LARGE_BYTES:
                self._hand_over(call.tid)
            if found.st_dev not in self._kernel:
                self._change_owner(f"/proc/self/fd/{fd}", self.who(call.tid), (uid, gid))
        finally:
            os.close(fd)
        return 0

    def _change_owner(self, path: str, who: identities.Who, wanted: tuple[int, int]) -> None:
        old = owners.of(path) or (0, 0)
        new = tuple(was if value == identities.UNCHANGED else value for was, value in zip(old, wanted, strict=True))
        may = who.is_root or (
            old[0] == who.users.effective == new[0] and new[1] in (old[1], who.groups.effective, *who.others)
        )
        if not may:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        # What the kernel does besides: a read-only place refuses, the time of change and the set-user bits follow.
        with contextlib.suppress(PermissionError):
            os.chown(path, -1, -1)
        if not owners.record(path, *new) and self._is_child:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def tell(self, call: calling.Call) -> int | None:
        """`stat` and its relatives, of what is not root's; anything else, errors too, is the kernel's to answer."""
        try:
            place = call.place()
            owner = self._owner_of_process(place.path)
            if owner is None and not owners.is_somebodys(place.shortcut, follows=place.follows):
                return None
            fd = place.open()
        except OSError:
            return None
        try:
            owner = owner or owners.of(f"/proc/self/fd/{fd}")
            if owner is None:
                return None
            if call.name == "statx":
                told = sc.raw_statx(fd, flags=call.args[2] & ~sc.AT_SYMLINK_NOFOLLOW, mask=call.args[3])
                struct.pack_into("<II", told, STATX_USER, *owner)
            else:
                told = sc.raw_stat(fd)
                struct.pack_into("<II", told, STAT_USER, *owner)
            sc.write_memory(call.tid, call.answer_address(), bytes(told))
        finally:
            os.close(fd)
        return 0

    def _owner_of_process(self, path: str) -> tuple[int, int] | None:
        """Whose the folder of a process in /proc is, and what lies in it; None for root's, and any other path."""
        _, _, number = path.partition("/proc/")
        number = number.partition("/")[0]
        if not path.startswith("/proc/") or not (number.isascii() and number.isdigit()) or len(number) > LONGEST_PID:
            return None
        who = self.who(int(number))
        return None if who is identities.ROOT else (who.users.effective, who.groups.effective)

    # What is made.

    def make(self, call: calling.Call) -> None:
        """A call that may make a file: the kernel does it, and the file becomes the caller's when it is there."""
        who = self.who(call.tid)
        if who is identities.ROOT:
            return
        with contextlib.suppress(OSError):
            folder, name = call.place().open_parent()
            if os.path.lexists(f"/proc/self/fd/{folder}/{name}"):
                os.close(folder)
                return
            found = os.fstat(folder)
            group = who.groups.effective
            if found.st_mode & stat.S_ISGID:
                group = (owners.of(f"/proc/self/fd/{folder}") or (0, 0))[1]
            self._coming.append(_Coming(call.tid, folder, name, (who.users.effective, group)))
            if len(self._coming) > MOST_COMING:
                os.close(self._coming.pop(0).folder_fd)

    def settle(self, tid: int | None = None) -> None:
        """Give what has been made to who made it; a caller that is here again has made it, or never will."""
        if not self._coming:
            return
        left = []
        for coming in self._coming:
            is_there = self._given(coming)
            if is_there or tid is None or coming.tid == tid:
                os.close(coming.folder_fd)
            else:
                left.append(coming)
        self._coming = left

    @staticmethod
    def _given(coming: _Coming) -> bool:
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(coming.name, flags, dir_fd=coming.folder_fd)
        except OSError:
            return False
        try:
            owners.record(f"/proc/self/fd/{fd}", *coming.owner)
        finally:
            os.close(fd)
        return True

    def move(self, _: calling.Call) -> None:
        """A name is about to change: what was made under it has been given away by now."""


HANDLERS: Final[dict[str, Any]] = {
    **dict.fromkeys(("chown", "lchown", "fchown", "fchownat"), Registrar.change_owner),
    **dict.fromkeys(("stat", "lstat", "fstat", "newfstatat", "statx"), Registrar.tell),
    **dict.fromkeys(("getuid", "geteuid", "getgid", "getegid"), Registrar.get_id),
    **dict.fromkeys(("getresuid", "getresgid"), Registrar.get_ids),
    "getgroups": Registrar.get_groups,
    **dict.fromkeys(("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid"), Registrar.set_id),
    "setgroups": Registrar.set_groups,
    "prctl": Registrar.keep_rights,
    "getsockopt": Registrar.peer,
    **dict.fromkeys(("open", "openat", "openat2", "creat", "mkdir", "mkdirat"), Registrar.make),
    **dict.fromkeys(("symlink", "symlinkat", "mknod", "mknodat"), Registrar.make),
    **dict.fromkeys(("rename", "renameat", "renameat2"), Registrar.move),
}
