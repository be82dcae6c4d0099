"""The sandbox contract: what every driver offers and promises; the values that pass between are in `values`.

The promises are checked by one conformance suite that runs against every driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from termarena.sandbox.values import (
    Capabilities,
    Change,
    ExecResult,
    FileChanges,
    Prepared,
    ProcessInfo,
    SandboxRecord,
    Surroundings,
    TreeReport,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from termarena.sandbox.spec import SandboxSpec

__all__ = [
    "Capabilities",
    "Change",
    "Driver",
    "ExecResult",
    "FileChanges",
    "Prepared",
    "ProcessInfo",
    "PtyProcess",
    "Sandbox",
    "SandboxRecord",
    "Snapshot",
    "Surroundings",
    "TreeReport",
    "Usage",
]

TIMEOUT_STATUS = 124
DEFAULT_OUTPUT_BYTES = 16 << 20
DEFAULT_READ_BYTES = 256 << 20
ROOT_NAMES = ("root", "0", "0:0", "root:root")
"""Whoever they are in a sandbox's own list of users: its root."""
DEFAULT_TREE_BYTES = 4 << 30


@runtime_checkable
class Snapshot(Protocol):
    """A state of a sandbox's files: the digest of its base and the changes. It can be started any number of times."""

    @property
    def base_digest(self) -> str:
        """What the root file system was; a start on another one is refused."""

    @property
    def spec(self) -> SandboxSpec:
        """The spec of the sandbox it was taken from."""

    async def save(self, path: Path) -> None:
        """Write it as one file that any process can load; raises `OSError` from the host.

        Raises `SandboxBroken` if it shares the files of a sealed sandbox that died before it was stopped.
        """

    def close(self) -> None:
        """Give back what it holds in memory; saved files stay."""


@runtime_checkable
class PtyProcess(Protocol):
    """A process on a terminal of the sandbox, held from outside by the terminal's master side."""

    @property
    def master_fd(self) -> int:
        """Non-blocking; reading fails with EIO when the last process on the terminal has gone."""

    @property
    def pid(self) -> int:
        """The process's number inside the sandbox."""

    def resize(self, cols: int, rows: int) -> None:
        """Tell the programs on the terminal; raises `TerminalSizeError`."""

    async def wait(self) -> ExecResult:
        """The end of the process; its output is what was read from the master. Raises `SandboxBroken`."""

    async def kill(self) -> None:
        """End every process that it started, wherever it went."""

    def close(self) -> None:
        """Close the master: the kernel hangs up."""


