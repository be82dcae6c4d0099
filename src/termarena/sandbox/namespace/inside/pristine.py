"""The system's folders as they were at the start, laid over what a fork's uppermost layer made of them; read-only.

What is to be laid is found before the sandbox's root is entered, by names that only the start decides, and laid
afterwards, when every link leads to a place of the sandbox.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from . import syscalls as sc

FOLDERS: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
MORE_FOLDERS: Final = ("etc/alternatives", "etc/perl", "etc/ld.so.conf.d")
"""Programs of the system are links that lead through the first; Perl looks into the second before its own library."""
PYTHONS: Final = re.compile(r"python3(\.\d+)?")
"""Folders of /etc into which Debian's Pythons have a link to a module that they run at every start."""
FILES: Final = ("etc/ld.so.preload", "etc/ld.so.cache", "etc/ld.so.conf", f"etc/ld-musl-{os.uname().machine}.path")
SETTINGS: Final = ("etc/ssl/openssl.cnf", "etc/ssl1.1/openssl.cnf", "etc/pki/tls/openssl.cnf")
"""They name libraries that everything with OpenSSL in it loads, Python's `hashlib` too."""
LINKS: Final = 4
"""So many links in a row lead to a folder of the system; more are none."""


class Laid:
    """One name of the system: what it was."""

    __slots__ = ("at", "is_folder", "link", "tree", "was_there")

    def __init__(self, at: str, *, tree: int | None, is_folder: bool, link: str | None, was_there: bool) -> None:
        """`tree` is a detached mount of what was there, or of nothing where no folder was; `link` is where the name
        led, if that was into a folder of the system."""
        self.at = at
        self.tree = tree
        self.is_folder = is_folder
        self.link = link
        self.was_there = was_there


def find(volumes: list[tuple[str, list[str]]]) -> list[Laid]:
    """What the system was; `volumes` has the place of each with the names of its folders, uppermost first."""
    roots = {}
    for index, (at, names) in enumerate(volumes):
        root, empty = f"p{index}", f"p{index}.empty"
        os.mkdir(root)
        os.mkdir(empty, 0o755)
        options = f"lowerdir={':'.join([*names, empty])},userxattr"
        sc.mount("overlay", root, fstype="overlay", flags=sc.MS_RDONLY | sc.MS_NODEV, options=options)
        roots[at] = root
    folders = (*FOLDERS, *MORE_FOLDERS, *_pythons(roots))
    return [
        *(_found(roots, at, is_folder=True) for at in folders),
        *(_found(roots, at, is_folder=False) for at in (*FILES, *SETTINGS)),
    ]


def _pythons(roots: dict[str, str]) -> list[str]:
    try:
        names = sorted(os.listdir(roots.get("etc") or f"{roots['']}/etc"))
    except OSError:
        return []
    return [f"etc/{name}" for name in names if PYTHONS.fullmatch(name)]


def _found(roots: dict[str, str], at: str, *, is_folder: bool) -> Laid:
    link, place = None, at
    for _ in range(LINKS):
        path = _path(roots, place)
        kind = _kind(path) if path is not None else None
        if path is None or kind is None or not stat.S_ISLNK(kind):
            break
        target = os.readlink(path)
        link = link or target
        place = os.path.normpath(os.path.join("/", os.path.dirname(place), target)).lstrip("/")
    else:
        path = kind = None
    if place.partition("/")[0] not in FOLDERS:
        link = None  # what it leads to is the agent's
    if path is not None and kind is not None and (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        return Laid(at, tree=sc.open_tree(path), is_folder=stat.S_ISDIR(kind), link=link, was_there=True)
    return Laid(at, tree=_nothing() if is_folder else None, is_folder=is_folder, link=link, was_there=False)


def _nothing() -> int:
    tree = sc.open_tree("p0.empty")
    sc.set_mount_attributes(tree, sc.MOUNT_ATTR_RDONLY)
    return tree


def _path(roots: dict[str, str], place: str) -> str | None:
    """Where a name of the root lies here; None if a part of the way is no folder."""
    first, _, rest = place.partition("/")
    path, parts = (roots[first], rest.split("/") if rest else []) if first in roots else (roots[""], place.split("/"))
    for part in parts[:-1]:
        path = f"{path}/{part}"
        kind = _kind(path)
        if kind is None or not stat.S_ISDIR(kind):
            return None
    return f"{path}/{parts[-1]}" if parts else path


def _kind(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None


def lay(found: list[Laid]) -> None:
    """Put everything in its place, in the finished root. Raises `OSError` where that cannot be done."""
    for one in found:
        try:
            _lay(one)
        finally:
            if one.tree is not None:
                os.close(one.tree)


def _lay(one: Laid) -> None:
    at = f"/{one.at}"
    kind = _kind(at)
    if one.link is not None and kind is not None and stat.S_ISLNK(kind) and os.readlink(at) == one.link:
        return
    if kind is not None and stat.S_ISDIR(kind):
        # A folder in the place of a file means nothing to whoever reads it; removing it may take any time.
        if one.tree is not None and one.is_folder:
            sc.move_mount(one.tree, at)
        return
    if kind is not None and (one.is_folder or not one.was_there or not stat.S_ISREG(kind)):
        os.unlink(at)
        kind = None
    if one.tree is None or not one.was_there:
        return
    if kind is None:
        _make(at, is_folder=one.is_folder)
    sc.move_mount(one.tree, at)


def _make(at: str, *, is_folder: bool) -> None:
    """Make what something is to be mounted on; where its folder is none, or a link to a place in which nothing can be
    made, a new one takes its place."""
    for is_last_try in (False, True):
        try:
            os.makedirs(os.path.dirname(at), 0o755, exist_ok=True)
            if is_folder:
                os.mkdir(at, 0o755)
            else:
                os.close(os.open(at, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except OSError:
            if is_last_try or not _clear_the_way(at):
                raise
        else:
            return


def _clear_the_way(at: str) -> bool:
    """Take away the links and files that stand where folders above `at` belong; whether there was one."""
    parts = at.split("/")
    for end in range(2, len(parts)):
        above = "/".join(parts[:end])
        kind = _kind(above)
        if kind is not None and not stat.S_ISDIR(kind):
            os.unlink(above)
            return True
    return False
