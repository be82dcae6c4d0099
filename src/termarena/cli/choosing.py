"""Options that several commands share: which dataset, and which tasks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.settings import Settings
    from termarena.tasks import Dataset, Selection, Task

__all__ = [
    "CategoryOption",
    "DifficultyOption",
    "ExcludeOption",
    "FirstOption",
    "LanguageOption",
    "SampleOption",
    "SeedOption",
    "SourceArgument",
    "StrictOption",
    "TagOption",
    "TaskOption",
    "open_dataset",
    "open_task",
    "selection",
]

SourceArgument = Annotated[
    str, typer.Argument(metavar="DATASET", help="A folder of tasks, one task, a tasks.json, a pulled name, or samples.")
]
TaskOption = Annotated[
    list[str] | None,
    typer.Option("--task", "-t", metavar="ID", help="Only this task, or those a glob matches; repeat."),
]
ExcludeOption = Annotated[
    list[str] | None, typer.Option("--exclude", "-x", metavar="ID", help="Leave out this task or glob; repeat.")
]
CategoryOption = Annotated[list[str] | None, typer.Option("--category", "-c", help="Only this category; repeat.")]
DifficultyOption = Annotated[list[str] | None, typer.Option("--difficulty", help="Only this difficulty; repeat.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="Only tasks with this tag; repeat.")]
LanguageOption = Annotated[list[str] | None, typer.Option("--language", help="Only tasks in this language; repeat.")]
FirstOption = Annotated[
    int | None, typer.Option("--first", "-n", min=1, metavar="N", help="The first N by id, after all else.")
]
SampleOption = Annotated[
    int | None, typer.Option("--sample", min=1, metavar="N", help="N at random, the same for the same --seed.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Chooses the sample.")]
StrictOption = Annotated[
    bool | None,
    typer.Option("--strict/--no-strict", help="Unknown fields and loose types are errors, not warnings."),
]


def selection(**options: list[str] | int | None) -> Selection:
    """The options above as a Selection; one that is None was not given."""
    from termarena.tasks import Selection

    return Selection.model_validate({name: value for name, value in options.items() if value is not None})


def open_dataset(source: str, *, strict: bool | None = None) -> Dataset:
    """Load what the user named: a path, `samples`, or the name of a pulled dataset.

    Raises NotFound, with what to do next, when it is none of these.
    """
    from pathlib import Path

    from termarena.cli.output import progress
    from termarena.core.settings import resolve_settings
    from termarena.tasks import SAMPLES, load_dataset

    settings = resolve_settings({"tasks.strict": strict}).settings
    place = source if source == SAMPLES or Path(source).exists() else _pulled(source, settings)
    with progress(f"loading {source}") as shown:
        return load_dataset(place, strict=settings.tasks.strict, seen=shown.move_to)


def open_task(name: str, *, dataset: str, strict: bool | None = None) -> Task:
    """Load one task: a path, or an id in the dataset."""
    from pathlib import Path

    from termarena.core.settings import resolve_settings
    from termarena.tasks import Selection, is_task, load_task

    if is_task(name) or ("/" in name and Path(name).exists()):
        return load_task(name, strict=resolve_settings({"tasks.strict": strict}).settings.tasks.strict)
    opened = open_dataset(dataset, strict=strict)
    for broken in opened.broken:
        if Path(broken.path).name == name:
            raise broken.error
    return Selection(ids=(name,)).choose(opened)[0]


def _pulled(name: str, settings: Settings) -> Path:
    from termarena.core.errors import NotFound, UsageError
    from termarena.tasks import SAMPLES
    from termarena.tasks.pull import find_pulled, known_sources

    sources = settings.datasets.sources
    try:
        found = find_pulled(name, home=settings.paths.home, sources=sources)
    except UsageError as error:
        known = (SAMPLES, *known_sources(sources))
        raise NotFound(f"no folder and no dataset is called {name}", known=known, hint=error.hint) from error
    if found is None:
        raise NotFound(f"the dataset {name} is not here yet", hint=f"fetch it with: termarena datasets pull {name}")
    return found.path
