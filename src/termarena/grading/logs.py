"""What the tests left in `/logs`, brought to the host with a cap."""

from __future__ import annotations

import asyncio
import errno
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxFileError
from termarena.grading.faults import NoVerdict
from termarena.grading.laying import LOGS, VERIFIER_LOGS
from termarena.grading.rewards import REWARD_BYTES, REWARD_FILES, BadReward, parse_reward, parse_told
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from termarena.grading.job import GradingJob
    from termarena.sandbox.contract import Sandbox

__all__ = ["LOGS_BYTES", "fetch_logs", "keeping_logs", "reward_in", "reward_told"]

LOGS_BYTES: Final = 64 << 20


@asynccontextmanager
async def keeping_logs(job: GradingJob) -> AsyncIterator[Path]:
    """A place for the logs of one grading; at the end, verdict or not, what is there goes to `job.logs`, scrubbed.

    Raises `OSError` from the host.
    """
    with staged("logs") as folder:
        place = folder / "logs"
        try:
            yield place
        finally:
            if job.logs is not None and place.is_dir():
                await asyncio.to_thread(_bring, place, job.logs, job)


def _bring(place: Path, target: Path, job: GradingJob) -> None:
    if job.scrubber is not None:
        for path in sorted(place.rglob("*")):
            if path.is_file() and not path.is_symlink():
                job.scrubber.scrub_file(path)
    if target.exists():
        shutil.rmtree(target)
    try:
        shutil.move(place, target)
    except shutil.Error as error:  # one tuple per file, and no errno
        raise OSError(f"cannot copy the logs: {error.args[0][0][-1]}") from error


async def fetch_logs(box: Sandbox, target: Path) -> None:
    """Bring `/logs` into a folder: all of it up to 64 MiB, else the tests' own part, else the rewards.

    Whatever the folder held is replaced. Raises `SandboxFileError` where there is no `/logs`, `OSError` from the host.
    """
    await asyncio.to_thread(_empty, target)
    for source, place in ((LOGS, target), (VERIFIER_LOGS, target / "verifier")):
        try:
            await box.get_tree(source, place, max_bytes=LOGS_BYTES)
        except SandboxFileError as error:
            await asyncio.to_thread(_empty, target)
            if error.errno != errno.EFBIG:
                raise
        else:
            return
    for name in REWARD_FILES:
        await _fetch_reward(box, name, target / "verifier")


async def _fetch_reward(box: Sandbox, name: str, target: Path) -> None:
    try:
        content = await box.read(f"{VERIFIER_LOGS}/{name}", max_bytes=REWARD_BYTES)
    except SandboxFileError as error:
        if error.errno != errno.EFBIG:
            return
        content = b" " * (REWARD_BYTES + 1)  # its content is not needed to refuse it
    await asyncio.to_thread(_save, target / name, content)


def _save(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def reward_in(folder: Path) -> Mapping[str, float]:
    """The named rewards that the tests left in their folder; raises `NoVerdict`."""
    path = next((folder / name for name in REWARD_FILES if _is_entry(folder / name)), None)
    if path is None:
        raise NoVerdict("no_reward", f"the tests left neither reward.txt nor reward.json in {VERIFIER_LOGS}")
    if not path.is_file() or path.is_symlink():
        raise NoVerdict("bad_reward", f"{path.name} is not a regular file")
    with path.open("rb") as file:
        content = file.read(REWARD_BYTES + 1)
    try:
        return parse_reward(path.name, content)
    except BadReward as error:
        raise NoVerdict("bad_reward", str(error)) from error


def reward_told(content: bytes) -> Mapping[str, float]:
    """The reward that came through the tests' pipe, told once; raises `NoVerdict`."""
    if not content:
        raise NoVerdict("no_reward", "the tests ended and wrote nothing to their reward's pipe")
    try:
        return parse_told(content)
    except BadReward as error:
        raise NoVerdict("bad_reward", str(error)) from error


def _is_entry(path: Path) -> bool:
    return path.is_symlink() or path.exists()
