"""`Task`: one immutable value, whatever format it came in.

The canonical meaning is Harbor's (Terminal-Bench 2): an instruction, an environment, an agent phase, tests that enter
afterwards. Every loader translates into it; nothing downstream knows the format. Units are in the names; a field that
a format leaves out has the format's own default, so that the digest of a task does not depend on how much of it was
spelled out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PositiveFloat,
    PositiveInt,
    SkipValidation,
    Strict,
)

from termarena.tasks.files import FileTree
from termarena.tasks.frozen import FrozenDict, freeze

if TYPE_CHECKING:
    from termarena.tasks.digest import TaskDigest

__all__ = [
    "AgentPhase",
    "Artifact",
    "BareRecipe",
    "Collect",
    "Environment",
    "Finding",
    "Format",
    "Frozen",
    "Grading",
    "Healthcheck",
    "Keystrokes",
    "McpServer",
    "Metadata",
    "NetworkPolicy",
    "Provenance",
    "Solution",
    "Step",
    "Task",
    "Tests",
    "Tpu",
    "VerdictSource",
]

Format = Literal["harbor", "terminal-bench-1", "simple", "terminalworld"]
VerdictSource = Literal[
    "reward_file", "reward_pipe", "exit_status", "pytest", "swebench", "sweperf", "mlebench", "swelancer"
]
Toolchain = Literal["agents", "pristine"]
User = str | int


class Frozen(BaseModel):
    """Base of every part of a task: immutable, strictly typed, no unknown fields, no NaN."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
    )


def _listing(tree: FileTree) -> list[dict[str, Any]]:
    return [{"path": f.path, "kind": f.kind, "size_bytes": f.size_bytes, "executable": f.executable} for f in tree]


Tree = Annotated[SkipValidation[FileTree], PlainSerializer(_listing)]
EMPTY = FileTree()
Table = Annotated[Mapping[str, str], AfterValidator(FrozenDict)]
FreeTable = Annotated[Mapping[str, Any], AfterValidator(freeze)]
# Documents hold lists; a task holds tuples. Their items stay strict.
Strings = Annotated[tuple[str, ...], Strict(strict=False)]


class Finding(Frozen):
    """Something worth saying about a task that does not stop it from loading or running."""

    rule: str
    """Stable id, such as `unknown-field`; `docs/rules.md` explains each."""
    severity: Literal["error", "warning", "info"]
    file: str
    """Path relative to the task's folder."""
    message: str
    field: str | None = None
    """A dotted path in the file, where one field of it is meant."""
    line: int | None = None
    hint: str | None = None


class NetworkPolicy(Frozen):
    """What a phase may reach."""

    mode: Literal["public", "none", "allowlist"] = "public"
    allowed_hosts: Strings = ()
    """Host names, `*.` wildcards, addresses and CIDR ranges; only with `allowlist`."""


class Healthcheck(Frozen):
    """A command that must succeed before the agent starts; the rules are Docker's."""

    command: str
    interval_s: PositiveFloat = Field(5.0, alias="interval_sec")
    timeout_s: PositiveFloat = Field(30.0, alias="timeout_sec")
    start_period_s: Annotated[float, Field(ge=0)] = Field(0.0, alias="start_period_sec")
    start_interval_s: PositiveFloat = Field(5.0, alias="start_interval_sec")
    retries: PositiveInt = 3


def _transport(value: object) -> object:
    return "streamable-http" if value == "http" else value


class McpServer(Frozen):
    """A tool server the agent may use."""

    name: str
    transport: Annotated[Literal["stdio", "sse", "streamable-http"], BeforeValidator(_transport)] = "sse"
    url: str | None = None
    command: str | None = None
    args: Strings = ()


class Artifact(Frozen):
    """A path in the sandbox that is kept after the agent's work."""

    source: str
    destination: str | None = None
    exclude: Strings = ()
    service: str | None = None


class Tpu(Frozen):
    """A TPU slice."""

    type: str
    topology: str


class BareRecipe(Frozen):
    """How to make the start state on a plain root file system, with no image: what samples and the simple format
    declare.

    `context` is laid down in a temporary folder, `setup` runs there as root, the folder is removed.
    """

    requires: Strings
    """Commands that must be on the PATH beyond coreutils; one that is missing is an unmet capability."""
    setup: str | None = None
    """Script in the environment's context."""


class Environment(Frozen):
    """The machine an agent, or a separate grader, finds."""

    image: str | None = None
    """A prebuilt image; without one, `context` holds a Dockerfile or a compose file."""
    context: Tree = EMPTY
    """The build context: `environment/`."""
    compose: str | None = None
    """Path of the compose file in `context`, for tasks of several services."""
    bare: BareRecipe | None = None
    services: Strings = ()
    """Processes that the agent must leave running: names for people, and the reason to grade live."""
    os: Literal["linux", "windows"] = "linux"
    cpus: PositiveInt | None = None
    memory_mb: PositiveInt | None = None
    storage_mb: PositiveInt | None = None
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu_types: Strings = ()
    tpu: Tpu | None = None
    network: NetworkPolicy = NetworkPolicy()
    env: Table = Field(default_factory=FrozenDict)
    """`${VAR}` and `${VAR:-default}` are resolved from the host when a sandbox starts."""
    workdir: str | None = None
    skills_dir: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    healthcheck: Healthcheck | None = None
    build_timeout_s: PositiveFloat = 600.0


