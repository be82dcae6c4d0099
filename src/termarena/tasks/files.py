"""Trees of files that belong to a task: listed at load, read only when asked, never held in memory.

A tree is self-contained. Every entry is a regular file, a symbolic link that stays inside the tree, or an empty
folder; anything else (a link that leaves the task, a cycle, a device, a FIFO) is a `TaskFormatError`, so nobody
downstream has to ask again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["IGNORED_NAMES", "FileTree", "TreeFile", "scan"]

# What tools leave beside a task and no format counts as content. pip writes __pycache__ into installed samples.
IGNORED_NAMES = frozenset({"__pycache__", ".git", ".DS_Store"})
# The largest public set we loaded has 2,100 files in one task; a tree beyond this is a mistake (a virtual
# environment, a home).
MAX_FILES = 200_000
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TreeFile(NamedTuple):
    """One entry of a tree. `path` is relative, with `/`; bytes that are not UTF-8 are kept as surrogate escapes."""

    path: str
    kind: Literal["file", "link", "folder"]
    size_bytes: int
    executable: bool
    source: str = ""
    """Where the bytes lie on the host; empty for an inline file, a link and a folder."""
    target: str = ""
    """Where a link points, as written."""
    content: bytes = b""
    """The bytes of an inline file, one that a loader made up (a script out of `tasks.json`, a Dockerfile out of an
    image name)."""

    @classmethod
    def inline(cls, path: str, content: bytes, *, executable: bool = False) -> TreeFile:
        """A file that exists only in the loaded task."""
        return cls(path, "file", len(content), executable, content=content)

    def read(self, limit_bytes: int | None = None) -> bytes:
        """The file's bytes, at most `limit_bytes` of them. Raises OSError if it has gone, or is no longer a regular
        file."""
        if not self.source:
            return self.content[:limit_bytes]
        with os.fdopen(os.open(self.source, _READ_FLAGS), "rb") as file:
            return file.read(-1 if limit_bytes is None else limit_bytes)

    def sha256(self) -> str:
        """Hex digest of the bytes, computed in constant memory; of a link's target as written; empty for a folder."""
        if self.kind == "folder":
            return ""
        if self.kind == "link":
            return hashlib.sha256(os.fsencode(self.target)).hexdigest()
        if not self.source:
            return hashlib.sha256(self.content).hexdigest()
        with os.fdopen(os.open(self.source, _READ_FLAGS), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class FileTree:
    """An immutable list of files, sorted by path."""

    files: tuple[TreeFile, ...] = ()

    @classmethod
    def of(cls, files: Iterable[TreeFile]) -> FileTree:
        """A tree of these files, sorted. A path named twice keeps its last entry, as a copy over a copy would."""
        by_path = {file.path: file for file in files}
        return cls(tuple(by_path[path] for path in sorted(by_path)))

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.files)

    def __iter__(self) -> Iterator[TreeFile]:
        """The entries, in path order."""
        return iter(self.files)

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self.files)

    def get(self, path: str) -> TreeFile | None:
        """The entry at this path, or None."""
        return next((file for file in self.files if file.path == path), None)

    def under(self, folder: str) -> FileTree:
        """What lies below this folder, with paths relative to it."""
        prefix = folder.rstrip("/") + "/"
        return FileTree(tuple(f._replace(path=f.path[len(prefix) :]) for f in self.files if f.path.startswith(prefix)))

    def digests(self) -> dict[str, str]:
        """Path → what it holds: `file:<sha256>`, `exec:<sha256>`, `link:<sha256 of target>` or `folder:`. Reads every
        file once."""
        kinds = {"link": "link", "folder": "folder"}
        return {f.path: f"{kinds.get(f.kind, 'exec' if f.executable else 'file')}:{f.sha256()}" for f in self.files}

    def write_to(self, folder: Path) -> None:
        """Write the entries below `folder`, which must exist. Modes are 0755 or 0644; links are written as links,
        last."""
        for file in sorted(self.files, key=lambda f: f.kind == "link"):
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            if file.kind == "folder":
                place.mkdir(exist_ok=True)
            elif file.kind == "link":
                place.symlink_to(file.target)
            else:
                _copy(file, place)


def _copy(file: TreeFile, place: Path) -> None:
    with place.open("xb") as out:
        if file.source:
            with os.fdopen(os.open(file.source, _READ_FLAGS), "rb") as original:
                while block := original.read(1 << 20):
                    out.write(block)
        else:
            out.write(file.content)
    place.chmod(0o755 if file.executable else 0o644)


def scan(folder: str, *, boundary: str, skip: frozenset[str] = frozenset()) -> FileTree:
    """List the tree below `folder`, which may be absent (an empty tree).

    `boundary` is the task's folder: a link may point anywhere inside it. One that leaves `folder` but stays inside
    `boundary` becomes the file it points to, so that the tree can be copied alone. `skip` names top-level entries to
    leave out.
    Raises TaskFormatError for everything else that is not a plain file, link or folder.
    """
    found: list[TreeFile] = []
    pending = [("", folder)]
    while pending:
        prefix, path = pending.pop()
        entries = _listing(path, is_root=not prefix)
        if not entries and prefix:
            found.append(TreeFile(prefix[:-1], "folder", 0, executable=False))
        for entry in entries:
            name = entry.name
            if name in IGNORED_NAMES or (not prefix and name in skip):
                continue
            if entry.is_symlink():
                found.append(_link(prefix + name, entry.path, folder, boundary))
            elif entry.is_dir(follow_symlinks=False):
                pending.append((f"{prefix}{name}/", entry.path))
            else:
                found.append(_plain(prefix + name, entry.path, entry.stat(follow_symlinks=False)))
        if len(found) > MAX_FILES:
            raise TaskFormatError(folder, found=f"more than {MAX_FILES} files", expected="a task's files only")
    found.sort()
    return FileTree(tuple(found))


def _listing(path: str, *, is_root: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:
        if is_root:
            return []
        raise
    except NotADirectoryError as error:
        raise TaskFormatError(path, found="a file", expected="a folder") from error
    except OSError as error:
        raise TaskFormatError(
            path, found=f"a folder that cannot be read ({error.strerror})", expected="a folder"
        ) from error


def _plain(path: str, source: str, status: os.stat_result) -> TreeFile:
    if not stat.S_ISREG(status.st_mode):
        raise TaskFormatError(source, found=_kind_of(status.st_mode), expected="a regular file, a folder or a link")
    return TreeFile(path, "file", status.st_size, bool(status.st_mode & 0o100), source)


def _kind_of(mode: int) -> str:
    names = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "a special file")


def _link(path: str, source: str, folder: str, boundary: str) -> TreeFile:
    target = os.readlink(source)  # noqa: PTH115 - a Path would drop bytes that are not UTF-8
    try:
        real = os.path.realpath(source, strict=True)
    except FileNotFoundError:
        real = os.path.realpath(source)
    except OSError as error:
        raise TaskFormatError(
            source, found=f"a link in a circle (to {target!r})", expected="a link to a file"
        ) from error
    if not _inside(real, boundary):
        raise TaskFormatError(
            source,
            found=f"a link that leaves the task (to {target!r})",
            expected="a link to something inside the task's folder",
            hint="copy the file into the task",
        )
    if _inside(real, folder) and not target.startswith("/"):
        return TreeFile(path, "link", 0, executable=False, target=target)
    if not Path(real).is_file():
        raise TaskFormatError(
            source,
            found=f"a link to {target!r}",
            expected="a relative link inside the same folder, or one to a file of the task",
        )
    return _plain(path, real, Path(real).stat())


def _inside(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return path == real or path.startswith(real + "/")
