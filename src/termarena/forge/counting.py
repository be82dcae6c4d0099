"""What a set of tasks is made of: categories, programs, and how many of them another set does not have."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from termarena.shell.reader import ShellReader
from termarena.tasks.dataset import load_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from termarena.tasks.model import Task

__all__ = ["SetCounts", "count_sets", "programs_of"]

LARGEST_SCRIPT_BYTES: Final = 1 << 20


class SetCounts(BaseModel):
    """Counts over the tasks of one or more folders."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: int
    broken: int
    """Folders that do not load."""
    categories: dict[str, int]
    terminalworld_categories: dict[str, int]
    difficulties: dict[str, int]
    licences: dict[str, int]
    programs: dict[str, int]
    """Of solutions, each by how many tasks use it."""
    calls_median: float
    """Programs called by a solution."""
    against_programs: int | None = None
    """How many the other set has; None where there is none."""
    absent: tuple[str, ...] = ()
    """Those of `programs` that the other set does not have."""

    @property
    def absent_share(self) -> float | None:
        """Of the programs here, those that the other set does not have."""
        return None if self.against_programs is None or not self.programs else len(self.absent) / len(self.programs)


def count_sets(folders: Sequence[Path], against: Sequence[Path] = ()) -> SetCounts:
    """Count the tasks in folders. Raises `NotFound` for a folder without any, `MissingExtra` without a parser."""
    tasks, broken = _tasks(folders)
    calls = [list(_calls(task)) for task in tasks]
    programs = Counter(name for names in calls for name in sorted(set(names)))
    others = {name for task in _tasks(against)[0] for name in _calls(task)} if against else None
    extra = [task.metadata.extra for task in tasks]
    return SetCounts(
        tasks=len(tasks),
        broken=broken,
        categories=_counts(task.metadata.category for task in tasks),
        terminalworld_categories=_counts(str(one.get("terminalworld_category", "unknown")) for one in extra),
        difficulties=_counts(task.metadata.difficulty for task in tasks),
        licences=_counts(str(one.get("license", "unknown")).partition(":")[0] for one in extra),
        programs=dict(programs.most_common()),
        calls_median=_median([len(names) for names in calls]),
        against_programs=None if others is None else len(others),
        absent=() if others is None else tuple(sorted(set(programs) - others)),
    )


def _tasks(folders: Sequence[Path]) -> tuple[list[Task], int]:
    sets = [load_dataset(folder) for folder in folders]
    return [task for one in sets for task in one], sum(len(one.broken) for one in sets)


def _calls(task: Task) -> Iterator[str]:
    if task.solution is None:
        return
    for file in task.solution.files:
        if file.path.endswith(".sh") and file.kind == "file":
            yield from programs_of(file.read(LARGEST_SCRIPT_BYTES).decode("utf-8", "replace"))
    for keys in task.solution.keystrokes:
        yield from programs_of(keys.command)


def programs_of(script: str) -> list[str]:
    """The programs that a script calls, as often as they stand in it; assignments and builtins that only steer do not
    count."""
    called = (call.program for call in ShellReader().read(script).calls)
    return [name for name in called if name and name not in _STEERING]


_STEERING: Final = frozenset(("set", "cd", "export", "exit", "true", "false", ":", "[", "test", "source", ".", "local"))


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _median(values: Sequence[int]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return 0.0
    return float(ordered[middle]) if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
