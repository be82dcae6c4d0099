"""Work on many files, done by a child of process 1 so that process 1 stays ready: trees in and out, snapshots, diffs.

A job runs our own code only. Its first descriptor is a memory file for its report, which is JSON.
"""

from __future__ import annotations

import json
import os
import signal
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

from . import changes, children, files, layers, owners, removing, room, tar, unpack

if TYPE_CHECKING:
    from .mounts import Volume

BUFFER: Final = 1 << 18


def start(request: dict[str, Any], fds: list[int], *, volumes: list[Volume]) -> children.Running:
    """Fork the job that the request names; it ends like a command, with status 0 when its report says what it did."""
    pid = os.fork()
    if pid == 0:
        _run(request, fds, volumes)
    return children.Running(pid, request["id"], is_job=True)


def _run(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        children.mark(request["id"])
        try:
            report = JOBS[request["job"]](request, fds[1:], volumes)
            status = 0
        except (OSError, ValueError, LookupError) as error:
            report = {"problem": str(error), "errno": getattr(error, "errno", None)}
            if isinstance(error, OSError):
                report.update(problem=error.strerror, path=error.filename)
        with os.fdopen(fds[0], "wb", closefd=False) as out:
            out.write(json.dumps(report).encode("ascii"))
    finally:
        os._exit(status)


def _stream(fd: int, mode: str) -> IO[bytes]:
    stream: IO[bytes] = os.fdopen(fd, mode, BUFFER, closefd=False)
    return stream


def _get_tree(request: dict[str, Any], fds: list[int], _: list[Volume]) -> dict[str, Any]:
    root = files.open_inside(request["path"], os.O_RDONLY | os.O_DIRECTORY)
    packer = tar.Packer(_stream(fds[0], "wb"), exact=False, max_bytes=request["max_bytes"])
    packer.pack(root, "0")
    packer.finish()
    return {"skipped": [name[2:] for name in packer.skipped]}


def _put_tree(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> dict[str, Any]:
    owner = files.find_user(request["user"])
    files.make_folder(request["path"])
    root = files.open_inside(request["path"], os.O_RDONLY | os.O_DIRECTORY)
    unpacker = unpack.Unpacker({"0": root}, exact=False, owner=(owner.uid, owner.gid))
    if request["limit_bytes"] is not None:
        unpacker.room_bytes = request["limit_bytes"] - room.taken([volume.upper_fd for volume in volumes])
    unpacker.unpack(_stream(fds[0], "rb"))
    return {"count": unpacker.count, "size_bytes": unpacker.size_bytes}


def _snapshot(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> dict[str, Any]:
    packer = tar.Packer(_stream(fds[0], "wb"), exact=True, max_bytes=request["max_bytes"])
    layers = len(volumes[0].layer_fds)
    for layer in range(layers + 1):
        for index, volume in enumerate(volumes):
            source = volume.upper_fd if layer == layers else volume.layer_fds[layer]
            packer.pack(source, f"{layer}.{index}")
    packer.finish()
    return {"layers": layers + 1, "entries": changes.index(volumes), "skipped": packer.skipped}


def _diff(_: dict[str, Any], __: list[int], volumes: list[Volume]) -> dict[str, Any]:
    return {"entries": changes.index(volumes)}


def _unpack_layer(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> dict[str, Any]:
    return layers.unpack_layer(_disk(volumes), request["name"], _stream(fds[0], "rb"))


def _pack_layer(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> dict[str, Any]:
    return layers.pack_layer(_disk(volumes), request["name"], _stream(fds[0], "wb"))


def _remove_below(request: dict[str, Any], _: list[int], volumes: list[Volume]) -> dict[str, Any]:
    removing.remove(_disk(volumes), request["name"])
    return {}


def _look_at(request: dict[str, Any], _: list[int], __: list[Volume]) -> dict[str, Any]:
    return layers.look_at(request["path"], request["owner"])


def _look_up(request: dict[str, Any], _: list[int], __: list[Volume]) -> dict[str, Any]:
    return layers.look_up(request["name"])


def _place(request: dict[str, Any], fds: list[int], _: list[Volume]) -> dict[str, Any]:
    return layers.place(request, _stream(fds[0], "rb"))


def _pack_path(request: dict[str, Any], fds: list[int], _: list[Volume]) -> dict[str, Any]:
    return layers.pack_path(request["path"], request["name"], _stream(fds[0], "wb"))


def _list_folder(request: dict[str, Any], _: list[int], __: list[Volume]) -> dict[str, Any]:
    return layers.list_folder(request["path"])


def _owners_of_links(_: dict[str, Any], __: list[int], volumes: list[Volume]) -> dict[str, Any]:
    return {"owners": owners.of_unmarked(volumes[0].upper_fd)}


def _measure(request: dict[str, Any], _: list[int], volumes: list[Volume]) -> dict[str, Any]:
    """How much the sandbox's changes take, and what lies at some places of it."""
    opened = [files.open_inside(path, os.O_RDONLY | os.O_DIRECTORY) for path in request["places"]]
    return {"size_bytes": room.taken([*(volume.upper_fd for volume in volumes), *opened])}


def _disk(volumes: list[Volume]) -> int:
    if volumes[0].disk_fd is None:
        raise LookupError("no folder of the host was lent to this sandbox")
    return volumes[0].disk_fd


JOBS: Final = {
    "get_tree": _get_tree,
    "put_tree": _put_tree,
    "snapshot": _snapshot,
    "diff": _diff,
    "unpack_layer": _unpack_layer,
    "pack_layer": _pack_layer,
    "remove_below": _remove_below,
    "look_at": _look_at,
    "look_up": _look_up,
    "place": _place,
    "pack_path": _pack_path,
    "list_folder": _list_folder,
    "measure": _measure,
    "owners_of_links": _owners_of_links,
}
