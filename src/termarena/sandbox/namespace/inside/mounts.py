"""The file system of one sandbox, assembled by its process 1 before anything else runs in it.

Everything happens below a tmpfs that hides one folder of the host in this mount namespace only; the mounts get neutral
names there, so that no path of the host shows in the sandbox's mount table. What every sandbox has is prepared before
it is known which one it will be; the root file system and the sizes come after that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Any, Final, NamedTuple, NoReturn

from . import files, kernelfs, lending, merge, pristine, tar, unpack
from . import syscalls as sc

STAGING_CANDIDATES: Final = ("/sys/fs/cgroup", "/sys/kernel/security", "/sys/kernel/debug", "/sys/fs/bpf")
"""Folders of the kernel that are there to be mounted on: nothing that a plan could name lies below them."""
STAGING_OPTIONS: Final = "size=1m,nr_inodes=256,mode=755"
DISK, CHANGES = "disk", "changes"
"""A folder that was lent for work, and the one that keeps the changes."""
MOST_LAYERS: Final = 48
"""Of a snapshot: their names have to fit in a page of mount options."""

PIDS_PER_FORK, MOST_FORKS = 2000, 10
"""A fork counts its processes from further on than what it was forked from: the number of a process that is gone, in a
file that it left, would else soon be that of another one, and a test would find it alive."""


class Volume:
    """One overlay of the sandbox: where it is mounted, its changes, and what lies below them."""

    __slots__ = ("at", "base_fd", "disk_fd", "layer_fds", "tree_fds", "upper_fd")

    def __init__(self, at: str, *, upper_fd: int, base_fd: int, layer_fds: list[int], tree_fds: list[int]) -> None:
        """All are folders: the changes, what was there at the start, and the change layers it was forked from.

        `tree_fds` are detached mounts of the layers, lowest first, and of the changes, for a fork.
        """
        self.disk_fd: int | None = None
        self.at = at
        self.upper_fd = upper_fd
        self.base_fd = base_fd
        self.layer_fds = layer_fds
        self.tree_fds = tree_fds


def prepare(*, keeps_host: bool) -> int | None:
    """Stage what every sandbox has, and stay in the staging folder; a descriptor that `assemble` takes.

    `keeps_host`: paths of the host will be opened. What the host mounts and unmounts until then is followed, where it
    says so to anybody. Else the host's mounts are let go of: who waits would hold those that the host unmounts.
    Raises `OSError` of the step that failed.
    """
    staging = next((path for path in STAGING_CANDIDATES if os.path.isdir(path)), None)
    if staging is None:
        raise OSError(errno.ENOENT, "no folder of /sys can be mounted on", STAGING_CANDIDATES[0])
    sc.mount("none", staging, fstype="tmpfs", flags=sc.MS_NOSUID | sc.MS_NODEV, options=STAGING_OPTIONS)
    os.chdir(staging)
    os.mkdir("new")
    for name in kernelfs.NAMES:
        os.mkdir(name)
    last_pid_fd = kernelfs.mount_all(".")
    if not keeps_host:
        sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
        _move_into(".")
    return last_pid_fd


def _move_into(root: str) -> None:
    """Make a mount the root, and let go of all that was outside of it."""
    os.chdir(root)
    sc.pivot_root(".", ".")
    sc.unmount(".")
    os.chdir("/")


def take_descriptors(plan: dict[str, Any], fds: list[int]) -> None:
    """Put the descriptors that came with a plan in the place of their numbers."""
    lent = [lower for volume in plan["volumes"] for lower in volume["lowers"]]
    lent += [*plan["mounts"], *plan["step_mounts"], *(one for _, one in _folders_lent(plan))]
    for one in lent:
        number = one["tree"] if one.get("tree") is not None else one.get("fd")
        one["fd"] = None if number is None else fds[number]


def assemble(plan: dict[str, Any], last_pid_fd: int | None, *, restore_fd: int | None) -> list[Volume]:
    """Build the root that `plan` describes and move into it, from the staging folder.

    What it lies on comes as the descriptor of a detached mount, or as a path of the host, uppermost first. `restore_fd`
    is a snapshot whose layers come above that. Raises `OSError` of the step that failed, `ValueError` for a snapshot
    that cannot be read.
    """
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    options = f"size={plan['disk_bytes']},nr_inodes={plan['inodes']},mode=755"
    sc.mount(None, ".", flags=sc.MS_REMOUNT | sc.MS_NOSUID | sc.MS_NODEV, options=options)
    disk = plan["disk"]
    lent = {name: _place_of(one) for name, one in _folders_lent(plan)}
    for mount in plan["step_mounts"]:
        if mount["path"] is not None and mount["fd"] is None:
            mount["fd"] = lending.plain_mount(mount["path"], is_writable=mount["is_writable"])
    ats = [volume["at"] for volume in plan["volumes"]]
    for name, folder in lent.items():
        _attach_lent(folder, name)
    place = f"{CHANGES}/" if CHANGES in lent else ""
    restored: list[str] = []
    if restore_fd is not None:
        restored = _restore(restore_fd, plan, place=place, volumes=len(ats))
    volumes = []
    started: list[tuple[str, list[str]]] = []
    for index, volume in enumerate(plan["volumes"]):
        names = [f"{layer}.{index}" for layer in restored] + _attach(index, volume["lowers"])
        own_layers = names[: len(restored) + volume["layers"]]
        changes = _Changes(f"{place}u{index}", f"{place}w{index}", ",volatile" if place else "")
        if disk and disk["holds_changes"] and index == 0:
            changes = _Changes(f"{DISK}/fs", f"{DISK}/work")
        volumes.append(_mount_volume(index, volume["at"], names, layers=own_layers, changes=changes))
        started.append((volume["at"], names[1:] if own_layers else names))
    system = pristine.find(started) if plan["pristine_system"] else []
    for index, mount in enumerate(plan["mounts"], start=len(ats)):
        _mount_folder(f"new{mount['at']}", *_attach(index, [mount]))
    if disk:
        volumes[0].disk_fd = os.open(DISK, os.O_RDONLY | os.O_DIRECTORY)
    forks = min(len(volumes[0].layer_fds), MOST_FORKS)
    last_pid = forks * PIDS_PER_FORK
    kernelfs.move_all(".", "new", last_pid_fd=last_pid_fd, last_pid=last_pid, shm_bytes=plan["shm_bytes"])
    _move_into("new")
    pristine.lay(system)
    return volumes


def mount_more(mount: dict[str, Any]) -> list[str]:
    """Mount a folder or file of the host, or memory, in the finished root; what had to be made for it."""
    at = mount["at"]
    if mount["is_file"]:
        made = files.make_folder(os.path.dirname(at))
        if not os.path.lexists(at):
            _write(at, b"")
            made.append(at)
    else:
        made = files.make_folder(at)
    if mount["tree"] is not None:
        _attach_tree(mount["fd"], at, fills=mount["fills"], is_writable=mount["is_writable"])
    elif mount["path"] is None:
        options = f"size={mount['size_bytes']},mode={mount['mode']:o}"
        sc.mount("none", at, fstype="tmpfs", flags=sc.MS_NOSUID | sc.MS_NODEV, options=options)
    else:
        sc.move_mount(mount["fd"], at)
    return made


def _attach_tree(tree_fd: int, at: str, *, fills: bool, is_writable: bool) -> None:
    """Mount what another sandbox lends; an empty folder first gets what lies there, if `fills`."""
    if fills:
        volume = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=tree_fd)
        try:
            if not os.listdir(volume):
                _copy_tree(at, volume)
        finally:
            os.close(volume)
    if not is_writable:
        sc.set_mount_attributes(tree_fd, sc.MOUNT_ATTR_RDONLY)
    sc.move_mount(tree_fd, at)


def _copy_tree(source: str, target_fd: int) -> None:
    """Everything below a folder, with owners and modes, also those of the folder itself. Raises `OSError`."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _pack_and_end(source, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as archive:
            unpack.Unpacker({"0": target_fd}, exact=True).unpack(archive)
    except ValueError as error:
        raise OSError(errno.EIO, f"the content of {source} could not be copied: {error}") from error
    finally:
        # Sandboxes are made with SIGCHLD ignored: the wait then ends without a status.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _pack_and_end(source: str, writing: int) -> NoReturn:
    try:
        root = files.open_inside(source, os.O_RDONLY | os.O_DIRECTORY)
        with os.fdopen(writing, "wb") as out:
            packer = tar.Packer(out, exact=True)
            packer.pack(root, "0")
            packer.finish()
    finally:
        os._exit(0)


