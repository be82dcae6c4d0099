"""Single steps of a sandbox's making, tried in a process of their own to see whether this machine allows them."""

from __future__ import annotations

import os
import sys
from typing import Final

from . import idmaps, lending, removing, zygote
from . import syscalls as sc

STAGING: Final = "/usr"
SHIFT: Final = [[0, 100_000, 65_536]]


def main() -> None:
    """Try the step that the second argument names; the status is 0 if it worked, else its words are on stdout."""
    name, argument = sys.argv[1], sys.argv[2]
    try:
        if name == "idmapped_mounts":
            _idmapped_mounts(argument)
        elif name == "changes_on_disk":
            _try_below(name, argument)
        else:
            _try_inside(name, STAGING)
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)


def _try_below(name: str, folder: str) -> None:
    """Run the step in a new folder below one of the host, which is gone afterwards."""
    import tempfile  # noqa: PLC0415 - the other trials need none

    place = tempfile.mkdtemp(prefix=".trial-", dir=folder)
    try:
        _try_inside(name, place)
    finally:
        removing.remove_path(place)


def _try_inside(name: str, place: str) -> None:
    """Run the step as root of fresh namespaces; raises `OSError` if those are refused."""
    gate_out, gate_in = os.pipe()
    uid, gid = os.geteuid(), os.getegid()
    pid = sc.clone(zygote.NAMESPACES)
    if pid == 0:
        os.read(gate_out, 1)
        _finish(name, place)
    ids = {"uid": [[0, uid, 1]], "gid": [[0, gid, 1]], "helpers": None, "deny_setgroups": True}
    idmaps.write_maps(pid, ids)
    os.write(gate_in, b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _finish(name: str, place: str) -> None:
    status = 1
    try:
        STEPS[name](place)
        status = 0
    except OSError as error:
        os.write(1, f"{error}\n".encode())
    finally:
        os._exit(status)


def _nothing(_: str) -> None:
    """The namespaces themselves were the step."""


def _stage(place: str) -> None:
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    sc.mount("none", place, fstype="tmpfs")
    os.chdir(place)


def _overlay(place: str) -> None:
    _stage(place)
    _lay_over("userxattr")


def _lay_over(options: str) -> None:
    """Deleting a folder and making it again fails where the options are accepted and the attributes are not."""
    for name in ("lower", "upper", "work", "merged", "lower/folder"):
        os.mkdir(name)
    sc.mount("overlay", "merged", fstype="overlay", options=f"lowerdir=lower,upperdir=upper,workdir=work,{options}")
    os.rmdir("merged/folder")
    os.mkdir("merged/folder")


def _changes_on_disk(place: str) -> None:
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    os.chdir(place)
    _lay_over("userxattr,volatile")


def _proc(_: str) -> None:
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    sc.mount("proc", "/proc", fstype="proc")


def _shared_layers(place: str) -> None:
    _stage(place)
    sc.open_tree("", dir_fd=sc.open_tree(place))


def _idmapped_mounts(path: str) -> None:
    ids = {"uid": SHIFT, "gid": SHIFT, "helpers": None, "deny_setgroups": False}
    if lending.shifted_mount(path, zygote.namespace_with(ids)) is None:
        raise OSError(22, "the owners of its file system cannot be shifted", path)


STEPS: Final = {
    "user_namespaces": _nothing,
    "overlay": _overlay,
    "proc": _proc,
    "shared_layers": _shared_layers,
    "changes_on_disk": _changes_on_disk,
}
