"""What a process 1 is told when it is to be a sandbox."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import ImageError
from termarena.sandbox.namespace.inside.lending import lend
from termarena.sandbox.namespace.ondisk import hold, memory_share
from termarena.sandbox.namespace.snapshots import NamespaceSnapshot
from termarena.sandbox.namespace.worker import Joining

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.contract import Snapshot
    from termarena.sandbox.namespace.cgroups import CgroupHost
    from termarena.sandbox.namespace.ids import IdMap
    from termarena.sandbox.namespace.ondisk import Changes
    from termarena.sandbox.namespace.places import Place
    from termarena.sandbox.namespace.rootfs import Base
    from termarena.sandbox.namespace.worker import Disk
    from termarena.sandbox.spec import Limits, SandboxSpec

__all__ = ["Plan"]

SHM_BYTES: Final = 64 << 20
STAGING_BYTES: Final = 4 << 20
"""Where the changes are on disk, memory holds nothing but a few names."""


class Plan:
    """What process 1 is told, and the descriptors that go with it."""

    def __init__(
        self, spec: SandboxSpec, base: Base, *, cgroups: CgroupHost, ids: IdMap, is_on_disk: bool = False
    ) -> None:
        """Opens nothing yet; `is_on_disk`: its changes are to be kept in a folder, which `keep_in` names."""
        self.spec = spec
        self.base = base
        self.ids = ids
        self.is_on_disk = is_on_disk
        self.layers: list[Path] = []
        """The folders of changes on disk that it lies on, its own and those of what it is a fork of."""
        self.fds: list[int] = []
        self.joined: tuple[int, ...] = ()
        """The namespaces of another sandbox that it is to be in."""
        self._own_fds: list[int] = []
        limits = spec.limits
        has_memory_group = cgroups.has("memory")
        in_memory = memory_share(limits) if has_memory_group else limits.disk_bytes
        disk = STAGING_BYTES if is_on_disk else in_memory
        self.message: dict[str, Any] = {
            "volumes": [
                {"at": volume.at, "lowers": [{"path": str(path)} for path in volume.lowers], "layers": 0}
                for volume in base.volumes
            ],
            "mounts": [{"path": str(mount.source), "at": mount.target} for mount in spec.mounts],
            "disk_bytes": disk,
            "inodes": max(10_000, min(2_000_000, disk // 1024)),
            "shm_bytes": min(SHM_BYTES, in_memory),
            "hostname": spec.hostname,
            "workdir": spec.workdir,
            "user": spec.user,
            "cgroup_fds": [],
            "born_fds": [],
            "freezer_fds": [],
            "rlimits": _rlimits(limits, cgroups),
            "watch_bytes": None if has_memory_group else limits.memory_bytes,
            "wall_s": limits.wall_s,
            "disk": None,
            "changes": None,
            "pristine_system": spec.pristine_system,
            "records_owners": not ids.has_users and spec.root.kind != "host",
            "step_mounts": [],
        }

    @property
    def has_users(self) -> bool:
        """Whether commands can be other users than root, if only to themselves."""
        return self.ids.has_users or bool(self.message["records_owners"])

    def add_fd(self, fd: int) -> int:
        """Send a descriptor along; its number in the message."""
        self.fds.append(fd)
        return len(self.fds) - 1

    def keep_in(self, changes: Changes) -> None:
        """Keep the sandbox's changes in this folder."""
        self.message["changes"] = changes.as_plan(self.spec.limits)
        self.layers.insert(0, changes.layer)
        self.add_fd(changes.lock_fd)

    def lend(self, lent: Disk | Joining) -> None:
        """Lend it a folder of the host, or what is another sandbox's; descriptors stay the caller's."""
        if isinstance(lent, Joining):
            self.joined = lent.namespaces
            self.message["records_owners"] = not self.ids.has_users
        else:
            self.message["disk"] = {"path": str(lent.folder), "holds_changes": lent.holds_changes}
            self.message["records_owners"] = lent.holds_changes and not self.ids.has_users
        for mount in lent.mounts:
            tree = None if mount.tree_fd is None else self.add_fd(mount.tree_fd)
            self.message["step_mounts"].append({**mount.as_plan(), "tree": tree})

    def put_in(self, place: Place) -> None:
        """Set the limits of the place's cgroups, and send along the ways into them and what it lies on.

        Raises `OSError`.
        """
        if place.cgroup is not None:
            place.cgroup.limit(self.spec.limits)
        for name, fds in place.ways.items():
            self.message[name] = [self.add_fd(fd) for fd in fds]
        shift_fd = None if place.launched is None else place.launched.shift_fd
        self._own_fds += lend(self.message, self.fds, shift_fd)

    async def fork(self, snapshot: Snapshot) -> None:
        """Begin from a snapshot's layers; raises `ImageError` when they belong on another base."""
        if not isinstance(snapshot, NamespaceSnapshot):
            raise ImageError("snapshot", "was not made by the namespace driver")
        if snapshot.base_digest != self.base.digest:
            raise ImageError(
                f"snapshot of {snapshot.taken_in}",
                "was taken on another root file system than the one here now",
                hint="start it on the machine and image it was taken on",
            )
        shared = await snapshot.share()
        self._own_fds += [fd for trees in shared.trees for fd in trees]
        for volume, trees in zip(self.message["volumes"], shared.trees, strict=bool(shared.trees)):
            layers = [{"fd": self.add_fd(fd)} for fd in reversed(trees)]
            volume["lowers"] = layers + volume["lowers"]
            volume["layers"] = len(layers)
        for layer in shared.layers:
            self._own_fds.append(hold(layer))
            self.add_fd(self._own_fds[-1])
            self.layers.append(layer)
        if shared.trees:
            return
        archive = await snapshot.archive()
        # A second open file: forks that read at the same time must not share a position.
        fd = os.open(f"/proc/self/fd/{archive.file.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
        self._own_fds.append(fd)
        self.message.update(restore_fd=self.add_fd(fd), restore_offset=archive.offset, restore_layers=archive.layers)

    def close(self) -> None:
        """Close the descriptors that were opened for sending."""
        for fd in self._own_fds:
            os.close(fd)
        self._own_fds.clear()


def _rlimits(limits: Limits, cgroups: CgroupHost) -> list[tuple[int, int]]:
    """Limits per process or user, where no cgroup has them."""
    found = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 2 * limits.disk_bytes)]
    if not cgroups.has("memory"):
        # Only a bound on how far one process can outrun the watch; a tight one would break programs that reserve much.
        found.append((resource.RLIMIT_DATA, limits.memory_bytes * 4 + (1 << 30)))
    if not cgroups.has("pids"):
        found.append((resource.RLIMIT_NPROC, limits.pids))
    return found
