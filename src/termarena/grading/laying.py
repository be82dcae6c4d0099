"""Laying tests into a sandbox: from the host, by digest, owned by root, read-only, over whatever the agent left."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import DigestMismatch, SandboxFileError
from termarena.grading.rules.places import FORGED
from termarena.sandbox.contract import ROOT_NAMES
from termarena.sandbox.staged import staged
from termarena.tasks.digest import digest_of_view, scored_view
from termarena.tasks.files import scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from termarena.grading.contract import IntegrityFinding
    from termarena.grading.job import GradingJob
    from termarena.sandbox.contract import FileChanges, Sandbox
    from termarena.tasks.digest import TaskDigest

__all__ = ["LOGS", "TESTS", "VERIFIER_LOGS", "NotClean", "Room", "Stock", "lay"]

TESTS: Final = "/tests"
SOLUTION: Final = "/solution"
LOGS: Final = "/logs"
VERIFIER_LOGS: Final = "/logs/verifier"
CLEAR_TIMEOUT_S: Final = 120.0
CONTESTED_STATUS: Final = 3
SHOWN: Final = 400

# $1: mode of the folder for the tests' logs, $2: its owner, $3: a folder to make, the rest: what must not be there.
_CLEAR: Final = r"""
mode=$1; owner=$2; fresh=$3; shift 3
for name in /logs/verifier/* /logs/verifier/.[!.]*; do
  if [ -e "$name" ] || [ -L "$name" ]; then printf '%s\n' "$name"; fi
done
if [ -L /logs ] || { [ -e /logs ] && [ ! -d /logs ]; }; then rm -f /logs; fi
rm -rf -- "$@" 2>/dev/null || { umount -l "$@" 2>/dev/null; rm -rf -- "$@"; } || exit 3
mkdir -p /logs/agent /logs/artifacts || exit 1
mkdir /logs/verifier ${fresh:+"$fresh"} || exit 3
chown "$owner" /logs/verifier && chmod "$mode" /logs/verifier
"""


class NotClean(Exception):
    """What the agent left could not be cleared away; the message says what was seen."""

    def __init__(self, message: str, *, is_contested: bool = False) -> None:
        """`is_contested`: something is there again right after it was removed."""
        super().__init__(message)
        self.is_contested = is_contested


class Stock:
    """The files of tests as the digests of their tasks have them."""

    def __init__(self) -> None:
        """Each task's files are read against its digest once."""
        self._known: dict[TaskDigest, dict[str, Any]] = {}

    def copy(self, job: GradingJob, folder: Path) -> Mapping[str, str]:
        """Copy the files to a folder of the host, read-only; their digests by path.

        Raises `DigestMismatch` where they have changed since the task was loaded, `TaskFormatError` where one is gone.
        """
        locked = self._locked(job)
        job.files.write_to(folder)
        copied = scan(str(folder), boundary=str(folder))
        digests = copied.digests()
        _compare(job, digests, locked)
        for file in copied:
            if file.kind == "file":
                is_run = file.executable or file.path == job.entry
                (folder / file.path).chmod(0o555 if is_run else 0o444)
        return digests

    def _locked(self, job: GradingJob) -> Mapping[str, str]:
        task = job.task
        view = self._known.get(task.digest)
        if view is None:
            view = scored_view(task)
            if digest_of_view(view) != task.digest:
                raise DigestMismatch(
                    f"the task {task.id}",
                    files=(f"its digest was {task.digest}",),
                    hint="its files were changed while it was being run; load it again",
                )
            self._known[task.digest] = {name: view.get(name) for name in ("tests", "steps")}
        files = dict(_files_in(view.get("tests")))
        for step, part in zip(task.steps, view.get("steps") or (), strict=False):
            if step.tests is not None and step.tests is job.tests:
                files.update(_files_in(part.get("tests")))
        return files


def _files_in(tests: Mapping[str, Any] | None) -> Sequence[tuple[str, str]]:
    return tests.get("files", ()) if tests else ()


def _compare(job: GradingJob, digests: Mapping[str, str], locked: Mapping[str, str]) -> None:
    found = {os.fsencode(path).decode("utf-8", "backslashreplace"): held for path, held in digests.items()}
    differing = sorted(path for path in {*found, *locked} if found.get(path) != locked.get(path))
    if differing:
        raise DigestMismatch(f"the tests of {job.task.id}", files=tuple(differing), hint="load the task again")


@dataclass(frozen=True, slots=True)
class Room:
    """The grading's own places in a sandbox."""

    box: Sandbox
    tests_too: bool
    """False where the sandbox's own image holds the tests."""
    owner: str
    """Who runs the tests."""
    is_shared: bool
    """Whether every user may write the tests' logs, as in Harbor; not where the agent's processes run beside them."""

    is_distrusted: bool = False
    """Whether the sandbox's own tools are not believed: what they say to have cleared is looked at from outside."""

    @property
    def _logs_mode(self) -> int:
        return 0o777 if self.is_shared else 0o755

    async def lay_at_once(self, stock: Stock, job: GradingJob, changes: FileChanges) -> Mapping[str, str] | None:
        """What `clear` and `lay` do, in one step and with no program of the sandbox's, where there is nothing to clear;
        None, and nothing that `clear` would not remove, where there is.

        `changes` are those of the box since its start. Raises what `Stock.copy` raises.
        """
        if self.owner not in ROOT_NAMES or not await self._is_bare(changes):
            return None
        with staged("tests") as folder:
            digests = await asyncio.to_thread(self._furnish, folder, stock, job)
            try:
                await self.box.put_tree(folder, "/", user="root")
            except SandboxFileError:
                return None
        return digests

    async def _is_bare(self, changes: FileChanges) -> bool:
        """Whether not one of the places is there. A link that leads nowhere seems not to be; one of the agent's is
        among the changes, and nothing is laid over one of the image's."""
        places = (SOLUTION, LOGS, *([TESTS] if self.tests_too else []))
        if any(change.path in places and change.change != "removed" for change in changes.changes):
            return False
        return all(await asyncio.gather(*(_is_absent(self.box, place) for place in places)))

    def _furnish(self, folder: Path, stock: Stock, job: GradingJob) -> Mapping[str, str]:
        """Fill a folder of the host with what the sandbox's root is to get; the digests of the tests."""
        places = {"logs": 0o755, "logs/agent": 0o755, "logs/artifacts": 0o755, "logs/verifier": self._logs_mode}
        for place, mode in {**places, **({"tests": 0o755} if self.tests_too else {})}.items():
            (folder / place).mkdir()
            (folder / place).chmod(mode)
        return stock.copy(job, folder / "tests") if job.layers else {}

    async def clear(self, *, for_good: bool = False) -> tuple[IntegrityFinding, ...]:
        """Remove `/solution`, `/tests` and `/logs/verifier`, whatever they are, and make the last two anew.

        `for_good` leaves no `/tests` behind. Returns the rewards that were there. Raises `NotClean`.
        """
        fresh = TESTS if self.tests_too and not for_good else ""
        doomed = [SOLUTION, VERIFIER_LOGS, *([TESTS] if self.tests_too else [])]
        done = await self.box.exec(
            ["/bin/sh", "-c", _CLEAR, "sh", f"{self._logs_mode:o}", self.owner, fresh, *doomed],
            user="root",
            cwd="/",
            timeout_s=CLEAR_TIMEOUT_S,
            max_output_bytes=1 << 16,
        )
        if done.exit_status != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-SHOWN:]
            problem = f"clearing {' '.join(doomed)} ended with status {done.exit_status}: {said}"
            raise NotClean(problem, is_contested=done.exit_status == CONTESTED_STATUS)
        if self.is_distrusted:
            for place in filter(None, (VERIFIER_LOGS, fresh)):
                await _check_empty(self.box, place)
        return _left_before(done.stdout.decode("utf-8", "replace"))


async def _is_absent(box: Sandbox, path: str) -> bool:
    try:
        await box.read(path, max_bytes=0)
    except SandboxFileError as error:
        return error.errno == errno.ENOENT
    return False


async def _check_empty(box: Sandbox, path: str) -> None:
    with staged("logs") as folder:
        try:
            report = await box.get_tree(path, folder / "found", max_bytes=0)
        except SandboxFileError as error:
            problem = f"{path} is not an empty folder after it was made anew: {error}"
            raise NotClean(problem, is_contested=True) from error
    if report.files or report.skipped:
        raise NotClean(f"{path} is not empty after it was made anew", is_contested=True)


def _left_before(listed: str) -> tuple[IntegrityFinding, ...]:
    """What stood in the place of the tests' own logs before they ran."""
    return tuple(
        FORGED.found(path, "a result was there before the tests ran; it was removed")
        for path in listed.splitlines()
        if path.startswith(f"{VERIFIER_LOGS}/reward.")
    )


async def lay(box: Sandbox, stock: Stock, job: GradingJob) -> Mapping[str, str]:
    """Put the tests into the empty `/tests`; their digests by path. Raises what `Stock.copy` and `put_tree` raise."""
    if not job.layers:
        return {}
    with staged("tests") as folder:
        digests = await asyncio.to_thread(stock.copy, job, folder)
        await box.put_tree(folder, TESTS, user="root")
    return digests
