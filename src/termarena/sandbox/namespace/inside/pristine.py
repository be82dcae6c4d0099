"""The system's folders as they were at the start, laid over what a fork's uppermost layer made of them; read-only.

What is to be laid is found before the sandbox's root is entered, by names that only the start decides, and laid
afterwards, when every link leads to a place of the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from . import syscalls as sc

FOLDERS: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
FILES: Final = ("etc/ld.so.preload", "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d")
LINKS: Final = 4
"""So many links in a row lead to a folder of the system; more are none."""


class Laid:
    """One name of the system: what it was."""

    __slots__ = ("at", "is_folder", "link", "tree")

    def __init__(self, at: str, *, tree: int | None, is_folder: bool, link: str | None) -> None:
        """`tree` is a detached mount of what was there, through `link` where it was one; None where nothing was."""
        self.at = at
        self.tree = tree
        self.is_folder = is_folder
        self.link = link


def find(volumes: list[tuple[str, list[str]]]) -> list[Laid]:
    """What the system was; `volumes` has the place of each with the names of its folders, uppermost first."""
    roots = {}
    for index, (at, names) in enumerate(volumes):
        root, empty = f"p{index}", f"p{index}.empty"
        os.mkdir(root)
        os.mkdir(empty)
        options = f"lowerdir={':'.join([*names, empty])},userxattr"
        sc.mount("overlay", root, fstype="overlay", flags=sc.MS_RDONLY, options=options)
        roots[at] = root
    return [_found(roots, at) for at in (*FOLDERS, *FILES)]


def _found(roots: dict[str, str], at: str) -> Laid:
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
    if path is None or kind is None or not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        return Laid(at, tree=None, is_folder=False, link=link)
    return Laid(at, tree=sc.open_tree(path), is_folder=stat.S_ISDIR(kind), link=link)


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
    if one.tree is None:
        # A folder in the place of a file means nothing to the loader.
        if kind is not None and not stat.S_ISDIR(kind) and one.link is None:
            os.unlink(at)
        return
    if kind is not None and stat.S_ISLNK(kind):
        if one.link is not None and os.readlink(at) == one.link:
            return
        os.unlink(at)
        kind = None
    if kind is not None and stat.S_ISDIR(kind) != one.is_folder:
        os.unlink(at)
        kind = None
    if kind is None:
        _make(at, is_folder=one.is_folder)
    sc.move_mount(one.tree, at)


def _make(at: str, *, is_folder: bool) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(at), 0o755)
    if is_folder:
        os.mkdir(at, 0o755)
    else:
        os.close(os.open(at, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
