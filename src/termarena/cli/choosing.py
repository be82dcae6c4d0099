"""Options that several commands share: which dataset, and which tasks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel

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
    "choose",
    "given_for",
    "names_of_others",
    "open_dataset",
    "open_task",
    "open_task_or_dataset",
    "say_manifest",
    "say_others",
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
CategoryOption = Annotated[
    list[str] | None, typer.Option("--category", "-c", metavar="CATEGORY", help="Only this category; repeat.")
]
DifficultyOption = Annotated[
    list[str] | None, typer.Option("--difficulty", metavar="LEVEL", help="Only this difficulty; repeat.")
]
TagOption = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Only tasks with this tag; repeat.")]
LanguageOption = Annotated[
    list[str] | None, typer.Option("--language", metavar="LANGUAGE", help="Only tasks in this language; repeat.")
]
FirstOption = Annotated[
    int | None, typer.Option("--first", "-n", min=1, metavar="N", help="The first N by id, after all else.")
]
SampleOption = Annotated[
    int | None, typer.Option("--sample", min=1, metavar="N", help="N at random, the same for the same --seed.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Chooses the sample.")]
StrictOption = Annotated[
    bool | None,
    typer.Option("--strict/--no-strict", help="Every warning of the loader is an error."),
]


def selection(parameters: Mapping[str, object]) -> Selection:
    """Those of a command's parameters that choose tasks; one that is None was not given."""
    from termarena.tasks import Selection

    return Selection.model_validate(given_for(Selection, parameters))


def given_for(kind: type[BaseModel], parameters: Mapping[str, object]) -> dict[str, object]:
    """Those of a command's parameters that are fields of this class; one that is None was not given."""
    return {name: value for name, value in parameters.items() if name in kind.model_fields and value is not None}


def open_dataset(source: str, *, strict: bool | None = None) -> Dataset:
    """Load what the user named: a path, `samples`, or the name of a pulled dataset.

    Raises NotFound, with what to do next, when it is none of these, and UsageError when it is empty.
    """
    import os

    from termarena.cli.output import progress
    from termarena.core.settings import resolve_settings
    from termarena.tasks import SAMPLES, load_dataset

    _refuse_nothing(source)
    settings = resolve_settings({"tasks.strict": strict}).settings
    is_here = source == SAMPLES or os.path.exists(source)  # noqa: PTH110 - Path.exists raises for a name too long
    place = source if is_here else _pulled(source, settings)
    with progress(f"loading {source}") as shown:
        return load_dataset(place, strict=settings.tasks.strict, seen=shown.move_to)


def open_task(name: str, *, dataset: str, strict: bool | None = None) -> Task:
    """Load one task: a path, or an id in the dataset.

    Raises what `open_dataset` and `choose` raise, and TaskFormatError for a path that is no task.
    """
    from termarena.core.settings import resolve_settings
    from termarena.tasks import Selection, is_task, load_task

    _refuse_nothing(name)
    if is_task(name) or _is_path(name):
        return load_task(name, strict=resolve_settings({"tasks.strict": strict}).settings.tasks.strict)
    return choose(Selection(ids=(name,)), open_dataset(dataset, strict=strict))[0]


def open_task_or_dataset(name: str, *, dataset: str | None, strict: bool | None = None) -> Dataset:
    """Load what the name means as a dataset, or else the task that has it as its id, alone.

    The id is looked up in `dataset` where one is given (then the name is nothing else), else in the samples. Raises
    what `open_dataset` and `open_task` raise.
    """
    from termarena.core.errors import NotFound
    from termarena.tasks import SAMPLES

    if dataset is not None:
        return _alone(open_task(name, dataset=dataset, strict=strict))
    try:
        return open_dataset(name, strict=strict)
    except NotFound as no_dataset:
        if _is_path(name):
            raise
        try:
            return _alone(open_task(name, dataset=SAMPLES, strict=strict))
        except NotFound as no_task:
            no_dataset.hint = no_task.hint or (
                "name a folder of tasks, a task of the samples (termarena tasks list), or a dataset that was pulled"
            )
            raise no_dataset from None


def choose(wanted: Selection, dataset: Dataset) -> tuple[Task, ...]:
    """The tasks that are wanted, of those that load.

    Raises NotFound for what names nothing; but the error of a broken task, if it was asked for by the name of its
    folder or if nothing else is there.
    """
    from pathlib import Path

    from termarena.core.errors import NotFound

    if not dataset.tasks:
        dataset.whole()
    try:
        return wanted.choose(dataset)
    except NotFound:
        for broken in dataset.broken:
            if Path(broken.path).name in wanted.ids:
                raise broken.error from None
        raise


def names_of_others(dataset: Dataset) -> list[str]:
    """What lies beside the dataset's tasks and claims to be none, by name."""
    from pathlib import Path

    return [Path(path).name for path in dataset.others]


SHOWN_OTHERS = 5


def say_others(datasets: Sequence[Dataset]) -> None:
    """A line on stderr for each dataset with folders that are no tasks: one of them may have been meant as one."""
    from termarena.cli.output import say

    for dataset in datasets:
        names = names_of_others(dataset)
        more = ", …" if len(names) > SHOWN_OTHERS else ""
        if names:
            say(f"{dataset.name}: left out as no tasks ({len(names)}): {', '.join(names[:SHOWN_OTHERS])}{more}")


def say_manifest(dataset: Dataset) -> None:
    """A line on stderr for each warning about the dataset's manifest."""
    from termarena.cli.output import say

    for finding in dataset.findings:
        if finding.severity == "warning":
            say(f"warning: {dataset.path}/{finding.file}: {finding.field}: {finding.message}")


def _refuse_nothing(name: str) -> None:
    from termarena.core.errors import UsageError

    if not name.strip():
        raise UsageError("an empty name names nothing", hint="give a folder ('.' for this one), a name, or samples")


def _is_path(name: str) -> bool:
    """Whether the name can only be meant as a path: the id of a task may hold a slash too, but then no file does."""
    import os

    return name in (".", "..") or ("/" in name and os.path.exists(name))  # noqa: PTH110 - as above


def _alone(task: Task) -> Dataset:
    from termarena.tasks import Dataset

    return Dataset(task.id, task.provenance.path, (task,))


def _pulled(name: str, settings: Settings) -> Path:
    from termarena.core.errors import NotFound, UsageError
    from termarena.tasks import SAMPLES
    from termarena.tasks.pull import find_pulled, known_sources, shown

    sources = settings.datasets.sources
    try:
        found = find_pulled(name, home=settings.paths.home, sources=sources)
    except UsageError as error:
        known = (SAMPLES, *known_sources(sources))
        raise NotFound(f"no folder and no dataset is called {shown(name)}", known=known, hint=error.hint) from error
    if found is None:
        hint = f"fetch it with: termarena datasets pull {shown(name)}"
        raise NotFound(f"the dataset {shown(name)} is not here yet", hint=hint)
    return found.path