def _write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _place_of(lent: dict[str, Any]) -> int | str:
    """The descriptor of a mount, or a path of the host."""
    fd: int | None = lent["fd"]
    return fd if fd is not None else f"/proc/self/fd/{os.open(lent['path'], os.O_PATH | os.O_DIRECTORY)}"


def _attach(index: int, lowers: list[dict[str, Any]]) -> list[str]:
    """Give each lower a name in the staging folder."""
    names = [f"l{index}.{layer}" for layer in range(len(lowers))]
    for name, lower in zip(names, lowers, strict=True):
        _attach_lent(_place_of(lower), name)
    return names


def _folders_lent(plan: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The folders of the host that the sandbox writes to, with their names in the staging folder."""
    return [(name, plan[name]) for name in (DISK, CHANGES) if plan[name] is not None]


def _attach_lent(lent: int | str, name: str) -> None:
    """Give a folder of the host a name in the staging folder."""
    if isinstance(lent, int):
        os.mkdir(name)
        sc.move_mount(lent, name)
    else:
        os.symlink(lent, name)


class _Changes(NamedTuple):
    """Where the changes of one volume are kept."""

    upper: str
    work: str
    options: str = ""


def _mount_volume(index: int, at: str, names: list[str], *, layers: list[str], changes: _Changes) -> Volume:
    """Mount one overlay below `new`; `layers` are those of `names` that hold changes of earlier sandboxes."""
    upper, base = changes.upper, names[0]
    os.mkdir(upper)
    os.mkdir(changes.work)
    if len(names) > 1:
        base = f"b{index}"
        os.mkdir(base)
        options = f"lowerdir={':'.join(names)},userxattr"
        sc.mount("overlay", base, fstype="overlay", flags=sc.MS_RDONLY, options=options)
    _copy_folder_identity(base, upper)
    folder = os.O_RDONLY | os.O_DIRECTORY
    volume = Volume(
        at,
        upper_fd=os.open(upper, folder),
        base_fd=os.open(base, folder),
        layer_fds=[os.open(name, folder) for name in reversed(layers)],
        tree_fds=[sc.open_tree(name) for name in (*reversed(layers), upper)],
    )
    # userxattr: without it the mount succeeds and then deleting a folder fails with EIO.
    options = f"lowerdir={':'.join(names)},upperdir={upper},workdir={changes.work},userxattr{changes.options}"
    sc.mount("overlay", f"new/{at}" if at else "new", fstype="overlay", flags=sc.MS_NODEV, options=options)
    return volume


def _copy_folder_identity(source: str, target: str) -> None:
    """Mode and owner of the root folder; an owner without a number here stays our root."""
    found = os.stat(source)
    with contextlib.suppress(OSError):
        os.chown(target, found.st_uid, found.st_gid)
    os.chmod(target, stat.S_IMODE(found.st_mode))


def _restore(restore_fd: int, plan: dict[str, Any], *, place: str, volumes: int) -> list[str]:
    """Unpack a snapshot below `place`; what its layers are called there, uppermost first, each with its volume behind.

    A member's first folder is its layer and volume. Of many layers all but the last become one: an overlay has only so
    many, and the last one alone tells what the sandbox of the snapshot began with.
    """
    layers: int = plan["restore_layers"]
    is_merged = layers > MOST_LAYERS
    kept = 2 if is_merged else layers
    names = [f"{place}r{layer}" for layer in range(kept)]
    opened = {}
    for name in (f"{layer}.{volume}" for layer in names for volume in range(volumes)):
        os.mkdir(name)
        opened[name] = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    first_alone = layers - kept + 1
    roots = {
        f"{layer}.{volume}": opened[f"{names[max(0, layer - first_alone + 1)]}.{volume}"]
        for layer in range(layers)
        for volume in range(volumes)
    }
    try:
        with os.fdopen(restore_fd, "rb", closefd=False) as archive:
            archive.seek(plan["restore_offset"])
            (merge.Merger if is_merged else unpack.Unpacker)(roots, exact=True).unpack(archive)
    finally:
        for fd in opened.values():
            os.close(fd)
    return names[::-1]


def _mount_folder(target: str, name: str) -> None:
    """Show a folder of the host, read-only. Raises `OSError` where a link or a file stands in its place.

    As the lower of an overlay: a plain bind would show the folder's path on the host in the mount table.
    """
    parts = target.split("/")
    for depth in range(2, len(parts) + 1):
        path = "/".join(parts[:depth])
        if not kernelfs.is_folder(path):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
    empty = f"{name}.empty"
    os.mkdir(empty)
    flags = sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV
    sc.mount("overlay", target, fstype="overlay", flags=flags, options=f"lowerdir={name}:{empty},userxattr")