class AgentPhase(Frozen):
    """What binds the agent."""

    timeout_s: PositiveFloat | None = None
    """None is the format's "no limit"; a run then uses its own default and says so."""
    user: User | None = None
    network: NetworkPolicy | None = None
    """None: the environment's."""


class Collect(Frozen):
    """A command run in a service after the agent's work, to turn live state into files."""

    command: str
    service: str = "main"
    timeout_s: PositiveFloat = Field(60.0, alias="timeout_sec")
    user: User | None = None


class Grading(Frozen):
    """What binds the grader."""

    timeout_s: PositiveFloat = 600.0
    env: Table = Field(default_factory=FrozenDict)
    user: User | None = None
    network: NetworkPolicy | None = None
    mode: Literal["shared", "separate"] = "shared"
    environment: Environment | None = None
    """The grader's own environment in separate mode; None there means a fresh copy of the task's."""
    collect: tuple[Collect, ...] = ()


class Tests(Frozen):
    """The hidden tests: laid at `/tests` once the agent can no longer act."""

    files: Tree
    entry: str | None = "test.sh"
    """None where the files only accompany tests that a step or the grader's own image brings."""
    verdict: VerdictSource = "reward_file"
    """Where the score comes from: a reward file (Harbor), a pipe to the harness, the exit status (simple), or a parser
    of the output (Terminal-Bench 1)."""
    toolchain: Toolchain = "agents"
    """`pristine`: no solution changes the system's folders, so a sealed grading has them as they were at the start."""
    same_shell: bool = False
    """Terminal-Bench 1: the tests are typed into the agent's own shell."""


class Keystrokes(Frozen):
    """One entry of a Terminal-Bench 1 `solution.yaml`."""

    command: str
    min_timeout_s: Annotated[float, Field(ge=0)] = Field(0.0, alias="min_timeout_sec")
    max_timeout_s: PositiveFloat = Field(180.0, alias="max_timeout_sec")
    block: bool = False
    append_enter: bool = True


class Solution(Frozen):
    """The reference solution: a script, or keystrokes."""

    files: Tree = EMPTY
    entry: str | None = None
    keystrokes: tuple[Keystrokes, ...] = ()
    env: Table = Field(default_factory=FrozenDict)


class Step(Frozen):
    """One step of a multi-step task; the environment lives on from step to step."""

    name: str
    instruction: str
    workdir: Tree = EMPTY
    """Files laid into the working directory before the step; its `setup.sh`, if any, is run."""
    tests: Tests | None = None
    """None: the task's own tests."""
    solution: Solution | None = None
    trajectory: Tree = EMPTY
    agent: AgentPhase = AgentPhase()
    """What the step leaves out is the task's, already filled in; likewise in `grading`."""
    grading: Grading = Grading()
    min_reward: float | Annotated[Mapping[str, float], AfterValidator(FrozenDict)] | None = None
    """Below it, the steps that follow are not run."""
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()


class Metadata(Frozen):
    """What a task says of itself; none of it can move a score."""

    description: str = ""
    version: str | None = None
    category: str = "unknown"
    difficulty: str = "unknown"
    tags: Strings = ()
    languages: Strings = ()
    keywords: Strings = ()
    authors: Strings = ()
    """`Name` or `Name <email>`."""
    expert_time_min: float | None = None
    junior_time_min: float | None = None
    extra: FreeTable = Field(default_factory=FrozenDict)
    """Everything else in the format's free-form section, as it stood."""


class Provenance(Frozen):
    """Where a task came from."""

    format: Format
    path: str
    """The folder (or `tasks.json`) on this machine."""
    schema_version: str | None = None
    source: str | None = None
    """What the task names as its origin: a recording, an issue, another benchmark."""


class Task(Frozen):
    """A task: see the module's docstring. `digest` identifies what can move a score."""

    id: str
    instruction: str
    environment: Environment
    agent: AgentPhase = AgentPhase()
    grading: Grading = Grading()
    tests: Tests | None = None
    """None only where every step, or the grader's own image, brings all of them."""
    solution: Solution | None = None
    steps: tuple[Step, ...] = ()
    reward_strategy: Literal["mean", "final"] = "mean"
    """How the steps' rewards become the task's."""
    artifacts: tuple[Artifact, ...] = ()
    integrity_allow: Strings = ()
    """Patterns of paths (`/etc/profile.d/*`) that the instruction asks to change: never held against the agent."""
    trajectory: Tree = EMPTY
    """A prior conversation that the agent continues (`trajectory.json`)."""
    metadata: Metadata = Metadata()
    provenance: Provenance
    extras: Tree = EMPTY
    """Every other file of the folder: `cheats/`, `source/`, `status.json`, README …"""
    unknown: FreeTable = Field(default_factory=FrozenDict)
    """Fields that the format does not know, by dotted name; kept and written back."""
    findings: tuple[Finding, ...] = ()
    """What the loader noticed."""

    @cached_property
    def digest(self) -> TaskDigest:
        """The semantic digest: equal for two tasks that grade alike, whatever format they came in. Reads the files
        once."""
        from termarena.tasks.digest import digest_of  # noqa: PLC0415 - digest.py needs this module's types

        return digest_of(self)

    @property
    def cheats(self) -> FileTree:
        """Dishonest solutions shipped with the task, which must score zero."""
        return self.extras.under("cheats")
