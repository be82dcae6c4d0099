"""Grades a run again in a process that is killed, with SIGKILL, before its first step on disk, its second, and so on.

    python -m support.killed_regrades FOLDER HOME

Says, for each of them, what was there after the kill and what after grading once more, as JSON. The run is made here:
one trial that was solved, to be graded again by tests that say unsolved.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.tasks import Made, make_task
from termarena.core.run_folder import AttemptFolder, RunFolder
from termarena.runs.config_lock import RunFacts
from termarena.runs.plan import RunOptions
from termarena.runs.reading import read_run
from termarena.runs.recording import read_result
from termarena.runs.regrading import RegradeWish, regrade
from termarena.runs.running import execute, start_run
from termarena.runs.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS: Final = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"})
NEVER: Final = -1
WRITES: Final = os.O_WRONLY | os.O_RDWR
TESTS: Final = "#!/bin/sh\necho {word}\necho {word} >/logs/verifier/word\necho {reward} >/logs/verifier/reward.txt\n"


def _kill_at(step: int, run: RunFolder) -> None:
    """End this process before its step of this number that changes something of the run."""
    left = step

    def look(event: str, given: tuple[object, ...]) -> None:
        nonlocal left
        if event not in STEPS or (event == "open" and not (isinstance(given[2], int) and given[2] & WRITES)):
            return
        place = given[0]
        if isinstance(place, int):
            place = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 - called for every step
        path = os.fsdecode(place) if isinstance(place, str | bytes | os.PathLike) else ""
        if path.startswith("/") and not path.startswith(f"{run.path}/"):
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def _in_a_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must not go on with its parent's code
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(place: Path, home: Path) -> None:
    task = make_task(place / "task", Made(tests=TESTS.format(word="old", reward=1)))
    options = RunOptions(agent="oracle", driver="namespace", retries=0)
    facts = RunFacts(agent_name="oracle", agent_version="", driver="namespace", dataset="one")
    folder = RunFolder(place / "run")
    with start_run(options, [task], folder, facts) as run:
        asyncio.run(execute(run, Trials(options, home=home, run_id=folder.id)))


def _regrade(run: RunFolder, tests: Path, home: Path, *, kill_at: int = NEVER) -> None:
    async def again() -> None:
        async for one in regrade(run, RegradeWish(tests=tests), home=home):
            assert one.after == "unsolved", one

    _kill_at(kill_at, run)
    asyncio.run(again())


def _seen(run: RunFolder) -> dict[str, object]:
    attempt = run.attempt("task", 1)
    kept = AttemptFolder(attempt.path / "before-regrade-1")
    return {
        "journal": [summary.outcome for summary in read_run(run).history.summaries()],
        "attempt": _grading(attempt),
        "before": _grading(kept) if kept.path.is_dir() else None,
        "files": sorted(path.name for path in attempt.path.iterdir()),
    }


def _grading(folder: AttemptFolder) -> list[str]:
    texts = [path.read_text().strip() for path in (folder.test_output, folder.logs / "verifier/word")]
    return [read_result(folder).outcome, *texts]


def main() -> None:
    place, home = Path(sys.argv[1]), Path(sys.argv[2])
    tests = place / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text(TESTS.format(word="new", reward=0))
    assert _in_a_child(lambda: _run(place, home)) == 0
    rows: list[dict[str, object]] = []
    status = -signal.SIGKILL
    while status == -signal.SIGKILL:
        run = RunFolder(place / f"run-{len(rows)}")
        shutil.copytree(place / "run", run.path)
        step = len(rows) + 1
        status = _in_a_child(lambda run=run, step=step: _regrade(run, tests, home, kill_at=step))  # type: ignore[misc]  # mypy does not infer a lambda with defaults
        killed = _seen(run)
        assert _in_a_child(lambda run=run: _regrade(run, tests, home)) == 0  # type: ignore[misc]  # as above
        rows.append({"status": status, "killed": killed, "again": _seen(run)})
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
