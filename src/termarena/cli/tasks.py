"""`termarena tasks`: list, show, validate, convert, digest, init."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from termarena.cli.choosing import (
    CategoryOption,
    DifficultyOption,
    ExcludeOption,
    FirstOption,
    LanguageOption,
    SampleOption,
    SeedOption,
    SourceArgument,
    StrictOption,
    TagOption,
    TaskOption,
    choose,
    names_of_others,
    open_dataset,
    open_task,
    open_task_or_dataset,
    say_manifest,
    say_others,
    selection,
)
from termarena.cli.help import command_group
from termarena.cli.output import (
    Column,
    ExitStatus,
    JsonOption,
    print_json,
    print_line,
    print_table,
    print_text,
    progress,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.tasks import Dataset, Task

__all__ = ["app"]

app = command_group("List, show, check, convert and start tasks.")

DatasetOption = Annotated[
    str, typer.Option("--dataset", "-d", metavar="DATASET", help="Where to look the task's id up.")
]
NameArgument = Annotated[str, typer.Argument(metavar="TASK", help="A task's folder, or its id in --dataset.")]
OutputOption = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The folder to write into.")]


@app.command("list")
def list_tasks(  # noqa: PLR0913 - every option of the command is a parameter
    *,
    source: SourceArgument = "samples",
    ids: TaskOption = None,
    exclude: ExcludeOption = None,
    categories: CategoryOption = None,
    difficulties: DifficultyOption = None,
    tags: TagOption = None,
    languages: LanguageOption = None,
    sample: SampleOption = None,
    seed: SeedOption = 0,
    first: FirstOption = None,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """List the tasks of a dataset: what they are and what they need.

    \b
    termarena tasks list
    termarena tasks list my-tasks --json
    """
    wanted = selection(locals())
    dataset = open_dataset(source, strict=strict)
    chosen = choose(wanted, dataset)
    if json:
        print_json({"dataset": dataset.name, "tasks": [_row(task) for task in chosen], **_unlisted(dataset)})
    else:
        print_table(
            ["task", "category", Column("difficulty", styles=_DIFFICULTY_STYLES), Column("limit", "right"), "needs"],
            [_cells(task) for task in chosen],
        )
        print_line()
        print_line(f"{len(chosen)} of {len(dataset)} {'task' if len(dataset) == 1 else 'tasks'} in {dataset.name}")
    _end_with_unlisted(dataset, as_json=json)


_DIFFICULTY_STYLES = {"easy": "green", "medium": "yellow", "hard": "red"}


def _row(task: Task) -> dict[str, object]:
    from termarena.tasks import needs_of, tools_missing_here

    return {
        "id": task.id,
        "format": task.provenance.format,
        "path": task.provenance.path,
        "category": task.metadata.category,
        "difficulty": task.metadata.difficulty,
        "tags": list(task.metadata.tags),
        "languages": list(task.metadata.languages),
        "agent_timeout_s": task.agent.timeout_s,
        "needs": [need.capability for need in needs_of(task)],
        "tools_missing_here": list(tools_missing_here(task)),
        "warnings": len(task.findings),
    }


def _cells(task: Task) -> list[object]:
    from termarena.tasks import needs_of, tools_missing_here

    missing = [f"missing: {tool}" for tool in tools_missing_here(task)]
    needs = [need.capability for need in needs_of(task)] + missing
    limit = None if task.agent.timeout_s is None else f"{task.agent.timeout_s:g} s"
    return [task.id, task.metadata.category, task.metadata.difficulty, limit, ", ".join(needs)]


def _unlisted(dataset: Dataset) -> dict[str, object]:
    """What is in the dataset and not among its tasks, as `--json` shows it."""
    from termarena.cli.output import failure_of

    broken = [{"path": broken.path, "error": dict(failure_of(broken.error))} for broken in dataset.broken]
    findings = [finding.model_dump() for finding in dataset.findings]
    return {"broken": broken, "others": names_of_others(dataset), "findings": findings}


def _end_with_unlisted(dataset: Dataset, *, as_json: bool) -> None:
    """Nothing is skipped in silence: what is no task is told; with broken tasks the command ends with a task fault."""
    if not as_json:
        say_others([dataset])
        say_manifest(dataset)
    if not dataset.broken:
        return
    if not as_json:
        for broken in dataset.broken:
            say(f"error: {broken.error}")
        say(f"{len(dataset.broken)} tasks of {dataset.name} do not load")
    raise typer.Exit(ExitStatus.FAULT)


@app.command()
def show(
    name: NameArgument, *, dataset: DatasetOption = "samples", strict: StrictOption = None, json: JsonOption = False
) -> None:
    """Show one task: its instruction, environment, limits, files, needs and what the loader noticed.

    \b
    termarena tasks show fibonacci-server
    termarena tasks show my-tasks/fix-the-build --json
    """
    from termarena.cli.describing import as_json, as_text

    task = open_task(name, dataset=dataset, strict=strict)
    if json:
        print_json(as_json(task))
    else:
        print_text(as_text(task))


@app.command()
def validate(
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="TASK|DATASET", help="What to check; the samples by default.")
    ] = None,
    *,
    strict: StrictOption = None,
    warnings: Annotated[bool, typer.Option("--fail-on-warnings", help="Exit 1 for warnings too.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Show remarks of the lowest severity too.")] = False,
    json: JsonOption = False,
) -> None:
    """Check tasks without running anything: files, instruction, environment, tests, leaks, limits.

    \b
    termarena tasks validate my-tasks
    termarena tasks validate my-tasks --strict --fail-on-warnings

    Every finding has a rule id, a severity and a hint; docs/rules.md explains each rule. Exits 1 if any task has an
    error.
    """
    from termarena.cli.validating import check_datasets, print_findings

    datasets = [open_dataset(source, strict=strict) for source in sources or ["samples"]]
    checked = check_datasets(datasets)
    if json:
        print_json(checked.as_dict())
    else:
        print_findings(checked, with_notes=notes)
        say_others(datasets)
    if checked.count("error") or (warnings and checked.count("warning")):
        raise typer.Exit(ExitStatus.FAULT)


@app.command()
def convert(  # noqa: PLR0913 - every option of the command is a parameter
    source: Annotated[
        str,
        typer.Argument(metavar="TASK|DATASET", help="A folder, a tasks.json, a pulled name, samples, or a task's id."),
    ],
    *,
    output: OutputOption,
    ids: TaskOption = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", metavar="DATASET", help="Where to look the task's id up, if not in samples."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace folders that exist.")] = False,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """Write tasks of any format as canonical Harbor folders; each loads again to the same digest.

    \b
    termarena tasks convert old-tasks --out new-tasks
    termarena tasks convert tasks.json --out new-tasks --task 'git-*'
    """
    opened = open_task_or_dataset(source, dataset=dataset, strict=strict)
    written = _convert(choose(selection({"ids": ids}), opened), output, overwrite=overwrite)
    if json:
        print_json({"written": written, **_unlisted(opened)})
    else:
        print_table(["task", "from", "written to"], [[row["id"], row["from"], row["path"]] for row in written])
        for row in written:
            for place in row["lost"]:
                say(f"warning: {row['id']}: {place} is null, which a Harbor folder cannot hold: left out [lost-null]")
    _end_with_unlisted(opened, as_json=json)


Written = TypedDict("Written", {"id": str, "from": str, "path": str, "digest": str, "lost": list[str]})
"""A task that was converted, as `--json` shows it; `lost` are the places of nulls that TOML cannot hold."""


def _convert(tasks: Sequence[Task], output: Path, *, overwrite: bool) -> list[Written]:
    """Write each task and say where. Raises UsageError, before anything is written, when two would share a folder."""
    from termarena.core.errors import UsageError
    from termarena.tasks import write_harbor
    from termarena.tasks.write import lost_in_writing

    _refuse_shared_folders(tasks)
    written: list[Written] = []
    with progress("converting", total=len(tasks)) as shown:
        for task in tasks:
            try:
                place = write_harbor(task, output, overwrite=overwrite)
            except OSError as error:
                problem = f"cannot write {task.id} below {output}: {error.strerror or error}"
                raise UsageError(problem, hint="choose another --out") from error
            lost = [str(finding.field) for finding in lost_in_writing(task)]
            origin = task.provenance.format
            written.append(
                Written({"id": task.id, "from": origin, "path": str(place), "digest": task.digest, "lost": lost})
            )
            shown.advance()
    return written


def _refuse_shared_folders(tasks: Sequence[Task]) -> None:
    from termarena.core.errors import UsageError
    from termarena.tasks.write import folder_name

    first: dict[str, Task] = {}
    for task in tasks:
        twin = first.setdefault(folder_name(task), task)
        if twin is not task:
            raise UsageError(
                f"{twin.id} and {task.id} would be written to the same folder, {folder_name(task)}",
                hint="convert them one by one, with --task and an --out each",
            )


@app.command()
def digest(
    name: NameArgument,
    *,
    dataset: DatasetOption = "samples",
    explain: Annotated[bool, typer.Option("--explain", help="Show everything the digest is made of.")] = False,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """Print the digest of what can move a task's score; equal digests mean comparable scores.

    \b
    termarena tasks digest hello-world
    termarena tasks digest my-tasks/fix-the-build --explain
    """
    from termarena.tasks import file_digests, scored_view

    task = open_task(name, dataset=dataset, strict=strict)
    if json:
        view = {"scored": scored_view(task)} if explain else {}
        print_json({"id": task.id, "digest": task.digest, "files": _printable(file_digests(task)), **view})
        return
    print_line(task.digest)
    if explain:
        print_json(scored_view(task))


def _printable(table: dict[str, str]) -> dict[str, str]:
    return {name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"): v for name, v in table.items()}


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The task's name: letters, digits, dots, dashes.")],
    *,
    output: OutputOption = Path(),
    organisation: Annotated[str | None, typer.Option("--org", metavar="ORG", help="Makes the id ORG/NAME.")] = None,
    category: Annotated[
        str, typer.Option("--category", "-c", metavar="CATEGORY", help="One word for what it is about.")
    ] = "scripting",
    difficulty: Annotated[str, typer.Option("--difficulty", metavar="LEVEL", help="easy, medium or hard.")] = "medium",
    json: JsonOption = False,
) -> None:
    """Start a task of your own: a complete small example in Harbor's layout, ready to be changed.

    \b
    termarena tasks init fix-the-build
    termarena tasks init fix-the-build --out my-tasks --org me --difficulty easy
    """
    from termarena.tasks.starting import start_task

    place = start_task(name, output, organisation=organisation, category=category, difficulty=difficulty)
    if json:
        print_json({"path": str(place)})
        return
    print_line(str(place))
    say(f"edit instruction.md, environment/, solution/ and tests/, then: termarena tasks validate {place}")
