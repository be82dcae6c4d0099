"""Which changed files a package manager has put there: its records name them, and they hold what the records say."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import posixpath
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import SandboxFileError
from termarena.grading.rules.rule import canonical
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from termarena.sandbox.contract import FileChanges, Sandbox

__all__ = ["has_opaque_packages", "has_packages", "packaged_among"]

DPKG: Final = "/var/lib/dpkg/info"
APK: Final = ("/lib/apk/db/installed", "/usr/lib/apk/db/installed")
FEW_PACKAGES: Final = 40
MOST_RECORDS: Final = 1000
MOST_CHECKED: Final = 200
"""Beyond it, files are believed to be a package's because all that were compared are: an upgrade of Python is 600."""
RECORD_BYTES: Final = 16 << 20
DATABASE_BYTES: Final = 512 << 20
FILE_BYTES: Final = 128 << 20
_RECORD: Final = re.compile(r".*/[^/]+\.dist-info/RECORD")
_OPAQUE: Final = re.compile(
    r"/(var/lib|usr/lib/sysimage)/rpm/.+|/var/lib/pacman/local/[^/]+/(files|desc)|.*/conda-meta/history"
)
_KNOWN: Final = re.compile(r"/var/lib/dpkg/status|/(usr/)?lib/apk/db/installed|.*/[^/]+\.dist-info/RECORD")


class _Entry(NamedTuple):
    """What a record says of a file; no digest: it is not said what the file holds."""

    path: str
    algorithm: str = ""
    digest: str = ""
    """Hexadecimal."""


def has_opaque_packages(changes: FileChanges) -> bool:
    """Whether a package manager was at work whose records are not understood here."""
    return any(change.change == "modified" and _OPAQUE.fullmatch(change.path) for change in changes.changes)


def has_packages(changes: FileChanges) -> bool:
    """Whether any package manager was at work."""
    return has_opaque_packages(changes) or any(_KNOWN.fullmatch(change.path) for change in changes.changes)


async def packaged_among(
    box: Sandbox, changes: FileChanges, paths: Iterable[str], contents: Mapping[str, bytes]
) -> frozenset[str]:
    """The canonical paths among these that a package manager put there during the agent's work, unchanged since.

    `contents` are those that are at hand; the others are read.
    """
    wanted = {canonical(path): path for path in paths}
    if not wanted or not has_packages(changes):
        return frozenset()
    entries: dict[str, list[_Entry]] = defaultdict(list)
    for entry in [*await _from_dpkg(box, changes), *await _from_apk(box, changes), *await _from_pip(box, changes)]:
        if entry.path in wanted:
            entries[entry.path].append(entry)
    found: set[str] = set()
    for number, (path, said) in enumerate(sorted(entries.items())):
        if number >= MOST_CHECKED and len(found) == MOST_CHECKED:
            return frozenset(entries)
        change = changes.get(wanted[path])
        # Packages say what every plain file of theirs holds, but for their settings.
        believes = path.startswith("/etc/") or change is None or change.kind != "file"
        told = [one for one in said if one.digest or believes]
        if told and await _holds(box, wanted[path], told, contents.get(wanted[path])):
            found.add(path)
    return frozenset(found)


async def _holds(box: Sandbox, path: str, entries: Iterable[_Entry], content: bytes | None) -> bool:
    """Whether the file is as one of the records says; one that gives no digest is believed."""
    if content is None:
        try:
            content = await box.read(path, max_bytes=FILE_BYTES)
        except SandboxFileError:
            return False
    return any(not one.digest or hashlib.new(one.algorithm, content).hexdigest() == one.digest for one in entries)


# dpkg: a list of paths and a list of digests for each package.


