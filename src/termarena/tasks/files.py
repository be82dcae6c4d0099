"""Trees of files that belong to a task: listed at load, read only when asked, never held in memory.

A tree is self-contained. Every entry is a regular file, a symbolic link that stays inside the tree, or an empty
folder; anything else (a link that leaves the task, a cycle, a device, a FIFO) is a `TaskFormatError`, so nobody
downstream has to ask again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["RECORDING", "FileTree", "Survey", "TreeFile", "not_content", "scan", "survey"]

RECORDING = "fetches"
# What makes a folder of that name a recording of the task's downloads, and not somebody's files.
_RECORDING_INDEX = "fetches.json"
_JUNK = ".DS_Store"
_COMPILED = "__pycache__"
# The largest public set we loaded has 2,100 files in one task; a tree beyond this is a mistake (a virtual
# environment, a home).
MAX_FILES = 200_000
SURVEYED_DEPTH = 2
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
        """The file's bytes, at most `limit_bytes` of them. Raises TaskFormatError if it has gone or cannot be read."""
        if not self.source:
            return self.content[:limit_bytes]
        with self._opened() as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(-1 if limit_bytes is None else limit_bytes)

    def sha256(self) -> str:
        """Hex digest of the bytes, in constant memory; of a link's target as written; empty for a folder.

        Raises TaskFormatError if the file has gone or cannot be read.
        """
        if self.kind == "folder":
            return ""
        if self.kind == "link":
            return hashlib.sha256(os.fsencode(self.target)).hexdigest()
        if not self.source:
            return hashlib.sha256(self.content).hexdigest()
        hashed = hashlib.sha256()
        with self._opened() as descriptor:
            while block := os.read(descriptor, 1 << 18):
                hashed.update(block)
        return hashed.hexdigest()

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.source, _READ_FLAGS)
        except OSError as error:
            raise TaskFormatError(
                self.source, found=f"a file that cannot be read ({error.strerror})", expected="a file of the task"
            ) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class FileTree:
    """An immutable list of files, sorted by path; one that stands for a folder is listed when first looked into."""

    __slots__ = ("_files", "_folder")

    def __init__(self, files: tuple[TreeFile, ...] = (), *, folder: Folder | None = None) -> None:
        """A tree of these files, sorted; or, with `folder`, of what a surveyed folder holds."""
        self._files = files if folder is None else None
        self._folder = folder

    @classmethod
    def of(cls, files: Iterable[TreeFile]) -> FileTree:
        """A tree of these files, sorted. A path named twice keeps its last entry, as a copy over a copy would."""
        by_path = {file.path: file for file in files}
        return cls(tuple(by_path[path] for path in sorted(by_path)))

    @property
    def files(self) -> tuple[TreeFile, ...]:
        """The entries. Raises TaskFormatError if the folder was changed into something that is not a tree of files."""
        if self._files is None:
            folder = self._folder
            self._files = scan(folder.path, boundary=folder.boundary, skip=folder.skip).files if folder else ()
        return self._files

    def __eq__(self, other: object) -> bool:
        """Whether both list the same entries; their contents are not read."""
        return isinstance(other, FileTree) and (self is other or self.files == other.files)

    def __hash__(self) -> int:
        """In accordance with equality."""
        return hash(self.files)

    def __repr__(self) -> str:
        """Where it is, or how large."""
        return f"FileTree({self._folder.path!r})" if self._folder else f"FileTree({len(self.files)} files)"

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
        """Path → `file:<sha256>`, `exec:<sha256>`, `link:<sha256 of target>` or `folder:`. Reads every file once."""
        kinds = {"link": "link", "folder": "folder"}
        return {f.path: f"{kinds.get(f.kind, 'exec' if f.executable else 'file')}:{f.sha256()}" for f in self.files}

    def write_to(self, folder: Path) -> None:
        """Write the entries below `folder`, which must exist, with modes 0755 and 0644; links as links, last."""
        for file in sorted(self.files, key=lambda f: f.kind == "link"):
            place = folder / file.path
            _make_folder(place if file.kind == "folder" else place.parent)
            if file.kind == "folder":
                continue
            if file.kind == "link":
                place.symlink_to(file.target)
            else:
                _copy(file, place)


def _make_folder(place: Path) -> None:
    """Make a folder and those above it that are missing, whatever the umask is: tests may run as another user."""
    if not place.exists():
        _make_folder(place.parent)
        place.mkdir()
        place.chmod(0o755)


class Folder(NamedTuple):
    """A folder that a tree stands for; the arguments of `scan`."""

    path: str
    boundary: str
    skip: frozenset[str] = frozenset()


