"""Large recordings in pieces: cut once, kept beside the runs, the oldest ones given up. That one cannot be cut is kept
in the place of its pieces: the next viewer is told at once. A busy machine may be why: then it is tried again."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from termarena.core.errors import NotFound
from termarena.runs.segments import INDEX, cut_recording

__all__ = ["LARGE_BYTES", "Segments", "cut_alone"]

LARGE_BYTES: Final = 4 << 20
"""A smaller recording is played whole: a browser reads it in a moment."""
MOST_KEPT: Final = 32
FOLDER: Final = ".segments"
DRAFT: Final = "new-"
AT_ONCE: Final = 2
"""Recordings that are cut at the same time: each takes a processor for seconds."""
LONGEST_CUT_S: Final = 300.0
NICENESS: Final = 10
"""Pages come first."""
SHOWS_NOTHING, NO_RECORDING, NO_PLACE = 3, 4, 5
"""How `cut_alone` ends where there are no pieces."""
PROBLEM: Final = "problem.txt"
PASSING: Final = "problem-now.txt"
AGAIN_S: Final = 900.0
"""For how long a problem that may be the machine's is taken to be still there: a cut may take a third of that."""
FETCH: Final = "fetch it: termarena replay plays it in a terminal"
MOST_TOLD_BYTES: Final = 500


class Problem(NamedTuple):
    """Why a recording was not cut."""

    told: str
    is_passing: bool = False
    """Whether it may be cut another time: it was ended, or had too little time."""


class Segments:
    """The pieces of the recordings that were looked at last, on the event loop of the web server. Each recording is cut
    once, in a process of its own: whoever waits for it holds up nobody else."""

    def __init__(self, runs: Path) -> None:
        """They are kept in a hidden folder of `runs`."""
        self._place = runs / FOLDER
        self._cutting: dict[Path, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def file(self, recording: Path, name: str) -> Path:
        """A piece of a recording, or its index. Raises NotFound, OSError."""
        folder = self._place / await asyncio.to_thread(_name, recording)
        path = folder / name
        if not await asyncio.to_thread(_is_settled, folder):
            await self._cut_once(recording, folder)
        if problem := await asyncio.to_thread(_problem_in, folder):
            raise NotFound(problem, hint=FETCH)
        if not await asyncio.to_thread(path.is_file):
            raise NotFound("no such piece of this recording", hint="index.json lists those there are")
        return path

    def problem(self, recording: Path) -> str | None:
        """Why it could not be cut when that was tried; None where it was not, could be, or is to be tried again. Raises
        OSError."""
        return _problem_in(self._place / _name(recording))

    async def _cut_once(self, recording: Path, folder: Path) -> None:
        """Whoever comes while it is cut waits for the same; who goes away ends nothing."""
        cutting = self._cutting.get(folder)
        if cutting is None:
            cutting = self._cutting[folder] = asyncio.create_task(self._cut(recording, folder))
            cutting.add_done_callback(lambda _: self._cutting.pop(folder, None))
        await asyncio.shield(cutting)

    async def _cut(self, recording: Path, folder: Path) -> None:
        async with self._room:
            made = await asyncio.to_thread(self._draft)
            try:
                if problem := await cut_elsewhere(recording, made):
                    await asyncio.to_thread(_leave_only, made, problem)
                await asyncio.to_thread(self._keep, made, folder)
            finally:
                await asyncio.to_thread(shutil.rmtree, made, ignore_errors=True)

    def _draft(self) -> Path:
        self._place.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=DRAFT, dir=self._place))

    def _keep(self, made: Path, folder: Path) -> None:
        """Put it into its place, and give up the oldest, and what a server that was killed left behind."""
        if not _is_settled(folder):  # else another server was first, and its viewers read there
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
        found = sorted((_made_at(path), path) for path in self._place.iterdir())
        kept = [path for _, path in found if not path.name.startswith(DRAFT)]
        left = [path for at, path in found if path.name.startswith(DRAFT) and at < time.time() - 2 * LONGEST_CUT_S]
        for old in (*kept[:-MOST_KEPT], *left):
            shutil.rmtree(old, ignore_errors=True)

    async def aclose(self) -> None:
        """End what is being cut."""
        cutting = set(self._cutting.values())
        for task in cutting:
            task.cancel()
        if cutting:
            await asyncio.wait(cutting)


async def cut_elsewhere(recording: Path, into: Path) -> Problem | None:
    """Why there are no pieces of it; None where there are. Raises NotFound where they cannot be kept."""
    program = "from termarena.arena.segmenting import cut_alone; cut_alone()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", program, str(recording), str(into)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LONGEST_CUT_S):
            told = (await process.communicate())[1]
    except TimeoutError:
        return Problem(f"this recording was not cut into pieces within {LONGEST_CUT_S:g} s", is_passing=True)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    words = told.decode("utf-8", "replace")[:MOST_TOLD_BYTES]
    if process.returncode == NO_PLACE:
        raise NotFound(f"this recording cannot be cut into pieces now: {words}", hint=FETCH)
    if process.returncode == SHOWS_NOTHING:
        return Problem("this recording shows nothing")
    if process.returncode == NO_RECORDING:
        return Problem(f"this recording cannot be played: {words}")
    if process.returncode:
        return Problem("this recording cannot be played: cutting it broke", is_passing=process.returncode < 0)
    return None


def cut_alone() -> None:
    """What the process does: `sys.argv` has the recording and the folder for its pieces."""
    os.nice(NICENESS)
    recording, into = map(Path, sys.argv[1:3])
    try:
        is_shown = cut_recording(recording, into)
    except ValueError as error:
        sys.stderr.write(str(error))
        sys.exit(NO_RECORDING)
    except OSError as error:
        sys.stderr.write(error.strerror or type(error).__name__)
        sys.exit(NO_PLACE)
    sys.exit(0 if is_shown else SHOWS_NOTHING)


def _is_settled(folder: Path) -> bool:
    return (folder / INDEX).is_file() or _problem_in(folder) is not None


def _problem_in(folder: Path) -> str | None:
    for name in (PROBLEM, PASSING):
        path = folder / name
        try:
            if name == PROBLEM or path.stat().st_mtime > time.time() - AGAIN_S:
                return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
    return None


def _leave_only(made: Path, problem: Problem) -> None:
    """In the place of pieces that came to no end."""
    shutil.rmtree(made)
    made.mkdir()
    (made / (PASSING if problem.is_passing else PROBLEM)).write_text(problem.told, encoding="utf-8")


def _made_at(path: Path) -> float:
    """0 for what another server gave up meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _name(recording: Path) -> str:
    """Of this recording as it is now: one that was replaced is cut anew."""
    found = recording.stat()
    told = f"{recording.resolve()}\0{found.st_size}\0{found.st_mtime_ns}"
    return hashlib.blake2b(os.fsencode(told), digest_size=16).hexdigest()
