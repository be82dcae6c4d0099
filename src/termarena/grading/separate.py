"""Separate graders: what the agent made is carried to a sandbox that the agent never was in."""

from __future__ import annotations

import asyncio
import errno
import fnmatch
import os
import posixpath
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

from termarena.core.errors import CapabilityMissing, SandboxFileError
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.sandbox.contract import ExecResult, FileChanges, Sandbox
    from termarena.tasks.model import Artifact, Grading

__all__ = ["ARTIFACTS", "Carried", "Collected", "carry_over", "collect"]

ARTIFACTS: Final = "/logs/artifacts"
"""Always carried over, as Harbor does."""
MAIN: Final = "main"
ARTIFACT_BYTES: Final = 4 << 30
OUTPUT_BYTES: Final = 1 << 20
_GRADERS_OWN: Final = ("/tests", "/logs/verifier", "/solution")
_PROGRAM: Final = (b"#!", b"\x7fELF")


@runtime_checkable
class _HasServices(Protocol):
    def service(self, name: str) -> Sandbox: ...


@dataclass(frozen=True, slots=True)
class Collected:
    """How one collect command ended; a failing one is told and changes nothing, as in Harbor."""

    command: str
    service: str
    result: ExecResult


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of one artifact."""

    source: str
    service: str
    state: Literal["carried", "missing", "refused"]
    """`missing`: the agent left nothing there. `refused`: too large, or in the grader's own places."""
    files: int = 0
    skipped: tuple[str, ...] = ()
    """Links that lead outside, sockets, devices."""


async def collect(box: Sandbox, grading: Grading) -> tuple[Collected, ...]:
    """Run the grading's collect commands in the agent's living box, each in its service, the main one's first.

    Raises `CapabilityMissing` for a service that the box does not have, `NotFound` for a user, `SandboxBroken`.
    """
    ordered = sorted(grading.collect, key=lambda hook: not _is_main(box, hook.service))
    done = []
    for hook in ordered:
        result = await _service(box, hook.service).exec(
            ["/bin/sh", "-c", hook.command],
            timeout_s=hook.timeout_s,
            user=None if hook.user is None else str(hook.user),
            max_output_bytes=OUTPUT_BYTES,
        )
        done.append(Collected(hook.command, hook.service, result))
    return tuple(done)


async def carry_over(
    box: Sandbox, own: Sandbox, artifacts: Sequence[Artifact], *, changes: FileChanges | None = None
) -> tuple[Carried, ...]:
    """Copy the artifacts from the agent's box, living or frozen, to the same paths of the grader's own.

    `/logs/artifacts` is always among them. The grader's own places (`/tests`, `/logs/verifier`, `/solution`) never are:
    tests come from the host alone. A single file's mode is taken from `changes` where they are given. Raises
    `CapabilityMissing` for a service that the box does not have, what `put_tree` raises for the grader's box.
    """
    sources = [artifact.source.rstrip("/") for artifact in artifacts if _is_main(box, artifact.service)]
    done = [] if ARTIFACTS in sources else [await _carry(box, own, _Load(ARTIFACTS, (), None), changes)]
    for artifact in artifacts:
        path = posixpath.normpath(posixpath.join("/", artifact.source))
        done.append(await _carry(box, own, _Load(path, artifact.exclude, artifact.service), changes))
    return tuple(done)


@dataclass(frozen=True, slots=True)
class _Load:
    path: str
    exclude: tuple[str, ...]
    service: str | None


async def _carry(box: Sandbox, own: Sandbox, load: _Load, changes: FileChanges | None) -> Carried:
    service = load.service or MAIN
    source = _service(box, service)
    if any(load.path == place or load.path.startswith(f"{place}/") for place in _GRADERS_OWN):
        return Carried(load.path, service, "refused")
    with staged("artifact") as folder:
        tree = folder / "tree"
        try:
            report = await source.get_tree(load.path, tree, max_bytes=ARTIFACT_BYTES)
        except SandboxFileError as error:
            if error.errno == errno.ENOTDIR:
                return await _carry_file(source, own, load, changes)
            return Carried(load.path, service, "refused" if error.errno == errno.EFBIG else "missing")
        await asyncio.to_thread(_drop, tree, load)
        await own.put_tree(tree, load.path)
    return Carried(load.path, service, "carried", report.files, report.skipped)


async def _carry_file(source: Sandbox, own: Sandbox, load: _Load, changes: FileChanges | None) -> Carried:
    service = load.service or MAIN
    try:
        content = await source.read(load.path)
    except SandboxFileError as error:
        return Carried(load.path, service, "missing" if error.errno == errno.ENOENT else "refused")
    change = changes.get(load.path) if changes is not None else None
    guessed = 0o755 if content.startswith(_PROGRAM) else 0o644
    mode = change.mode if change is not None and change.mode is not None else guessed
    await own.write(load.path, content, mode=stat.S_IMODE(mode) & 0o777)
    return Carried(load.path, service, "carried", 1)


def _drop(folder: Path, load: _Load) -> None:
    """Remove what the artifact excludes, and what would land in the grader's own places."""
    for place in _GRADERS_OWN:
        if place.startswith(f"{load.path.rstrip('/')}/"):
            _remove(folder / place[len(load.path.rstrip("/")) + 1 :])
    if not load.exclude:
        return
    for above, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(above) / name
            relative = path.relative_to(folder).as_posix()
            if any(fnmatch.fnmatchcase(relative, one) or fnmatch.fnmatchcase(name, one) for one in load.exclude):
                _remove(path)
        folders[:] = [name for name in folders if (Path(above) / name).is_dir()]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_main(box: Sandbox, service: str | None) -> bool:
    return service in (None, MAIN, box.spec.root.service)


def _service(box: Sandbox, name: str | None) -> Sandbox:
    if _is_main(box, name):
        return box
    if not isinstance(box, _HasServices) or name is None:
        raise CapabilityMissing(
            f"the service {name}", driver="chosen", why="its sandbox is one machine", hint="use the docker driver"
        )
    return box.service(name)
