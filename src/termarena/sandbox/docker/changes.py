"""What a container's files changed: the engine names the paths, their archives tell the rest.

The cost is that of the changed files, never of the image.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import SandboxFileError
from termarena.sandbox.contract import Change, FileChanges
from termarena.sandbox.docker.archives import in_thread
from termarena.sandbox.docker.files import is_of_kernel
from termarena.sandbox.namespace.inside import tar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from termarena.sandbox.docker.files import Files

__all__ = ["Rows", "compare", "parse_rows", "plan_rows"]

AT_ONCE: Final = 8
BUFFER: Final = 1 << 18
DIGEST_BYTES: Final = 32
UNREADABLE: Final = "\ufffd"
INIT_NAMES: Final = ("/sbin/docker-init", "/usr/sbin/docker-init")
"""Where an engine mounts its init program; it leaves an empty file."""
MODIFIED, ADDED, REMOVED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Rows:
    """The paths that an engine names as changed."""

    kinds: Mapping[str, int]

    def merged(self, other: Rows) -> Rows:
        """All paths of both; one that only one of them added is looked at on both sides."""
        return Rows({**other.kinds, **self.kinds})


def parse_rows(answer: list[dict[str, Any]] | None) -> Rows:
    """The engine's answer without what the engine itself leaves in every container."""
    kinds = {str(row["Path"]): int(row["Kind"]) for row in answer or []}
    for path in INIT_NAMES:
        kinds.pop(path, None)
        above = posixpath.dirname(path)
        if kinds.get(above) == ADDED and not any(other.startswith(above + "/") for other in kinds):
            del kinds[above]
    return Rows({path: kind for path, kind in kinds.items() if not is_of_kernel(path)})


@dataclass(frozen=True, slots=True)
class Entry:
    """One path's state."""

    kind: str
    mode: int
    uid: int
    gid: int
    mtime_s: int
    size: int | None = None
    digest: str | None = None
    target: str | None = None

    def change_from(self, before: Entry) -> str:
        """`same`, `metadata` or `modified`."""
        if (self.kind, self.digest, self.target) != (before.kind, before.digest, before.target):
            return "modified"
        if (self.mode, self.uid, self.gid) != (before.mode, before.uid, before.gid):
            return "metadata"
        return "metadata" if self.kind == "file" and self.mtime_s != before.mtime_s else "same"


async def compare(now: Files, before: Files, rows: Rows, *, may_touch: bool = True) -> FileChanges:
    """What differs at the rows' paths. With `may_touch` off a new time alone is no change."""
    trees, singles = _plan(rows)
    limit = asyncio.Semaphore(AT_ONCE)

    async def both(path: str, *, whole: bool) -> list[Change]:
        async with limit:
            there = await _look(now, path, whole=whole)
            return _differences(there, await _look(before, path, whole=whole), may_touch=may_touch)

    jobs = [both(path, whole=True) for path in trees] + [both(path, whole=False) for path in singles]
    found = {change.path: change for changes in await asyncio.gather(*jobs) for change in changes}
    gone = [path for path, change in found.items() if change.change == "removed"]
    kept = [change for path, change in found.items() if not _is_below(path, gone)]
    return FileChanges(tuple(sorted(kept, key=lambda change: change.path)))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def _plan(rows: Rows) -> tuple[list[str], list[str]]:
    """Paths to take with everything below them, and paths to take alone."""
    trees: set[str] = set()
    singles: list[str] = []
    for path in sorted(rows.kinds):
        # A name that is not UTF-8 comes mangled: its folder is looked at instead.
        wanted = posixpath.dirname(path) if UNREADABLE in path else path
        is_whole = wanted != path or rows.kinds[path] == ADDED
        if any(above in trees for above in _folders_of(wanted)) or wanted in trees:
            continue
        if is_whole:
            trees.add(wanted)
        else:
            singles.append(wanted)
    whole = {path for path in trees if not any(above in trees for above in _folders_of(path))}
    return sorted(whole), [path for path in singles if not any(above in whole for above in (path, *_folders_of(path)))]


def plan_rows(rows: Rows) -> list[tuple[str, bool]]:
    """The paths to fetch, folders before what is in them, each with whether everything below comes with it."""
    trees, singles = _plan(rows)
    return sorted([(path, True) for path in trees] + [(path, False) for path in singles])


def _folders_of(path: str) -> Iterable[str]:
    while path not in ("", "/"):
        path = posixpath.dirname(path)
        yield path


def _differences(now: dict[str, Entry], before: dict[str, Entry], *, may_touch: bool) -> list[Change]:
    found = []
    for name, entry in now.items():
        earlier = before.get(name)
        change = "added" if earlier is None else entry.change_from(earlier)
        is_touched = (
            change == "metadata"
            and earlier is not None
            and ((entry.mode, entry.uid, entry.gid) == (earlier.mode, earlier.uid, earlier.gid))
        )
        if change != "same" and (may_touch or not is_touched):
            found.append(_change(name, change, entry))
    for name, entry in before.items():
        if name not in now and not any(above in before and above not in now for above in _folders_of(name)):
            found.append(Change(name, "removed", _kind(entry.kind)))
    return found


def _kind(kind: str) -> Any:  # noqa: ANN401 - one of the contract's words
    return kind


def _change(path: str, change: Any, entry: Entry) -> Change:  # noqa: ANN401 - one of the contract's words
    return Change(
        path,
        change,
        _kind(entry.kind),
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        size=entry.size,
        digest=entry.digest,
        target=entry.target,
    )


async def _look(files: Files, path: str, *, whole: bool) -> dict[str, Entry]:
    """The state of a path, and with `whole` of everything below it; empty where there is nothing."""
    try:
        async with files.opened(path, operation="diff") as body:
            return await in_thread(body, lambda fd: _read_entries(fd, path, whole=whole))
    except SandboxFileError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return {}
        raise


def _read_entries(fd: int, path: str, *, whole: bool) -> dict[str, Entry]:
    with os.fdopen(fd, "rb", BUFFER) as archive:
        reader = tar.Reader(archive)
        found: dict[str, Entry] = {}
        for member in reader:
            name = posixpath.join(path, *member.name.split("/")[1:])
            if member.kind == "link":
                target = posixpath.join(path, *member.target.split("/")[1:])
                found[name] = found.get(target) or _entry(member, reader)
            else:
                found[name] = _entry(member, reader)
            if not whole:
                break
        return found


def _entry(member: tar.Member, reader: tar.Reader) -> Entry:
    kind = "file" if member.kind == "link" else member.kind
    entry = Entry(kind, member.mode, member.uid, member.gid, member.mtime_ns // 10**9)
    if kind == "symlink":
        return replace(entry, target=member.target)
    if kind != "file":
        return entry
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    while chunk := reader.chunk():
        state.update(chunk)
    return replace(entry, size=member.size, digest=state.hexdigest())