class Survey(NamedTuple):
    """What a task's folder holds, seen in one pass over its names."""

    names: dict[str, tuple[str, ...]]
    """Each folder, down to `steps/NAME/tests` (`""` is the task's own) → the names in it that are no folders."""
    is_plain: bool
    """Whether all of it is regular files and folders, so that a tree need not be listed before it is used."""

    def tree(self, root: str, place: str = "", *, skip: frozenset[str] = frozenset()) -> FileTree:
        """The tree at `place` below the surveyed `root`. Raises what `scan` raises, now rather than at first use."""
        folder = Folder(f"{root}/{place}" if place else root, root, skip)
        return FileTree(folder=folder) if self.is_plain else scan(folder.path, boundary=root, skip=skip)


def survey(root: str, *, folders: frozenset[str]) -> Survey:
    """Look over a task's folder without a system call per file.

    Raises TaskFormatError if a folder cannot be read, or if one of `folders` (or a folder in them, down to where names
    are kept) is a link: what it points to might be anywhere.
    """
    names: dict[str, tuple[str, ...]] = {}
    is_plain = True
    count = 0
    pending = [("", root)]
    while pending:
        place, path = pending.pop()
        entries = _listing(path, is_root=not place)
        count += len(entries)
        files = []
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                pending.append((f"{place}/{entry.name}" if place else entry.name, entry.path))
            else:
                is_plain = False
                files.append(entry.name)
                _refuse_linked_folder(entry, place, folders)
        if place.count("/") <= SURVEYED_DEPTH:
            names[place] = tuple(files)
        if count > MAX_FILES:
            raise TaskFormatError(root, found=f"more than {MAX_FILES} files", expected="a task's files only")
    return Survey(names, is_plain)


def _refuse_linked_folder(entry: os.DirEntry[str], place: str, folders: frozenset[str]) -> None:
    is_ours = entry.name in folders if not place else place == "steps" or place.startswith("steps/")
    if is_ours and os.path.isdir(entry.path):  # noqa: PTH112 - paths are strings here
        raise TaskFormatError(entry.path, found="a link to a folder", expected="a folder", hint="copy it into the task")


def _copy(file: TreeFile, place: Path) -> None:
    with place.open("xb") as out:
        if file.source:
            with file._opened() as descriptor:  # noqa: SLF001 - the other half of this module
                while block := os.read(descriptor, 1 << 20):
                    out.write(block)
        else:
            out.write(file.content)
    place.chmod(0o755 if file.executable else 0o644)


def not_content(folder: str) -> frozenset[str]:
    """What at the top of a task's folder is never part of it: git's own folder, and a recording of its downloads."""
    is_recorded = os.path.lexists(f"{folder}/{RECORDING}/{_RECORDING_INDEX}")
    return frozenset({".git", RECORDING} if is_recorded else {".git"})


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
            if name == _JUNK or (not prefix and name in skip):
                continue
            if entry.is_file(follow_symlinks=False):
                found.append(_plain(prefix + name, entry.path, entry.stat(follow_symlinks=False)))
            elif entry.is_dir(follow_symlinks=False):
                pending.append((f"{prefix}{name}/", entry.path))
            else:
                found.append(_odd(prefix + name, entry.path, folder, boundary))
        if len(found) > MAX_FILES:
            raise TaskFormatError(folder, found=f"more than {MAX_FILES} files", expected="a task's files only")
    found.sort()
    return FileTree(tuple(_without_byproducts(found)))


def _without_byproducts(files: list[TreeFile]) -> Iterable[TreeFile]:
    """The files without bytecode whose source stands beside it: pip compiles installed samples, pytest compiles tests.
    Bytecode without a source is somebody's content."""
    if not any(_COMPILED in file.path for file in files):
        return files
    paths = {file.path for file in files}
    return [file for file in files if _source_of(file.path) not in paths]


def _source_of(path: str) -> str | None:
    folder, _, name = path.rpartition("/")
    above, _, last = folder.rpartition("/")
    if last != _COMPILED or not name.endswith(".pyc"):
        return None
    return f"{above}/{name.split('.')[0]}.py".removeprefix("/")


def _listing(path: str, *, is_root: bool) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(path))
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
    # The class's own constructor costs as much as the system call; 30,000 files in a large set.
    return tuple.__new__(TreeFile, (path, "file", status.st_size, status.st_mode & 0o100 != 0, source, "", b""))


def _odd(path: str, source: str, folder: str, boundary: str) -> TreeFile:
    """A link that can be kept; anything else raises."""
    status = os.lstat(source)
    if not stat.S_ISLNK(status.st_mode):
        raise TaskFormatError(source, found=_kind_of(status.st_mode), expected="a regular file, a folder or a link")
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


def _kind_of(mode: int) -> str:
    names = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device or another special file")


def _inside(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return path == real or path.startswith(real + "/")
