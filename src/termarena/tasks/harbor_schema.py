"""`task.toml` as Harbor (Terminal-Bench 2 and later, TerminalWorld) writes it, schema versions up to 1.4: names and
defaults are theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, Strict

from termarena.tasks.frozen import FrozenDict
from termarena.tasks.model import (
    Artifact,
    Collect,
    FreeTable,
    Frozen,
    Healthcheck,
    McpServer,
    Strings,
    Table,
    Toolchain,
    Tpu,
    User,
    VerdictSource,
)

__all__ = [
    "KNOWN_SCHEMAS",
    "AgentSection",
    "EnvironmentSection",
    "Extension",
    "StepSection",
    "TaskToml",
    "VerifierSection",
]

KNOWN_SCHEMAS = ("1.0", "1.1", "1.2", "1.3", "1.4")
NetworkMode = Literal["public", "no-network", "allowlist"]
ArtifactEntries = Annotated[tuple[str | Artifact, ...], Strict(strict=False)]


class AuthorSection(Frozen):
    """One of `[task].authors`."""

    name: str
    email: str | None = None


class PackageSection(Frozen):
    """`[task]`."""

    name: str
    version: str | None = None
    description: str = ""
    authors: Annotated[tuple[AuthorSection, ...], Strict(strict=False)] = ()
    keywords: Strings = ()


class EnvironmentSection(Frozen):
    """`[environment]`, and `[verifier.environment]`."""

    build_timeout_sec: PositiveFloat = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: PositiveInt | None = None
    memory_mb: PositiveInt | None = None
    storage_mb: PositiveInt | None = None
    memory: str | None = None
    storage: str | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: Strings | None = None
    tpu: Tpu | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Strings | None = None
    allow_internet: bool | None = None
    mcp_servers: Annotated[tuple[McpServer, ...], Strict(strict=False)] = ()
    env: Table = Field(default_factory=FrozenDict)
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None


class AgentSection(Frozen):
    """`[agent]`."""

    timeout_sec: PositiveFloat | None = None
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Strings | None = None


class VerifierSection(Frozen):
    """`[verifier]`."""

    timeout_sec: PositiveFloat | None = None
    env: Table = Field(default_factory=FrozenDict)
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Strings | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentSection | None = None
    collect: Annotated[tuple[Collect, ...], Strict(strict=False)] = ()


class SolutionSection(Frozen):
    """`[solution]`."""

    env: Table = Field(default_factory=FrozenDict)


class StepSection(Frozen):
    """One of `[[steps]]`."""

    name: str
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    min_reward: float | Mapping[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: ArtifactEntries = ()


class TestsExtension(Frozen):
    """`[metadata.termarena.tests]`: how to grade where Harbor's reward file is not the source of the score."""

    root: str = ""
    """Folder below `tests/` that holds the tests proper; what stands beside it is for Harbor's sake."""
    entry: str = "test.sh"
    verdict: VerdictSource = "reward_file"
    same_shell: bool = False
    toolchain: Toolchain = "agents"


class Extension(Frozen):
    """`[metadata.termarena]`: what TermArena knows and Harbor has no field for. Harbor ignores it."""

    id: str | None = None
    """The task's own id, where it cannot be a folder's name."""
    requires: Strings | None = None
    setup: str | None = None
    services: Strings = ()
    integrity_allow: Strings = ()
    tests: TestsExtension = TestsExtension()
    keystrokes: str | None = None
    """A Terminal-Bench 1 keystroke list in `solution/`."""
    format: Literal["harbor", "terminal-bench-1", "simple", "terminalworld"] | None = None
    """The format the folder was converted from."""
    unknown: FreeTable = Field(default_factory=FrozenDict)
    """Fields that the format it was converted from did not know."""


class TaskToml(Frozen):
    """The whole file."""

    schema_version: str = "1.4"
    version: str | None = None
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    task: PackageSection | None = None
    metadata: FreeTable = Field(default_factory=FrozenDict)
    environment: EnvironmentSection = EnvironmentSection()
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    solution: SolutionSection = SolutionSection()
    steps: Annotated[tuple[StepSection, ...], Strict(strict=False)] | None = None
    artifacts: ArtifactEntries = ()
