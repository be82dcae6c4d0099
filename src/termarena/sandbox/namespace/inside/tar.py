"""Tar streams of folders, written and read without following a link: the form in which trees and snapshots travel.

The archives are POSIX (pax) and readable by any tar. Each member's first folder is a number that chooses one of
several roots. In an *exact* archive a deleted name is a character device 0:0 and a folder that hides the one below it
carries the attribute `user.overlay.opaque`: the form that overlayfs itself uses.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import IO, TYPE_CHECKING, Final

from . import syscalls as sc

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK: Final = 512
CHUNK: Final = 1 << 20
OPAQUE: Final = "user.overlay.opaque"
TRUSTED_OPAQUE: Final = "trusted.overlay.opaque"
"""The same in a layer of an overlay that root mounted in the usual way; an archive has the other one."""
HOUSEKEEPING: Final = ("user.overlay.", "user.termarena.")
"""Attributes that an image must not bring: overlayfs and we would take them for our own."""
OWNER: Final = "user.termarena.owner"
"""On a file where there is one id: whose it is meant to be."""
IMPLIED: Final = "user.termarena.implied"
"""On a folder that an archive needs and does not bring: one that is there keeps its mode and owner."""
ACCESS_LISTS: Final = frozenset({"system.posix_acl_access", "system.posix_acl_default"})
"""Who else may use a file, beyond its mode: the ids in them are as they are seen by whoever packs and unpacks."""
BENEATH: Final = sc.RESOLVE_NO_SYMLINKS | sc.RESOLVE_IN_ROOT
MAX_OCTAL_SIZE: Final = 8**11
MAX_OCTAL_ID: Final = 8**7
SHORT_NAME: Final = 100
KINDS: Final = {
    b"0": "file",
    b"\0": "file",
    b"1": "link",
    b"2": "symlink",
    b"3": "device",
    b"4": "device",
    b"5": "folder",
    b"6": "fifo",
}
LETTERS: Final = {"file": b"0", "link": b"1", "symlink": b"2", "device": b"3", "folder": b"5", "fifo": b"6"}


class Member:
    """One entry of an archive."""

    __slots__ = ("attributes", "gid", "kind", "mode", "mtime_ns", "name", "size", "target", "uid")

    def __init__(self, name: str, kind: str, found: os.stat_result | None = None, *, target: str = "") -> None:
        """`target` is what a link points to; `found` gives mode, owner, size and time."""
        self.name = name
        self.kind = kind
        self.target = target
        self.mode = stat.S_IMODE(found.st_mode) if found else 0o755
        self.uid = found.st_uid if found else 0
        self.gid = found.st_gid if found else 0
        self.size = found.st_size if found and kind == "file" else 0
        self.mtime_ns = found.st_mtime_ns if found else 0
        self.attributes: dict[str, bytes] = {}


def header(member: Member) -> bytes:
    """The blocks that announce a member: a pax header where the short one cannot hold everything, and the short one."""
    name, target = os.fsencode(member.name), os.fsencode(member.target)
    seconds, nanoseconds = divmod(member.mtime_ns, 10**9)
    records = [(b"SCHILY.xattr." + key.encode(), value) for key, value in member.attributes.items()]
    for key, raw in ((b"path", name), (b"linkpath", target)):
        if len(raw) > SHORT_NAME or not raw.isascii():
            records.append((key, raw))
    if nanoseconds or not 0 <= seconds < MAX_OCTAL_SIZE:
        records.append(
            (
                b"mtime",
                f"{member.mtime_ns / 10**9:.9f}".encode() if seconds < 0 else b"%d.%09d" % (seconds, nanoseconds),
            )
        )
    if member.size >= MAX_OCTAL_SIZE:
        records.append((b"size", b"%d" % member.size))
    for key, number in ((b"uid", member.uid), (b"gid", member.gid)):
        if number >= MAX_OCTAL_ID:
            records.append((key, b"%d" % number))
    if any(_not_text(value) for key, value in records if key in (b"path", b"linkpath")):
        records.insert(0, (b"hdrcharset", b"BINARY"))
    short = _short_header(member, name[:SHORT_NAME], target[:SHORT_NAME], LETTERS[member.kind])
    if not records:
        return short
    body = b"".join(_record(key, value) for key, value in records)
    extended = Member("pax", "file")
    extended.size, extended.mode = len(body), 0o644
    return _short_header(extended, b"pax", b"", b"x") + body + bytes(-len(body) % BLOCK) + short


def _not_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest)
    while (total := len(b"%d" % size) + len(rest)) != size:
        size = total
    return b"%d" % size + rest


def _short_header(member: Member, name: bytes, target: bytes, letter: bytes) -> bytes:
    size = member.size if member.size < MAX_OCTAL_SIZE else 0
    fields = b"%b%07o\0%07o\0%07o\0%011o\0%011o\0        %b%bustar\00000%64b%b%b" % (
        name.ljust(SHORT_NAME, b"\0"),
        member.mode,
        member.uid if member.uid < MAX_OCTAL_ID else 0,
        member.gid if member.gid < MAX_OCTAL_ID else 0,
        size,
        min(max(0, member.mtime_ns // 10**9), MAX_OCTAL_SIZE - 1),
        letter,
        target.ljust(SHORT_NAME, b"\0"),
        bytes(64),
        b"0000000\0" * 2,
        bytes(167),
    )
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


class Packer:
    """Writes one archive to a descriptor."""

    def __init__(
        self, out: IO[bytes], *, exact: bool, max_bytes: int | None = None, keeps: frozenset[str] = frozenset()
    ) -> None:
        """`exact` keeps whiteouts and attributes, those named in `keeps` too; otherwise devices are left out.

        `max_bytes` of content raise EFBIG: files with holes can seem far larger than any disk.
        """
        self.keeps = keeps
        self.out = out
        self.left_bytes = max_bytes
        self.exact = exact
        self.skipped: list[str] = []
        self._links: dict[tuple[int, int], str] = {}

    def pack(self, root_fd: int, prefix: str) -> None:
        """Add everything below the folder under the name `prefix`."""
        self._links.clear()
        pending = [""]
        while pending:
            folder = pending.pop()
            fd = open_folder(root_fd, folder)
            if fd is None:
                self.skipped.append(f"{prefix}/{folder}")
                continue
            try:
                self._add_folder(fd, f"{prefix}/{folder}" if folder else prefix)
                for name in sorted(os.listdir(fd)):
                    inner = f"{folder}/{name}" if folder else name
                    if self._add(fd, name, f"{prefix}/{inner}"):
                        pending.append(inner)
            finally:
                os.close(fd)

    def finish(self) -> None:
        """Write the two empty blocks that end an archive."""
        self.out.write(bytes(2 * BLOCK))
        self.out.flush()

    def write_header(self, member: Member) -> None:
        """Announce a member."""
        self.out.write(header(member))

    def _add_folder(self, fd: int, name: str) -> None:
        member = Member(name, "folder", os.fstat(fd))
        if self.exact:
            member.attributes = attributes_of(fd, self.keeps)
        self.write_header(member)

    def _add(self, folder_fd: int, name: str, member_name: str) -> bool:
        """Add one entry; True for a folder, which is to be walked."""
        try:
            found = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFDIR:
            return True
        earlier = self._links.get((found.st_dev, found.st_ino)) if found.st_nlink > 1 else None
        if kind == stat.S_IFLNK:
            self.write_header(Member(member_name, "symlink", found, target=os.readlink(name, dir_fd=folder_fd)))
        elif earlier is not None:
            self.write_header(Member(member_name, "link", found, target=earlier))
        elif kind == stat.S_IFREG:
            self._add_file(folder_fd, name, member_name)
            self._links[found.st_dev, found.st_ino] = member_name
        elif kind == stat.S_IFIFO:
            self.write_header(Member(member_name, "fifo", found))
        elif self.exact and is_whiteout(found):
            self.write_header(Member(member_name, "device", found))
        else:
            self.skipped.append(member_name)
        return False

    def _spend(self, member: Member) -> None:
        if self.left_bytes is not None:
            self.left_bytes -= member.size
            if self.left_bytes < 0:
                raise OSError(errno.EFBIG, "the files are larger than allowed", member.name.partition("/")[2])

    def _add_file(self, folder_fd: int, name: str, member_name: str) -> None:
        try:
            fd = open_regular(name, folder_fd)
        except (FileNotFoundError, IsADirectoryError):
            self.skipped.append(member_name)
            return
        self.pack_file(fd, member_name)

    def pack_file(self, fd: int, member_name: str) -> None:
        """Add a regular file by its descriptor, which is closed."""
        try:
            member = Member(member_name, "file", os.fstat(fd))
            self._spend(member)
            if self.exact:
                member.attributes = attributes_of(fd, self.keeps)
            self.write_header(member)
            left = member.size
            while left and (chunk := os.read(fd, min(CHUNK, left))):
                self.out.write(chunk)
                left -= len(chunk)
            # A file that shrank while it was read is filled up: its size has been announced.
            self.out.write(bytes(left + -member.size % BLOCK))
        finally:
            os.close(fd)


def open_folder(root_fd: int, path: str) -> int | None:
    """Open a folder below another to list it; None where it lies deeper than the kernel takes a path, 4096 bytes.

    No command reaches such a folder by its path either. Raises `OSError`.
    """
    try:
        return sc.openat2(root_fd, path or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=BENEATH)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None


def open_regular(name: str, folder_fd: int) -> int:
    """Open a regular file of a folder to read it, links not followed; raises `OSError`, IsADirectoryError for others.

    Nothing else is ever opened, not even when the name changes hands meanwhile: merely opening a device can do harm.
    """
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.open(name, flags, dir_fd=folder_fd)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise IsADirectoryError(errno.EISDIR, "not a regular file", name)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(place)


def is_whiteout(found: os.stat_result) -> bool:
    """Whether an entry of a change layer says that the name is deleted."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def attributes_of(fd: int, keeps: frozenset[str] = frozenset()) -> dict[str, bytes]:
    """The attributes worth keeping: the user's own, lists of access, the mark of an opaque folder, and those named."""
    found = {}
    with contextlib.suppress(OSError):
        for key in os.listxattr(fd):
            is_users = key.startswith("user.") and not key.startswith(HOUSEKEEPING[0])
            if key == OPAQUE or is_users or key in keeps or key in ACCESS_LISTS:
                found[key] = os.getxattr(fd, key)
            elif key == TRUSTED_OPAQUE:
                found[OPAQUE] = os.getxattr(fd, key)
    return found


