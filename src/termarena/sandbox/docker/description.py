"""What an engine is told about a container that it is to make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from termarena.sandbox.docker.scripts import KEEPER, LIMIT_KB, OWN_PROCESSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.spec import Limits, SandboxSpec

__all__ = ["describe", "host_config"]

SHM_BYTES: Final = 64 << 20


def describe(
    spec: SandboxSpec, image: str, labels: Mapping[str, str], *, network: str, has_quota: bool
) -> dict[str, Any]:
    """For the call that makes it; `has_quota`: the engine's storage can hold it to its disk limit."""
    host: dict[str, Any] = host_config(spec.limits, network=network)
    if spec.mounts:
        host["Mounts"] = [
            {"Type": "bind", "Source": str(mount.source), "Target": mount.target, "ReadOnly": True}
            for mount in spec.mounts
        ]
    if has_quota:
        host["StorageOpt"] = {"size": str(spec.limits.disk_bytes)}
    return {
        "Image": image,
        "Hostname": spec.hostname,
        "OpenStdin": True,
        "Labels": dict(labels),
        "HostConfig": host,
        **_first_process(spec),
    }


def _first_process(spec: SandboxSpec) -> dict[str, Any]:
    """What the container runs: our idle command as root, or as the words of the image's entrypoint and as its user."""
    idle = ["/bin/sh", "-c", KEEPER]
    if spec.runs_entrypoint:
        return {"Cmd": idle, "Env": [f"{name}={value}" for name, value in spec.env.items()]}
    return {"Entrypoint": idle, "Cmd": [], "User": "0:0", "WorkingDir": "/"}


def host_config(limits: Limits, *, network: str) -> dict[str, Any]:
    """What the engine is told about limits and network."""
    config: dict[str, Any] = {
        "Init": True,
        "NetworkMode": network,
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "PidsLimit": limits.pids + OWN_PROCESSES,
        "ShmSize": min(SHM_BYTES, limits.disk_bytes),
        "CapDrop": ["NET_RAW"],
        "Ulimits": [
            {"Name": "memlock", "Soft": LIMIT_KB << 10, "Hard": LIMIT_KB << 10},
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": 2 * limits.disk_bytes, "Hard": 2 * limits.disk_bytes},
        ],
    }
    if limits.cpus is not None:
        config["NanoCpus"] = int(limits.cpus * 10**9)
    return config
