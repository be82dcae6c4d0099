"""What a sandbox is to be: its root file system, limits, network, environment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "MODEL_URL",
    "PROXY_PORT",
    "Feature",
    "Fetches",
    "Limits",
    "Mount",
    "Network",
    "NetworkMode",
    "Root",
    "SandboxSpec",
]

NetworkMode = Literal["none", "allowlist", "model_only", "public"]

GIB = 1 << 30
PROXY_PORT = 3128
MODEL_URL = f"http://127.0.0.1:{PROXY_PORT}"
"""Where a sandbox finds its gateway."""


class Feature(StrEnum):
    """What a task may insist on; `SandboxSpec.requires` is checked against the driver before anything starts."""

    USERS = "several user ids"
    CPU_LIMIT = "a cpu limit"
    MEMORY_LIMIT = "a memory limit over all processes"
    PIDS_LIMIT = "a limit on the number of processes"
    DISK_LIMIT = "a disk limit"
    SNAPSHOT = "snapshots"
    NETWORK = "network through a proxy"
    WRITABLE_SYSTEM = "a root file system that is writable everywhere"
    SERVICES = "several services"
    BUILD = "building a Dockerfile"
    HOST_ROOT = "this machine's own files as its root"
    PRISTINE_SYSTEM = "the system's folders as they were at the start"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Root(_Frozen):
    """The root file system below the sandbox's changes."""

    kind: Literal["host", "folder", "archive", "image", "dockerfile", "compose"] = "host"
    """`host`: this machine's `/usr`, a synthesised `/etc` and nothing else of it; never for ranked runs.

    `compose`: one service of a compose file, with the others beside it.
    """
    path: Path | None = None
    """The folder, the tar archive, the build context with the Dockerfile, or the compose file."""
    image: str | None = None
    """`image`: its name, with a tag or a digest. `compose`: the main service's, instead of what the file says."""
    dockerfile: str = "Dockerfile"
    """`dockerfile`: its name within the context."""
    service: str = "main"
    """`compose`: the service that is the sandbox."""

    @model_validator(mode="after")
    def _path_belongs_to_kind(self) -> Self:
        needs_path = self.kind not in ("host", "image")
        if (self.path is not None) != needs_path:
            raise ValueError(f"a {self.kind} root {'needs a' if needs_path else 'takes no'} path")
        if (self.image is not None) != (self.kind == "image") and self.kind != "compose":
            raise ValueError(f"a {self.kind} root {'needs' if self.kind == 'image' else 'takes no'} image")
        return self


class Limits(_Frozen):
    """How much of the machine the sandbox may use."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    """Processor time per wall time; absent means no limit."""
    memory_bytes: Annotated[int, Field(ge=16 << 20)] = 4 * GIB
    """All processes together, and the files they wrote where those are kept in memory."""
    pids: Annotated[int, Field(ge=4)] = 1024
    """Processes and threads alive at once."""
    disk_bytes: Annotated[int, Field(ge=1 << 20)] = 2 * GIB
    """All files that the sandbox wrote."""
    wall_s: Annotated[float, Field(gt=0)] | None = None
    """After this time the whole sandbox ends; absent means no limit."""


class Network(_Frozen):
    """What the sandbox may reach; always through a proxy on the host, never directly."""

    mode: NetworkMode = "none"
    allowed_hosts: tuple[str, ...] = ()
    """`allowlist` and `model_only`: `name`, `name:port` or `*.name`. Anything else is refused."""
    gateway: str | None = None
    """`host:port` of a server of this machine that the sandbox finds at its own `MODEL_URL`; not for `none`."""

    @model_validator(mode="after")
    def _hosts_belong_to_mode(self) -> Self:
        if self.allowed_hosts and self.mode in ("none", "public"):
            raise ValueError(f"network {self.mode} takes no allowed_hosts")
        if self.gateway is not None and self.mode == "none":
            raise ValueError("network none takes no gateway; model_only does")
        return self

    def with_gateway(self, address: str) -> Network:
        """The same and this server; without any network it is the only thing that is reached."""
        mode: NetworkMode = "model_only" if self.mode == "none" else self.mode
        return Network(mode=mode, allowed_hosts=self.allowed_hosts, gateway=address)

    def without_gateway(self) -> Network:
        """What is left without it: `none` where it was the only thing that was reached."""
        if self.gateway is None:
            return self
        is_alone = self.mode == "model_only" and not self.allowed_hosts
        return Network(mode="none" if is_alone else self.mode, allowed_hosts=self.allowed_hosts)


class Fetches(_Frozen):
    """A recording of downloads: kept there, or given out of it and nothing else."""

    mode: Literal["record", "replay"]
    folder: Path
    """Holds `fetches.json` and the contents by digest."""


class Mount(_Frozen):
    """A folder of this machine that a sandbox sees, shares with others, and cannot change."""

    source: Path
    """Everything below it is readable in the sandbox, whoever owns it."""
    target: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$")]
    """Made where it is missing; what lies there is hidden."""


class SandboxSpec(_Frozen):
    """Everything that decides what a sandbox is; two equal specs give equal sandboxes on one machine."""

    root: Root = Root()
    limits: Limits = Limits()
    network: Network = Network()
    fetches: Fetches | None = None
    """What the network's place is taken by, in this sandbox and while its root is built; never for agents."""
    env: dict[str, str] = Field(default_factory=dict)
    """Added to PATH, HOME, USER, LOGNAME and LANG; nothing of the harness's environment is passed on."""
    workdir: str | None = None
    """Where commands start, made when missing; absent means the user's home."""
    hostname: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$")] = "sandbox"
    user: str = "root"
    """`name`, `uid`, `name:group` or `uid:gid` of the sandbox."""
    mounts: tuple[Mount, ...] = ()
    """Not part of the files: neither a snapshot nor a diff has them."""
    runs_entrypoint: bool = False
    """Images: whether the image's own ENTRYPOINT begins the sandbox, as with `docker run IMAGE sleep infinity`; it may
    start services. A fork never runs it again."""
    pristine_system: bool = False
    """Forks: `/usr`, `/bin`, `/lib` and their like, and what in `/etc` decides which code they run (settings of loaders
    and of OpenSSL, alternatives, what Python and Perl load by themselves), are as they were when the sandbox of the
    snapshot began, whatever was made of them since, and read-only. A driver without `Feature.PRISTINE_SYSTEM` must not
    be asked for it."""
    requires: frozenset[Feature] = frozenset()
    """A missing one is refused before start; every other limit is applied as well as the machine allows."""