@runtime_checkable
class Sandbox(Protocol):
    """A running sandbox. Every method raises `SandboxBroken` once the sandbox has ended, however it ended."""

    @property
    def id(self) -> str:
        """Unique on this machine."""

    @property
    def spec(self) -> SandboxSpec:
        """What it was started from."""

    @property
    def is_alive(self) -> bool:
        """Whether it was alive when last heard of."""

    async def surroundings(self) -> Surroundings:
        """What its commands start with. Nothing of the sandbox runs for it: it may be frozen or sealed."""

    async def exec(  # noqa: PLR0913 - the words of the contract
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
        tail_bytes: int = 0,
    ) -> ExecResult:
        """Run a program and wait for its own process to end; what it left in the background goes on.

        A timeout ends every process the command started, also daemons, inside the sandbox: SIGTERM, a short grace,
        SIGKILL; the output so far is kept. Cancelling the call does the same at once. Of an output longer than
        `max_output_bytes` the last `tail_bytes` are kept too; the rest is counted and thrown away. Raises
        `SandboxFileError` for a `cwd` that cannot be entered, `NotFound` for a user the sandbox does not have,
        `CapabilityMissing` for another user where the driver has one id only, `ValueError` for an empty argv or a NUL
        in it.
        """

    async def open_pty(
        self,
        argv: Sequence[str],
        *,
        cols: int = 80,
        rows: int = 24,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> PtyProcess:
        """Start a program on a new terminal of the sandbox; errors as `exec`, and `TerminalSizeError`."""

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ_BYTES) -> bytes:
        """A regular file's content, links followed within the sandbox only.

        Raises `SandboxFileError` (no such file, a folder, a device, a pipe, a file of the kernel; or larger than
        `max_bytes`: EFBIG).
        """

    async def write(self, path: str, content: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Replace a file's content, making the folders above it. Raises `SandboxFileError`, also for a full disk."""

    async def put_tree(self, source: Path, target: str, *, user: str | None = None) -> TreeReport:
        """Copy a folder of the host to a folder of the sandbox, links as links; existing files are replaced.

        Everything then belongs to `user`, by default the spec's. Raises `SandboxFileError` when the sandbox refuses or
        has a link or file where a folder is to be, `OSError` from the host.
        """

    async def get_tree(self, source: str, target: Path, *, max_bytes: int = DEFAULT_TREE_BYTES) -> TreeReport:
        """Copy a folder of the sandbox into a new or empty folder of the host.

        Nothing is ever written outside `target`; links that lead outside it and special files are left out and listed.
        Raises `SandboxFileError` (EFBIG beyond `max_bytes`: a file with holes can seem larger than any disk),
        `FileExistsError` when `target` holds something, other `OSError` from the host.
        """

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """Every living process but the sandbox's own process 1."""

    async def usage(self) -> Usage:
        """What it has used so far; also of one that is sealed, or has ended: then what was known last."""

    async def kill_processes(self) -> int:
        """End every process but process 1, at once, and thaw the sandbox if it was frozen; how many there were."""

    async def freeze(self) -> None:
        """Let no process of the sandbox run until `thaw`; when this returns, none does. Safe to call again.

        Meanwhile `exec`, `open_pty`, `write` and `put_tree` raise `SandboxFrozen`; reading, `processes`, `usage`,
        `snapshot`, `diff`, `kill_processes`, `seal` and `stop` work. Time limits of running commands go on.
        Raises `SandboxBroken` when a process cannot be held (the kernel does something for it that does not end).
        """

    async def thaw(self) -> None:
        """Let the processes go on where they were; nothing happens to a sandbox that is not frozen."""

    async def seal(self) -> None:
        """End all processes and accept no further exec, write or put: the state of the files is final.

        Of a frozen sandbox no process runs again before it ends.
        """

    async def snapshot(self) -> Snapshot:
        """The state of the files now; of a sealed sandbox without copying anything while that sandbox lives.

        Taken while processes write, it holds each file as it was at some moment during the call.
        """

    async def diff(self, since: Snapshot | None = None) -> FileChanges:
        """What changed since the start, or since a snapshot of this sandbox.

        The cost is proportional to what changed since the start. Raises `ValueError` for another sandbox's snapshot.
        """

    async def stop(self) -> None:
        """End it; safe to call again."""


@runtime_checkable
class Layered(Protocol):
    """A driver that has the layers of images as folders of this machine."""

    async def layers(self, spec: SandboxSpec) -> tuple[Path, ...]:
        """The layers below a sandbox of this spec, uppermost first; none where its root is no image."""


class Driver(Protocol):
    """Makes sandboxes of one kind. Leaving its own `async with` ends everything it started."""

    @property
    def name(self) -> str:
        """The word that `--driver` takes."""

    def capabilities(self) -> Capabilities:
        """What it can do on this machine."""

    async def prepare(self, spec: SandboxSpec) -> Prepared:
        """Pull, build, import or unpack the spec's root file system, unless that was done before.

        Raises `CapabilityMissing`, `ImageError` for a root file system that cannot be used, `BuildError` for one that
        does not build, `SandboxStartError` when the machine refuses. Cancelling ends the build.
        """

    def start(
        self, what: SandboxSpec | Snapshot, *, spec: SandboxSpec | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        """A sandbox for the length of an `async with`, from a spec or as a fork of a snapshot.

        A fork has the snapshot's spec, or this `spec` instead: other limits, variables, network; the root must be the
        same (`ValueError`). Entering raises `CapabilityMissing` before anything starts, `ImageError` for a root file
        system or snapshot that cannot be used, `SandboxStartError` when the machine refuses; then nothing is left
        behind.
        """

    def load(self, path: Path) -> Snapshot:
        """A saved snapshot; raises `ImageError` for a file that is none."""

    def list(self) -> tuple[SandboxRecord, ...]:
        """The sandboxes of this user on this machine, those of other processes too."""

    def sweep(self) -> int:
        """Remove what dead harnesses left behind; how many sandboxes that were."""

    async def aclose(self) -> None:
        """End everything it started."""


def spec_for(what: SandboxSpec | Snapshot, spec: SandboxSpec | None) -> SandboxSpec:
    """The spec that a driver's `start` is to follow; raises `ValueError` for one with another root."""
    own = what.spec if isinstance(what, Snapshot) else what
    if spec is not None and spec.root != own.root:
        raise ValueError("a fork keeps its root file system; give a spec with the same root")
    return own if spec is None else spec
