"""A run on a disk that fills up, for real: a small tmpfs in a mount namespace of its own; says what it saw.

    unshare --user --map-root-user --mount python -m support.full_disk PLACE journal|files

`journal`: only the journal is written, so that a line meets the end of the disk; `files`: results are, too.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from support.fake_trials import FACTS, FakeRunner, make_tasks
from termarena.core.errors import RunNotWritable
from termarena.core.run_folder import RunFolder
from termarena.runs.journal import JournalReader
from termarena.runs.machine import Budget
from termarena.runs.plan import RunOptions
from termarena.runs.reading import read_run
from termarena.runs.running import Quiet, execute, open_run, start_run

PAGE = 4096
TASKS = 40
FREE_PAGES = 3
ROOM = Budget(cpus=4, memory_mb=1 << 20)


class Heard(Quiet):
    """Keeps the notices."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


def _fill(ballast: Path) -> None:
    """Take all that is left but a few pages."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(PAGE)):
                pass
        except OSError:
            pass
        file.truncate((file.tell() // PAGE - FREE_PAGES) * PAGE)


async def _until_full(folder: RunFolder, ballast: Path, runner: FakeRunner, tasks: Path) -> dict[str, object]:
    heard = Heard()
    with start_run(RunOptions(), make_tasks(tasks, TASKS), folder, FACTS) as run:
        _fill(ballast)
        try:
            await execute(run, runner, heard, budget=ROOM)
        except RunNotWritable as error:
            told = {"message": error.message, "hint": error.hint, "status": error.exit_status}
        else:
            told = {}
    whole = folder.journal.read_bytes()
    return {
        **told,
        "notices": heard.notices,
        "begun": len(runner.seen),
        "finished": len(read_run(folder).history),
        "ends_with_a_line": whole.endswith(b"\n"),
        "lines": whole.count(b"\n"),
        "good_lines": sum(1 for _ in JournalReader(folder.journal)),
    }


async def _resume(folder: RunFolder, runner: FakeRunner) -> dict[str, object]:
    with open_run(folder) as run:
        adopted = len(run.adopted)
        end = await execute(run, runner, budget=ROOM)
    return {"reason": end.reason, "solved": end.progress.solved, "adopted": adopted, "again": len(runner.seen)}


def main() -> None:
    place, mode = Path(sys.argv[1]), sys.argv[2]
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)  # noqa: S603, S607 - ours
    folder, ballast = RunFolder(disk / "run"), disk / "ballast"
    keeps = mode == "files"
    full = asyncio.run(_until_full(folder, ballast, FakeRunner(keeps_files=keeps), place / "tasks"))
    ballast.unlink()
    resumed = asyncio.run(_resume(folder, FakeRunner(keeps_files=keeps)))
    sys.stdout.write(json.dumps({"full": full, "resumed": resumed}))


if __name__ == "__main__":
    main()
