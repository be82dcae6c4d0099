"""The values that pass between a driver and whoever uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.spec import Feature, SandboxSpec

__all__ = [
    "Capabilities",
    "Change",
    "ExecResult",
    "FileChanges",
    "Prepared",
    "ProcessInfo",
    "SandboxRecord",
    "Surroundings",
    "TreeReport",
    "Usage",
]


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended and what it wrote. A failing command is a result, never an error."""

    exit_status: int
    """As a shell has it: 128 + n for an end by signal n, 124 after a timeout, 127 not found, 126 not executable."""
    stdout: bytes
    """The first bytes of standard output, up to the cap."""
    stderr: bytes
    stdout_bytes: int
    """How much was written in all, whatever was kept."""
    stderr_bytes: int
    duration_s: float
    timed_out: bool = False
    oom_killed: bool = False
    """The sandbox's memory limit killed at least one of its processes while the command ran."""
    signal: int | None = None
    """The signal that ended the command's own process, if one did."""
    stdout_tail: bytes = b""
    """The last bytes of a standard output longer than the cap, up to `tail_bytes`; never what `stdout` holds."""
    stderr_tail: bytes = b""

    @property
    def stdout_truncated(self) -> bool:
        """Whether standard output was longer than what was kept."""
        return self.stdout_bytes > len(self.stdout) + len(self.stdout_tail)

    @property
    def stderr_truncated(self) -> bool:
        """Whether standard error was longer than what was kept."""
        return self.stderr_bytes > len(self.stderr) + len(self.stderr_tail)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One living process of a sandbox, by its number inside; the sandbox's own process 1 is not listed."""

    pid: int
    parent: int
    uid: int
    state: str
    """The kernel's letter: R, S, D, T."""
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from an earlier state."""

    path: str
    change: Literal["added", "modified", "metadata", "removed"]
    """`metadata`: mode, owner or time of a file whose content is the same. A removed folder stands for all below it."""
    kind: Literal["file", "folder", "symlink", "fifo", "socket", "device"]
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    digest: str | None = None
    """BLAKE2b, 256 bit, of a file's content; of a file with holes, of the parts it holds and where."""
    target: str | None = None
    """What a symbolic link points to."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    """All changes, sorted by path."""

    changes: tuple[Change, ...] = ()

    def of(self, kind: Literal["added", "modified", "metadata", "removed"]) -> tuple[str, ...]:
        """The paths with this kind of change."""
        return tuple(change.path for change in self.changes if change.change == kind)

    def get(self, path: str) -> Change | None:
        """The change at exactly this path."""
        return next((change for change in self.changes if change.path == path), None)


@dataclass(frozen=True, slots=True)
class TreeReport:
    """What a tree transfer did."""

    files: int
    """Entries written, folders included."""
    size_bytes: int
    skipped: tuple[str, ...] = ()
    """Entries left out because they have no meaning or no safe meaning on the other side: devices, sockets, and on
    the way out links that lead outside the tree."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a sandbox has used of the machine so far; None where the machine cannot tell."""

    cpu_s: float | None = None
    """User and system time of all processes that ever ran in it."""
    memory_peak_bytes: int | None = None
    """The most that all processes held at once, with the files that count as memory."""
    oom_kills: int | None = None
    """How many processes the memory limit has killed: the kernel's count, or that of the watch that stands in."""
    pids_limit_hits: int | None = None
    """How often a process or thread was refused by the limit."""
    cpu_throttled_s: float | None = None
    """How long processes that could run had to wait because of the cpu limit, summed over processors."""
    cpu_throttled_periods: int | None = None
    """In how many periods (a tenth of a second) the cpu limit was met."""
    disk_bytes: int | None = None
    """What its files take now."""
    disk_full: bool | None = None
    """Whether there is no room left now, or, where a watch holds the limit, whether it was met at any time."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do here, found by trying; `missing` says why not, with the remedy."""

    driver: str
    features: frozenset[Feature]
    missing: Mapping[Feature, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What holds only in part: sentences for people."""


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A sandbox that some process of this user has made; `is_alive` is False for what `sweep` would remove."""

    id: str
    is_alive: bool
    started_at: str
    harness_pid: int
    root: str
    changes: str = ""
    """Where its files are kept: `memory` or `disk`; empty where the engine decides."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a command of a sandbox starts with that is given nothing else, beside what depends on its user."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the image, of the composition and of the spec."""
    workdir: str | None = None
    """Where it starts; None for the user's home."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A root file system that is ready to be started any number of times."""

    spec: SandboxSpec
    """The spec asked for, its root pinned to what was made: starting it pulls and builds nothing."""
    digest: str
    """What the root file system is."""
    image_digest: str | None = None
    """The engine's own name for the image, where there is one."""
    was_cached: bool = True
    """Whether it was there before."""
    substitutes: tuple[str, ...] = ()
    """The names of images for which this site has set another one: results are not comparable with the original's."""
