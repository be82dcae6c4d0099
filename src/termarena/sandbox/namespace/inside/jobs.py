"""Work on many files, done by a child of process 1 so that process 1 stays ready: trees in and out, snapshots, diffs.

A job runs our own code only. Its first descriptor is a memory file for its report, which is JSON. What is little is
done by process 1 itself while no process lives in the sandbox and it has no folder together with another one: nobody
is kept waiting then, and nobody can make a file grow, or hold it, under our hands.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

from . import changes, children, files, layers, little, owners, removing, room, tar, unpack

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
        children.mark(request["id"])
        # Who reads what it packs may be gone: that is to be told in its report.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        status = _carry_out(request, fds, volumes)
    finally:
        os._exit(status)


def _carry_out(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> int:
    """Do it and write its report; the status to end with."""
    status = 1
    try:
        report = JOBS[request["job"]](request, fds[1:], volumes)
        status = 0
    except (OSError, ValueError, LookupError) as error:
        report = {"problem": str(error), "errno": getattr(error, "errno", None)}
        if isinstance(error, OSError):
            report.update(problem=error.strerror, path=error.filename)
    _tell(fds[0], report)
    return status


def _tell(fd: int, report: dict[str, Any]) -> None:
    with os.fdopen(fd, "wb", closefd=False) as out:
        out.write(json.dumps(report).encode("ascii"))


def is_done_at_once(request: dict[str, Any], fds: list[int], *, volumes: list[Volume], shares_folders: bool) -> bool:
    """Do a job that is little in this very process, or tell that it is not where a request wants nothing else."""
    if not shares_folders and not children.all_pids() and _is_little(request, fds, volumes):
        with contextlib.suppress(Exception):  # what would end a child must not end process 1; no report tells it
            _carry_out(request, fds, volumes)
        return True
    if request.get("only_at_once"):
        _tell(fds[0], {"declined": True})
        return True
    return False


def _is_little(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> bool:
    job = request["job"]
    if job == "put_tree":
        has_to_count = request["limit_bytes"] is not None
        return little.is_little_file(fds[1]) and not (has_to_count and not _are_little_changes(volumes))
    if job == "get_tree":
        return little.is_little_file(fds[1]) and _is_little_tree(request["path"])
    if job == "clear_away":
        return _is_little_tree(request["path"])
    return job in ("diff", "snapshot") and _are_little_changes(volumes)


def _are_little_changes(volumes: list[Volume]) -> bool:
    return little.is_little([fd for volume in volumes for fd in (*volume.layer_fds, volume.upper_fd)])


def _is_little_tree(path: str) -> bool:
    try:
        root = files.open_inside(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return True  # the job will say so
    try:
        return little.is_little([root])
    finally:
        os.close(root)


def _stream(fd: int, mode: str) -> IO[bytes]:
    stream: IO[bytes] = os.fdopen(fd, mode, BUFFER, closefd=False)
    return stream


def _get_tree(request: dict[str, Any], fds: list[int], _: list[Volume]) -> dict[str, Any]:
    root = files.open_inside(request["path"], os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _stream(fds[0], "wb") as out:
            packer = tar.Packer(out, exact=False, max_bytes=request["max_bytes"])
            packer.pack(root, "0")
            packer.finish()
    finally:
        os.close(root)
    return {"skipped": [name[2:] for name in packer.skipped]}


def _put_tree(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> dict[str, Any]:
    owner = files.find_user(request["user"])
    files.make_folder(request["path"])
    root = files.open_inside(request["path"], os.O_RDONLY | os.O_DIRECTORY)
    try:
        unpacker = unpack.Unpacker({"0": root}, exact=False, owner=(owner.uid, owner.gid))
        if request["limit_bytes"] is not None:
            unpacker.room_bytes = request["limit_bytes"] - room.taken([volume.upper_fd for volume in volumes])
        unpacker.unpack(_stream(fds[0], "rb"))
    finally:
        os.close(root)
    return {"count": unpacker.count, "size_bytes": unpacker.size_bytes}


def _clear_away(request: dict[str, Any], _: list[int], __: list[Volume]) -> dict[str, Any]:
    folder, name = os.path.split(request["path"].rstrip("/"))
    parent = files.open_inside(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        removing.remove(parent, name)
    finally:
        os.close(parent)
    return {}


def _snapshot(request: dict[str, Any], fds: list[int], volumes: list[Volume]) -> dict[str, Any]:
    layers = len(volumes[0].layer_fds)
    with _stream(fds[0], "wb") as out:
        packer = tar.Packer(out, exact=True, max_bytes=request["max_bytes"])
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
    "clear_away": _clear_away,
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
