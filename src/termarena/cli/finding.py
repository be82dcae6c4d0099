"""Which run and which trial the user means: paths, ids under ./runs, and `RUN/TASK/ATTEMPT`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.core.run_folder import AttemptFolder, RunFolder

__all__ = [
    "RUNS",
    "Found",
    "MovedOption",
    "RunArgument",
    "attempts_in",
    "find_attempt",
    "find_run",
    "free_place",
    "runs_in",
]

RUNS = Path("runs")
"""Where runs lie, below the current folder, unless `--out` says otherwise."""
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or its id (or the start of it) in ./runs.")
]
MovedOption = Annotated[
    Path | None, typer.Option("--path", "-p", metavar="FOLDER", help="Where the tasks are now, if they were moved.")
]
_ATTEMPT = re.compile(r"attempt-([1-9][0-9]*)(?:-retry-([1-9][0-9]*))?")


class Found(NamedTuple):
    """One attempt, and what its folder's name says of it."""

    folder: AttemptFolder
    attempt: int
    retry: int


def find_run(name: str) -> RunFolder:
    """The run at a path, or under ./runs by its id or by an unambiguous start of it.

    Raises NotFound, with what there is.
    """
    from termarena.core.errors import NotFound
    from termarena.core.run_folder import RunFolder

    here = _run_at(Path(name)) or (_run_at(RUNS / name) if name else None)
    if here is not None:
        return RunFolder(here)
    known = [folder.name for folder in runs_in(RUNS)]
    meant = [one for one in known if name and one.startswith(name)]
    if len(meant) == 1:
        return RunFolder(RUNS / meant[0])
    if meant:
        raise NotFound(f"several runs begin with {name}", known=tuple(meant))
    hint = _what_it_is(Path(name)) or (None if known else "start one with: termarena run")
    raise NotFound(f"no run is at {name}, and none in ./{RUNS} is called so", known=tuple(known), hint=hint)


def _what_it_is(path: Path) -> str | None:
    """What to do with a path that is no run but something else that we know."""
    from termarena.tasks.load import is_task

    shown = shlex.quote(str(path))
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set[str]()
    except OSError:
        return None
    if path.name.endswith(".bundle.tar.gz") and path.is_file():
        return f"it is a run that was packed: termarena verify {shown}"
    if names & {"tb.lock", "run_metadata.json"}:
        return f"it is a run of Terminal-Bench's tb: termarena import tb {shown}"
    if {"config.json", "lock.json"} <= names:
        return f"it is a job of Harbor: termarena import harbor {shown}"
    if names and is_task(path):
        return f"it is a task: termarena run --path {shown}"
    return f"there are runs in it: termarena runs list {shown}" if runs_in(path) else None


def free_place(name: str) -> Path:
    """Where a run of this name can go: in ./runs, with a number behind the name where that is taken."""
    place, number = RUNS / name, 2
    while place.exists():
        place, number = RUNS / f"{name}-{number}", number + 1
    return place


def runs_in(place: Path) -> list[Path]:
    """The folders of runs below a place, the newest last; ids begin with the time, so by name."""
    try:
        return sorted((folder for folder in place.iterdir() if _run_at(folder)), key=lambda folder: folder.name)
    except OSError:
        return []


def find_attempt(words: Sequence[str]) -> AttemptFolder:
    """The attempt that `FOLDER`, `RUN/TASK[/ATTEMPT]` or `RUN TASK [ATTEMPT]` means.

    Without a number the last attempt, in its last retry. Raises NotFound, with what there is.
    """
    from termarena.core.errors import NotFound
    from termarena.core.run_folder import AttemptFolder

    if len(words) == 1:
        given = Path(words[0])
        if _ATTEMPT.fullmatch(given.absolute().name) and given.is_dir():
            return AttemptFolder(given)
        words = _split(words[0])
    run = find_run(words[0])
    if len(words) == 1:
        raise NotFound(f"which task of {run.id}?", known=tuple(_tasks_in(run)), hint="add it: RUN/TASK")
    return _attempt_of(run, words[1:])


def _split(name: str) -> tuple[str, ...]:
    """`RUN/TASK/2` in its parts; the run is the longest beginning that is one, since it may be a path."""
    parts = name.split("/")
    for cut in range(len(parts) - 1, 0, -1):
        run = "/".join(parts[:cut])
        if _run_at(Path(run)) or (run and _run_at(RUNS / run)):
            return run, "/".join(parts[cut:])
    return (parts[0], "/".join(parts[1:])) if len(parts) > 1 and not name.startswith(("/", ".")) else (name,)


def _attempt_of(run: RunFolder, words: Sequence[str]) -> AttemptFolder:
    from termarena.core.errors import NotFound

    task, number = _task_and_number(run, words)
    _refuse_imported(run)
    attempts = attempts_in(run, task)
    if not attempts:
        raise NotFound(f"{task} has not been tried in {run.id}", hint=f"go on with it: termarena resume {run.path}")
    chosen = [found for found in attempts if number is None or found.attempt == number]
    if not chosen:
        known = tuple(dict.fromkeys(str(found.attempt) for found in attempts))
        raise NotFound(f"{task} has no attempt {number} in {run.id}", known=known)
    return chosen[-1].folder


def _refuse_imported(run: RunFolder) -> None:
    """Of a trial that another tool ran there is the outcome, and no folder. Raises NotFound that says where to look."""
    from termarena.core.errors import NotFound
    from termarena.runs.config_lock import read_config_lock

    origin = read_config_lock(run).origin
    if origin is not None:
        raise NotFound(
            f"{run.id} was imported from {origin.tool}: it has the outcomes of trials and none of their files",
            hint=f"look for them in {origin.path}; the outcomes: termarena runs show {run.path}",
        )


def _task_and_number(run: RunFolder, words: Sequence[str]) -> tuple[str, int | None]:
    """The task's whole id, and the attempt where one is named. An id may itself end in a number, and is tried first."""
    from termarena.core.errors import NotFound

    known = _tasks_in(run)
    whole = "/".join(words)
    shorter, _, last = whole.rpartition("/")
    for name, number in ((whole, None), (shorter, int(last) if last.isdecimal() else None)):
        meant = [task for task in known if name in (task, task.rpartition("/")[2])]
        if meant and (number is not None or name == whole):
            return meant[0], number
    raise NotFound(f"no task of {run.id} is called {whole}", known=tuple(known))


def attempts_in(run: RunFolder, task_id: str) -> list[Found]:
    """Every attempt at a task that has a folder, in order."""
    from termarena.core.run_folder import AttemptFolder

    place = run.attempt(task_id, 1).path.parent
    names = {folder: _ATTEMPT.fullmatch(folder.name) for folder in (place.iterdir() if place.is_dir() else ())}
    found = [Found(AttemptFolder(path), int(name[1]), int(name[2] or 0)) for path, name in names.items() if name]
    return sorted(found, key=lambda one: (one.attempt, one.retry))


def _tasks_in(run: RunFolder) -> list[str]:
    """The ids of a run's tasks."""
    from termarena.runs.config_lock import read_config_lock

    return [task.id for task in read_config_lock(run).tasks]


def _run_at(path: Path) -> Path | None:
    try:
        is_one = any((path / name).is_file() for name in ("journal.jsonl", "config.lock.json"))
    except OSError:
        return None
    return path if is_one else None
