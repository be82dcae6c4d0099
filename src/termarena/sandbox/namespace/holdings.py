"""What belongs to one namespace sandbox on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.namespace.cgroups import Cgroup
    from termarena.sandbox.namespace.ondisk import DiskLayers
    from termarena.sandbox.state import Trace

__all__ = ["Holdings"]


@dataclass(slots=True)
class Holdings:
    """What belongs to one sandbox on the host and ends with it."""

    trace: Trace
    cgroup: Cgroup | None
    pidfd: int
    host_pid: int
    has_users: bool
    base_digest: str
    scratch: Path
    """A folder for unnamed files, on a disk rather than in memory."""
    disk: DiskLayers
    layers: tuple[Path, ...] = ()
    """The folders of changes on disk that it lies on."""
    is_on_disk: bool = False
    """Whether its own changes are in the first of them."""
