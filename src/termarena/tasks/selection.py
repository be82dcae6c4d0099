"""Choosing tasks out of a dataset. A name that names nothing is an error that lists what there is; so is an empty
choice."""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
from typing import TYPE_CHECKING

from pydantic import PositiveInt

from termarena.core.errors import NotFound
from termarena.tasks.model import Frozen, Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from termarena.tasks.model import Task

__all__ = ["Selection"]


class Selection(Frozen):
    """Which tasks: every condition must hold, and within one condition any of its values."""

    ids: Strings = ()
    """Ids or globs; the part after the organisation's `/` is enough."""
    exclude: Strings = ()
    categories: Strings = ()
    difficulties: Strings = ()
    tags: Strings = ()
    languages: Strings = ()
    sample: PositiveInt | None = None
    """So many at random, chosen by `seed`: the same on every machine, and a larger sample contains every smaller
    one."""
    seed: int = 0
    first: PositiveInt | None = None
    """The first so many by id, after everything else."""

    def choose(self, tasks: Iterable[Task]) -> tuple[Task, ...]:
        """The chosen tasks, by id. Raises NotFound for a value that no task has, or when nothing is left."""
        everything = sorted(tasks, key=lambda task: task.id)
        chosen = self._by_name(everything)
        chosen = _having(chosen, everything, "category", self.categories, lambda task: (task.metadata.category,))
        chosen = _having(chosen, everything, "difficulty", self.difficulties, lambda task: (task.metadata.difficulty,))
        chosen = _having(chosen, everything, "tag", self.tags, lambda task: task.metadata.tags)
        chosen = _having(chosen, everything, "language", self.languages, lambda task: task.metadata.languages)
        if self.sample is not None:
            chosen = sorted(sorted(chosen, key=self._rank)[: self.sample], key=lambda task: task.id)
        if not chosen:
            raise NotFound("no task meets all of these conditions", known=tuple(task.id for task in everything))
        return tuple(chosen[: self.first])

    def _by_name(self, everything: list[Task]) -> list[Task]:
        wanted = [task for pattern in self.ids for task in _matching(pattern, everything)] if self.ids else everything
        unwanted = {task.id for pattern in self.exclude for task in _matching(pattern, everything)}
        names = {task.id for task in wanted} - unwanted
        return [task for task in everything if task.id in names]

    def _rank(self, task: Task) -> str:
        return hashlib.sha256(f"{self.seed}:{task.id}".encode()).hexdigest()


def _matching(pattern: str, everything: list[Task]) -> list[Task]:
    found = [task for task in everything if pattern == task.id]
    found = found or [task for task in everything if any(fnmatch.fnmatchcase(name, pattern) for name in _names(task))]
    if not found:
        ids = tuple(task.id for task in everything)
        near = difflib.get_close_matches(pattern, [name for task in everything for name in _names(task)], n=1)
        raise NotFound(f"no task is called {pattern}", known=ids, hint=f"did you mean {near[0]}?" if near else None)
    return found


def _names(task: Task) -> tuple[str, str]:
    return task.id, task.id.rpartition("/")[2]


def _having(
    chosen: list[Task],
    everything: list[Task],
    what: str,
    wanted: tuple[str, ...],
    values: Callable[[Task], Iterable[str]],
) -> list[Task]:
    if not wanted:
        return chosen
    known = {value for task in everything for value in values(task)}
    for value in wanted:
        if value not in known:
            raise NotFound(f"no task has the {what} {value}", known=tuple(sorted(known)))
    return [task for task in chosen if not set(wanted).isdisjoint(values(task))]