class Reader:
    """Reads the members of an archive in order; the content of each must be taken before the next is asked for."""

    def __init__(self, archive: IO[bytes]) -> None:
        """`archive` needs only `read`."""
        self.archive = archive
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        """Raises `ValueError` for an archive that is none or ends early."""
        extended: dict[str, bytes] = {}
        while (block := self._exactly(BLOCK)) != bytes(BLOCK):
            if int(block[148:156].strip(b" \0") or b"0", 8) != sum(block) - sum(block[148:156]) + 256:
                raise ValueError("not a tar archive: a header's checksum is wrong")
            size = int(block[124:136].strip(b" \0") or b"0", 8)
            if block[156:157] == b"x":
                extended = _parse_records(self._exactly(size + -size % BLOCK)[:size])
                continue
            member = _parse(block, extended)
            extended = {}
            self._left, self._padding = member.size, -member.size % BLOCK
            yield member
            while self.chunk():
                pass
            self._exactly(self._padding)

    def chunk(self) -> bytes:
        """The next part of the current member's content; empty at its end."""
        data = self.archive.read(min(CHUNK, self._left)) if self._left else b""
        if self._left and not data:
            raise ValueError("the archive ends within a file")
        self._left -= len(data)
        return data

    def _exactly(self, size: int) -> bytes:
        data = self.archive.read(size)
        while len(data) < size and (more := self.archive.read(size - len(data))):
            data += more
        if len(data) < size:
            raise ValueError("the archive ends early")
        return data


