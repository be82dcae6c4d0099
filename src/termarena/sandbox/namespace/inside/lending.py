"""Folders of the host for a sandbox, opened by whoever may: by the harness, for the process 1 that will mount them.

Where the harness is root, each is a detached mount with the sandbox's ids as its owners. An ordinary user has no such
mounts to give, and process 1 opens the paths itself.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from . import syscalls as sc

if TYPE_CHECKING:
    from collections.abc import Iterator


def lend(plan: dict[str, Any], fds: list[int], userns_fd: int | None) -> list[int]:
    """Put the number of a descriptor beside each path of the plan, and the descriptor to `fds`; those to close.

    `userns_fd` has the sandbox's ids; None where owners cannot be shifted. Raises `OSError`, and leaves none open.
    """
    opened: list[int] = []
    try:
        for what, is_writable in _lent(plan):
            what["fd"] = None
            if userns_fd is None:
                continue
            # Changes keep their owners: on the disk of the host no file of a sandbox belongs to the host's root.
            if what is plan["changes"]:
                opened.append(plain_mount(what["path"], is_writable=True))
            else:
                opened.append(_lent_mount(what["path"], userns_fd, is_writable=is_writable))
            what["fd"] = len(fds)
            fds.append(opened[-1])
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    return opened


def _lent(plan: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """All that has a path, and whether the sandbox may write there."""
    for volume in plan["volumes"]:
        yield from ((lower, False) for lower in volume["lowers"] if "path" in lower)
    yield from ((mount, False) for mount in plan["mounts"])
    yield from ((mount, mount["is_writable"]) for mount in plan["step_mounts"] if mount["path"] is not None)
    yield from ((plan[name], True) for name in ("disk", "changes") if plan[name] is not None)


def _lent_mount(path: str, userns_fd: int, *, is_writable: bool) -> int:
    """Where owners cannot be shifted they are nobody's."""
    tree = shifted_mount(path, userns_fd, is_writable=is_writable)
    return plain_mount(path, is_writable=is_writable) if tree is None else tree


def shifted_mount(path: str, userns_fd: int, *, is_writable: bool = False) -> int | None:
    """A detached mount of `path` with the namespace's ids as owners, or None where its file system cannot."""
    tree = sc.open_tree(path)
    attributes = sc.MOUNT_ATTR_IDMAP | sc.MOUNT_ATTR_NOSUID | sc.MOUNT_ATTR_NODEV
    if not is_writable:
        attributes |= sc.MOUNT_ATTR_RDONLY
    try:
        sc.set_mount_attributes(tree, attributes, userns_fd=userns_fd)
    except OSError as error:
        os.close(tree)
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        raise
    return tree


def plain_mount(path: str, *, is_writable: bool) -> int:
    """A detached mount of `path` with the owners that it has."""
    tree = sc.open_tree(path)
    attributes = sc.MOUNT_ATTR_NOSUID | sc.MOUNT_ATTR_NODEV
    sc.set_mount_attributes(tree, attributes if is_writable else attributes | sc.MOUNT_ATTR_RDONLY)
    return tree
