"""`termarena datasets`: list, pull, lock, verify."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.choosing import StrictOption, open_dataset
from termarena.cli.help import command_group
from termarena.cli.output import (
    ExitStatus,
    JsonOption,
    failure_of,
    print_json,
    print_line,
    print_table,
    progress,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks import Dataset
    from termarena.tasks.pull import Progress as PullProgress
    from termarena.tasks.pull import Pulled, Step

__all__ = ["app"]

app = command_group("List, fetch, lock and verify sets of tasks.")

FolderArgument = Annotated[str, typer.Argument(metavar="DATASET", help="A folder of tasks, a pulled name, or samples.")]


@app.command("list")
def list_datasets(*, json: JsonOption = False) -> None:
    """List what is here (the samples, what was pulled) and the names that can be pulled.

    \b
    termarena datasets list
    termarena datasets list --json
    """
    from termarena.core.settings import resolve_settings
    from termarena.tasks import load_dataset
    from termarena.tasks.pull import known_sources, list_pulled

    settings = resolve_settings().settings
    samples = load_dataset("samples")
    pulled = list_pulled(settings.paths.home)
    names = known_sources(settings.datasets.sources)
    if json:
        bundled = {"name": samples.name, "path": samples.path, "tasks": len(samples)}
        print_json({"bundled": bundled, "pulled": [one.as_dict() for one in pulled], "known": names})
        return
    rows = [["samples", "here", f"{len(samples)} tasks, bundled", samples.path]]
    rows += [[one.plan.source, "here", f"{one.files} files, {one.pulled_at[:10]}", str(one.path)] for one in pulled]
    here = {one.plan.source for one in pulled}
    rows += [[name, "can be pulled", "", source] for name, source in names.items() if name not in here]
    print_table(["dataset", "where", "what", "path or source"], rows)


@app.command()
def pull(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE[@REV]",
            help="A known name, a git repository (URL#folder), hf:ORG/NAME, registry:FILE#NAME, or an archive.",
        ),
    ],
    *,
    offline: Annotated[bool, typer.Option("--offline", help="Use only what needs no network.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask again what a branch or a name means.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be fetched, and fetch nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Fetch a dataset into the cache; what is there already is not fetched again.

    \b
    termarena datasets pull terminal-bench@2.0
    termarena datasets pull github:owner/tasks@v1.2#tasks --dry-run
    termarena datasets pull hf:org/tasks@main#tasks

    One without a task that loads is an error.
    """
    from termarena.core.errors import NotFound
    from termarena.core.settings import resolve_settings
    from termarena.tasks import load_dataset
    from termarena.tasks.pull import explain
    from termarena.tasks.pull import pull as fetch

    settings = resolve_settings().settings
    sources = settings.datasets.sources
    plan = explain(source, sources=sources)
    if dry_run:
        print_json(plan.as_dict()) if json else print_line(f"would fetch {plan.describe()}")
        return
    with _showing(plan.source) as progress:
        got = fetch(
            source, home=settings.paths.home, progress=progress, offline=offline, refresh=refresh, sources=sources
        )
    try:
        dataset = load_dataset(got.path)
    except NotFound as error:
        inside = f"; name the folder that holds them: {plan.source}#FOLDER" if not plan.folder else ""
        raise NotFound(f"pulled to {got.path}, but {error.message}", hint=f"{error.hint or ''}{inside}") from error
    if json:
        broken = [{"path": broken.path, "error": failure_of(broken.error)} for broken in dataset.broken]
        print_json({**got.as_dict(), "tasks": len(dataset), "broken": broken})
    else:
        _show_pulled(got, dataset)
    if not dataset.tasks:
        raise typer.Exit(ExitStatus.FAULT)


def _show_pulled(got: Pulled, dataset: Dataset) -> None:
    print_line(str(got.path))
    for note in got.notes:
        say(f"note: {note}")
    at = f" at {got.revision}" if got.revision else ""
    say(f"{_tasks(len(dataset))}{at}" + (", as pulled before" if got.is_from_cache and got.revision else ""))
    if not dataset.tasks:
        for broken in dataset.broken:
            say(f"error: {broken.error}")
        say(f"error: it was pulled, but none of its {len(dataset.broken)} tasks loads")
    elif dataset.broken:
        say(f"{len(dataset.broken)} more do not load: termarena tasks validate {got.path}")


@app.command()
def lock(
    source: FolderArgument,
    *,
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="The version that this state of the files is.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The dataset's name; its folder's by default.")
    ] = None,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """Write dataset.lock.json into the dataset's folder: its name, its version and every task's digest.

    \b
    termarena datasets lock my-tasks --version 1.0
    """
    from termarena.tasks import lock_of, write_lock

    dataset = open_dataset(source, strict=strict)
    made = lock_of(dataset, version=version, name=name)
    path = write_lock(made, Path(dataset.path))
    if json:
        print_json({"path": str(path), "name": made.name, "version": made.version, "tasks": len(made.tasks)})
        return
    print_line(str(path))
    say(f"{made.name} {made.version}: {_tasks(len(made.tasks))} locked")


@app.command()
def verify(source: FolderArgument, *, strict: StrictOption = None, json: JsonOption = False) -> None:
    """Check a dataset against its lock; what can move a score and differs is an error that names the files.

    \b
    termarena datasets verify my-tasks
    """
    from termarena.tasks import read_lock, verify_lock

    dataset = open_dataset(source, strict=strict)
    expected = read_lock(Path(dataset.path))
    harmless = verify_lock(dataset, expected)
    if json:
        lock = {"name": expected.name, "version": expected.version, "tasks": len(expected.tasks)}
        print_json({**lock, "ok": True, "changed_without_effect": list(harmless)})
    else:
        for change in harmless:
            say(f"note: {change}, which cannot move a score")
        tasks = "its one task is" if len(expected.tasks) == 1 else f"all {len(expected.tasks)} tasks are"
        print_line(f"{expected.name} {expected.version}: {tasks} as locked")


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


@contextmanager
def _showing(source: str) -> Iterator[PullProgress]:
    """A bar of bytes where their number is known, else of files."""
    with progress(f"pulling {source}", unit="bytes") as shown:

        def show(step: Step) -> None:
            if step.bytes_total is not None or not step.files_total:
                shown.move_to(step.bytes_done, step.bytes_total)
            else:
                shown.move_to(step.files_done, step.files_total)

        yield show