def _parse_records(body: bytes) -> dict[str, bytes]:
    found = {}
    while body:
        size = int(body[: body.index(b" ")])
        key, _, value = body[body.index(b" ") + 1 : size - 1].partition(b"=")
        found[key.decode(errors="surrogateescape")] = value
        body = body[size:]
    return found


def _parse(block: bytes, extended: dict[str, bytes]) -> Member:
    def number(start: int, end: int) -> int:
        return int(block[start:end].strip(b" \0") or b"0", 8)

    letter = block[156:157]
    if letter not in KINDS:
        raise ValueError(f"a kind of member that is not known here: {letter!r}")
    prefix = block[345:500].rstrip(b"\0")
    name = (prefix + b"/" if prefix else b"") + block[:100].rstrip(b"\0")
    member = Member(os.fsdecode(extended.get("path", name)).rstrip("/"), KINDS[letter])
    member.target = os.fsdecode(extended.get("linkpath", block[157:257].rstrip(b"\0")))
    member.mode = number(100, 108) & 0o7777
    member.uid = int(extended.get("uid", number(108, 116)))
    member.gid = int(extended.get("gid", number(116, 124)))
    member.size = int(extended.get("size", number(124, 136))) if member.kind == "file" else 0
    seconds, _, fraction = extended.get("mtime", b"%d" % number(136, 148)).partition(b".")
    member.mtime_ns = int(seconds) * 10**9 + int(fraction.ljust(9, b"0")[:9] or b"0")
    start = len("SCHILY.xattr.")
    member.attributes = {key[start:]: value for key, value in extended.items() if key.startswith("SCHILY.xattr.")}
    return member


def split(name: str) -> tuple[str, list[str]]:
    """A member's first folder and the rest; raises `ValueError` for a name that tries to climb."""
    parts = name.split("/")
    if ".." in parts or "" in parts or "." in parts:
        raise ValueError(f"a member's name leads outside: {name!r}")
    return parts[0], parts[1:]


def unexpected_kind(path: str) -> OSError:
    """The error for an entry that stands where the archive has something of another kind."""
    return OSError(errno.EEXIST, "something else is there", path)