async def _from_dpkg(box: Sandbox, changes: FileChanges) -> list[_Entry]:
    touched = [
        change.path for change in changes.changes if change.path.startswith(f"{DPKG}/") and change.change != "removed"
    ]
    names = sorted({posixpath.basename(path)[: -len(".list")] for path in touched if path.endswith(".list")})
    if len(names) <= FEW_PACKAGES:
        records = [
            (await _lines(box, f"{DPKG}/{one}.list"), await _lines(box, f"{DPKG}/{one}.md5sums")) for one in names
        ]
    else:
        records = await _all_records(box, names)
    return [entry for listed, sums in records for entry in _dpkg_package(listed, sums)]


async def _lines(box: Sandbox, path: str) -> list[str]:
    try:
        return (await box.read(path, max_bytes=RECORD_BYTES)).decode("utf-8", "replace").splitlines()
    except SandboxFileError:
        return []


async def _all_records(box: Sandbox, names: Iterable[str]) -> list[tuple[list[str], list[str]]]:
    """The records of many packages, in one transfer."""
    with staged("dpkg") as folder:
        place = folder / "info"
        try:
            await box.get_tree(DPKG, place, max_bytes=DATABASE_BYTES)
        except SandboxFileError:
            return []
        return [(_lines_of(place / f"{name}.list"), _lines_of(place / f"{name}.md5sums")) for name in names]


def _lines_of(path: Path) -> list[str]:
    if path.is_symlink() or not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _dpkg_package(listed: Iterable[str], sums: Iterable[str]) -> Iterator[_Entry]:
    known: set[str] = set()
    for line in sums:
        digest, _, path = line.partition("  ")
        known.add(canonical(f"/{path}"))
        yield _Entry(canonical(f"/{path}"), "md5", digest)
    for line in listed:
        if canonical(line) not in known:
            yield _Entry(canonical(line))


# apk: one file with the folder, the file and its digest on lines of their own.


async def _from_apk(box: Sandbox, changes: FileChanges) -> list[_Entry]:
    for path in APK:
        change = changes.get(path)
        if change is not None and change.change == "modified":
            try:
                text = (await box.read(path, max_bytes=RECORD_BYTES)).decode("utf-8", "replace")
            except SandboxFileError:
                return []
            return list(_apk_entries(text))
    return []


def _apk_entries(text: str) -> Iterator[_Entry]:
    folder = name = ""
    for line in text.splitlines():
        kind, _, rest = line.partition(":")
        if kind == "F":
            folder = rest
        elif kind == "R":
            name = rest
        elif kind == "Z" and rest.startswith("Q1"):
            yield _Entry(canonical(f"/{folder}/{name}"), "sha1", _hexadecimal(rest[2:]))


# pip: a table beside each package, with paths relative to where packages lie.


async def _from_pip(box: Sandbox, changes: FileChanges) -> list[_Entry]:
    records = [
        change.path
        for change in changes.changes
        if change.change in ("added", "modified") and _RECORD.fullmatch(change.path)
    ]
    found: list[_Entry] = []
    for path in records[:MOST_RECORDS]:
        try:
            text = (await box.read(path, max_bytes=RECORD_BYTES)).decode("utf-8", "replace")
        except SandboxFileError:
            continue
        found += _pip_entries(text, posixpath.dirname(posixpath.dirname(path)))
    return found


def _pip_entries(text: str, site: str) -> Iterator[_Entry]:
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error:
        return
    for row in rows:
        if not row or not row[0]:
            continue
        path = canonical(posixpath.normpath(posixpath.join(site, row[0])))
        algorithm, _, digest = (row[1] if len(row) > 1 else "").partition("=")
        is_known = algorithm in ("sha256", "sha384", "sha512")
        yield _Entry(path, algorithm, _hexadecimal(digest)) if is_known else _Entry(path)


def _hexadecimal(digest: str) -> str:
    """A digest in base 64; one that is none matches no file."""
    try:
        raw = base64.b64decode(digest.translate(str.maketrans("-_", "+/")) + "=" * (-len(digest) % 4), validate=True)
    except (binascii.Error, ValueError):
        return "none"
    return raw.hex()
