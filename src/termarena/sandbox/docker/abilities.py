"""What an engine can do, as far as it tells or shows."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import CapabilityMissing
from termarena.sandbox.contract import Capabilities
from termarena.sandbox.docker.overlay import can_read_layers
from termarena.sandbox.docker.sweeping import ask
from termarena.sandbox.spec import Feature

if TYPE_CHECKING:
    from termarena.sandbox.docker.address import Address
    from termarena.sandbox.spec import NetworkMode, SandboxSpec

__all__ = ["NO_PROXY", "Abilities", "find"]

NO_PROXY: Final = (
    "the proxy listens in the sandbox's own network, which takes root on the engine's machine;"
    " run the harness there as root, or use network none or public"
)
NO_QUOTA: Final = (
    "the engine's storage has no quotas; put its data root on xfs mounted with pquota (overlay2), on btrfs or on zfs"
)


@dataclass(slots=True)
class Abilities:
    """One engine's."""

    told: dict[str, Any]
    is_local: bool
    has_disk_limit: bool
    has_layers: bool = False
    """Whether a container's change layer can be read and filled from here."""
    disk_problem: str = NO_QUOTA
    notes: list[str] = field(default_factory=list)

    def refuse_disk_limit(self, problem: str) -> None:
        """The engine did not take a size."""
        self.has_disk_limit = False
        self.disk_problem = f"{NO_QUOTA} ({problem})"

    def network_of(self, mode: NetworkMode) -> str:
        """The engine's network for a mode: none, and a proxy where there is one; without root, public is a bridge."""
        return "bridge" if mode == "public" and not self.is_local else "none"

    def check_network(self, mode: NetworkMode) -> None:
        """Raise `CapabilityMissing` for a mode that cannot be had."""
        if mode in ("allowlist", "model_only") and not self.is_local:
            raise CapabilityMissing(f"network {mode}", driver="docker", why=NO_PROXY)

    def check_reach(self, spec: SandboxSpec) -> None:
        """Raise `CapabilityMissing` for a gateway or a folder of this machine on an engine elsewhere."""
        if self.is_local:
            return
        if spec.network.gateway is not None:
            raise CapabilityMissing("the model broker", driver="docker", why=NO_PROXY)
        if spec.mounts:
            why = "its containers see no folder of this machine; run the harness on the engine's machine as root"
            raise CapabilityMissing("a folder of this machine", driver="docker", why=why)

    def declare(self) -> Capabilities:
        """For people and for checks."""
        missing: dict[Feature, str] = {
            Feature.HOST_ROOT: "a container has an image",
            Feature.PRISTINE_SYSTEM: "a fork is a whole image; use --driver namespace",
        }
        for feature, key in (
            (Feature.CPU_LIMIT, "CpuCfsQuota"),
            (Feature.MEMORY_LIMIT, "MemoryLimit"),
            (Feature.PIDS_LIMIT, "PidsLimit"),
        ):
            if not self.told.get(key, True):
                missing[feature] = f"the engine's kernel or cgroups lack it ({key} is false)"
        if not self.has_disk_limit:
            missing[Feature.DISK_LIMIT] = self.disk_problem
        if not self.is_local:
            missing[Feature.NETWORK] = NO_PROXY
        if shutil.which("docker-compose") is None and shutil.which("docker") is None:
            missing[Feature.SERVICES] = "neither `docker compose` nor `docker-compose` is installed here"
        notes = list(self.notes)
        if not self.is_local:
            notes.append("public network is the engine's bridge, which also reaches the engine's machine")
            notes.append("a command whose daemon keeps its output open is told to have ended two seconds late")
        return Capabilities("docker", frozenset(Feature) - missing.keys(), missing, tuple(notes))


def find(address: Address, *, allow_local: bool) -> Abilities:
    """Ask the engine; raises `EngineError`."""
    told = ask(address, "GET", "/info")
    pairs = dict(row for row in told.get("DriverStatus") or [] if len(row) == 2)  # noqa: PLR2004 - name and value
    driver = told.get("Driver")
    may_limit = driver in ("btrfs", "zfs") or (driver == "overlay2" and pairs.get("Backing Filesystem") == "xfs")
    is_local = (
        allow_local
        and address.scheme == "unix"
        and os.geteuid() == 0
        and told.get("KernelVersion") == os.uname().release
    )
    is_remapped = any("name=userns" in str(option) for option in told.get("SecurityOptions") or [])
    has_layers = is_local and driver == "overlay2" and not is_remapped and can_read_layers()
    return Abilities(told, is_local, may_limit, has_layers)
