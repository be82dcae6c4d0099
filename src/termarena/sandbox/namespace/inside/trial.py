"""Single steps of a sandbox's making, tried in a process of their own to see whether this machine allows them."""

from __future__ import annotations

import os
import sys
from typing import Final

from . import syscalls as sc
from . import zygote

STAGING: Final = "/usr"
SHIFT: Final = [[0, 100_000, 65_536]]


def main() -> None:
    """Try the step that the second argument names; the status is 0 if it worked, else its words are on stdout."""
    name, argument = sys.argv[1], sys.argv[2]
    try:
        if name == "idmapped_mounts":
            _idmapped_mounts(argument)
        else:
            _try_inside(name)
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)


def _try_inside(name: str) -> None:
    """Run the step as root of fresh namespaces; raises `OSError` if those are refused."""
    gate_out, gate_in = os.pipe()
    uid, gid = os.geteuid(), os.getegid()
    pid = sc.clone(zygote.NAMESPACES)
    if pid == 0:
        os.read(gate_out, 1)
        _finish(name)
    ids = {"uid": [[0, uid, 1]], "gid": [[0, gid, 1]], "helpers": None, "deny_setgroups": True}
    zygote.write_maps(pid, ids)
    os.write(gate_in, b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _finish(name: str) -> None:
    status = 1
    try:
        STEPS[name]()
        status = 0
    except OSError as error:
        os.write(1, f"{error}\n".encode())
    finally:
        os._exit(status)


def _nothing() -> None:
    """The namespaces themselves were the step."""


def _stage() -> None:
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    sc.mount("none", STAGING, fstype="tmpfs")
    os.chdir(STAGING)


def _overlay() -> None:
    """Deleting a folder and making it again fails where the options are accepted and the attributes are not."""
    _stage()
    for name in ("lower", "upper", "work", "merged", "lower/folder"):
        os.mkdir(name)
    options = "lowerdir=lower,upperdir=upper,workdir=work,userxattr"
    sc.mount("overlay", "merged", fstype="overlay", options=options)
    os.rmdir("merged/folder")
    os.mkdir("merged/folder")


def _proc() -> None:
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    sc.mount("proc", "/proc", fstype="proc")


def _shared_layers() -> None:
    _stage()
    sc.open_tree("", dir_fd=sc.open_tree(STAGING))


def _idmapped_mounts(path: str) -> None:
    ids = {"uid": SHIFT, "gid": SHIFT, "helpers": None, "deny_setgroups": False}
    if zygote.shifted_mount(path, zygote.namespace_with(ids)) is None:
        raise OSError(22, "the owners of its file system cannot be shifted", path)


STEPS: Final = {"user_namespaces": _nothing, "overlay": _overlay, "proc": _proc, "shared_layers": _shared_layers}
