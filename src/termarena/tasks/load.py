"""The one door for loading a task: the format is chosen by what the folder holds."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import TaskError, TaskFormatError
from termarena.tasks.checking import refuse_warnings
from termarena.tasks.markers import HARBOR, SIMPLE, TERMINAL_BENCH_1

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from termarena.tasks.model import Task

__all__ = ["is_task", "load_marked", "load_task", "marker_of"]


class _Loader(NamedTuple):
    module: str
    function: str


# Each is imported when a task of its format is met: most datasets have one format.
_LOADERS: Final = {
    HARBOR: _Loader("termarena.tasks.harbor", "load_harbor"),
    TERMINAL_BENCH_1: _Loader("termarena.tasks.terminal_bench_1", "load_terminal_bench_1"),
    SIMPLE: _Loader("termarena.tasks.simple", "load_simple"),
}


def marker_of(folder: str) -> str | None:
    """The file in this folder that marks it as a task of one of the formats, if there is one."""
    for marker in _LOADERS:
        if os.path.lexists(f"{folder}/{marker}"):
            return marker
    return None


def is_task(folder: Path | str) -> bool:
    """Whether the folder claims to be a task: it holds the file that marks one of the formats."""
    return marker_of(str(folder)) is not None


def load_task(folder: Path | str, *, strict: bool = False) -> Task:
    """Load the task in this folder.

    Raises TaskFormatError, naming file, field, found and expected, for whatever does not fit its format; with
    `strict`, LooseTask with everything that otherwise becomes a finding. Nothing else is raised for any content of the
    folder.
    """
    path = os.path.abspath(folder)  # noqa: PTH100 - keeps links, and a Path costs more than the TOML parser
    marker = marker_of(path)
    if marker is None:
        found = f"none of {', '.join(_LOADERS)}" if os.path.isdir(path) else "no such folder"  # noqa: PTH112 - likewise
        raise TaskFormatError(path, found=found, expected="a task's folder", hint=_nested_tasks(path))
    return load_marked(path, marker, strict=strict)


def load_marked(path: str, marker: str, *, strict: bool) -> Task:
    """`load_task` for an absolute path whose marker is known."""
    try:
        task = _loader(marker)(path)
    except TaskError:
        raise
    except OSError as error:
        raise TaskFormatError(
            error.filename or path, found=f"an unreadable file ({error.strerror})", expected="a readable one"
        ) from error
    if strict:
        refuse_warnings(task.findings, lambda name: f"{path}/{name}")
    return task


@cache
def _loader(marker: str) -> Callable[[str], Task]:
    module, function = _LOADERS[marker]
    found: Callable[[str], Task] = getattr(import_module(module), function)
    return found


def _nested_tasks(path: str) -> str | None:
    """Where the tasks are, for someone who named the folder above them."""
    try:
        with os.scandir(path) as entries:
            folders = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return None
    tasks = [name for name in folders if is_task(f"{path}/{name}")]
    return f"{len(tasks)} tasks lie below it, such as {tasks[0]}" if tasks else None
