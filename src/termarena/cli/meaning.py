"""Which tasks a run is made of, folders that do not load included: a broken one never takes a good one with it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from termarena.cli.choosing import choose
from termarena.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.tasks import BrokenTask, Dataset, Selection, Task

__all__ = ["Meant", "meant_by"]


class Meant(NamedTuple):
    """What a selection means in a dataset."""

    tasks: tuple[Task, ...]
    broken: Mapping[str, BrokenTask]
    """Folders that were meant and do not load, by the name that stands for them."""
    unjudged: tuple[BrokenTask, ...] = ()
    """Folders that do not load, so that nobody can say whether they were meant."""


def meant_by(wanted: Selection, dataset: Dataset) -> Meant:
    """The tasks that are wanted.

    By name, a folder that does not load is meant like any other; by category, sample and the like nobody can say.
    Raises NotFound for what names nothing, and the error of a broken task if nothing else is left.
    """
    names = _names_of_broken(dataset)
    asked = {name for name in names if not wanted.ids or _matches(name, wanted.ids)}
    asked -= {name for name in names if _matches(name, wanted.exclude)}
    among_good = _without_broken(wanted, [*names], dataset)
    tasks = choose(among_good, dataset) if among_good.ids or not wanted.ids else ()
    broken = {name: names[name] for name in names if name in asked}
    if not tasks and not broken:
        raise NotFound("everything that was asked for was left out again", hint="see --task and --exclude")
    if not tasks:
        raise next(iter(broken.values())).error
    if _is_by_name(wanted):
        return Meant(tasks, broken)
    return Meant(tasks, {}, tuple(broken.values()))


def _names_of_broken(dataset: Dataset) -> dict[str, BrokenTask]:
    """By the folder's name, or by the whole path where a task is called so."""
    taken = {task.id for task in dataset}
    named: dict[str, BrokenTask] = {}
    for broken in dataset.broken:
        name = Path(broken.path).name
        named[broken.path if name in taken or name in named else name] = broken
    return named


def _without_broken(wanted: Selection, broken: list[str], dataset: Dataset) -> Selection:
    """The selection without those names that only a broken folder answers to: they are no mistake."""
    good = [name for task in dataset for name in (task.id, task.id.rpartition("/")[2])]

    def stays(pattern: str) -> bool:
        return any(_matches(name, (pattern,)) for name in good) or not any(
            _matches(name, (pattern,)) for name in broken
        )

    kept = {"ids": tuple(filter(stays, wanted.ids)), "exclude": tuple(filter(stays, wanted.exclude))}
    return wanted.model_copy(update=kept)


def _is_by_name(wanted: Selection) -> bool:
    return wanted.model_copy(update={"ids": (), "exclude": (), "seed": 0}) == type(wanted)()


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
