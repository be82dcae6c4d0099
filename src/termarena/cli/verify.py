"""`termarena verify`: what a packed run is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import command_app
from termarena.cli.output import Column, ExitStatus, JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.reports import Report
    from termarena.runs.verifying import Finding, Verification
    from termarena.tasks.model import Task

__all__ = ["app"]

app = command_app()

MOST_SHOWN = 50


@app.command()
def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `termarena pack` wrote.")],
    *,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", metavar="NAME", help="Compare tasks and limits with this dataset."),
    ] = None,
    path: Annotated[
        Path | None, typer.Option("--path", "-p", metavar="FOLDER", help="The same, against a folder of tasks.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check a packed run, recompute its score, and say what does not fit.

    \b
    termarena verify mine.bundle.tar.gz
    termarena verify mine.bundle.tar.gz --dataset terminal-bench@2.0 --json

    Nothing of the run is carried out. Exits 0 for a run that contradicts itself nowhere, 1 for one that does: changed
    files, an edited journal, scores that the verdicts do not give, second chances, tests in the agent's tree.
    """
    from tempfile import TemporaryDirectory

    from termarena.core.run_folder import RunFolder
    from termarena.reports.handed_in import judge
    from termarena.runs.unpacking import unpack

    tasks = _tasks(dataset, path)
    with TemporaryDirectory(prefix="termarena-verify-") as place:
        folder = RunFolder(Path(place) / "run")
        folder.path.mkdir()
        found, report = judge(folder, unpack(bundle, folder.path), tasks)
    _print_json(found, report) if json else _print(found, report)
    if not found.is_sound:
        raise typer.Exit(ExitStatus.FAULT)


def _tasks(dataset: str | None, path: Path | None) -> dict[str, Task] | None:
    from termarena.cli.choosing import open_dataset
    from termarena.core.errors import UsageError

    if dataset is not None and path is not None:
        raise UsageError("both --dataset and --path", hint="give one of them")
    source = dataset or (str(path) if path is not None else None)
    return None if source is None else {task.id: task for task in open_dataset(source).tasks}


def _print_json(found: Verification, report: Report | None) -> None:
    print_json(
        {
            "schema_version": 1,
            "kind": "verification",
            "run_id": found.run_id,
            "chain": found.chain,
            "is_sound": found.is_sound,
            "is_rankable": found.is_rankable,
            "accuracy": report.accuracy if report is not None else None,
            "findings": [finding._asdict() for finding in found.findings],
        }
    )


def _alike(findings: Iterable[Finding]) -> Iterable[tuple[str, str, str, str]]:
    """What holds of many trials, once, with the first place and the number of the others."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        places.setdefault((finding.severity, finding.rule, finding.message), []).append(finding.where)
    for (severity, rule, message), found in places.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield severity, rule, found[0] + more, message


def _print(found: Verification, report: Report | None) -> None:
    from termarena.reports.telling import headline

    if found.findings:
        order = ("broken", "unranked", "note")
        rows = sorted(_alike(found.findings), key=lambda row: order.index(row[0]))
        severity = Column("severity", styles={"broken": "red", "unranked": "yellow"})
        print_table([severity, "rule", "where", "what was found"], rows[:MOST_SHOWN])
        if len(rows) > MOST_SHOWN:
            say(f"{len(rows) - MOST_SHOWN} more: see --json")
        print_line()
    if report is not None:
        print_line(f"{found.run_id}: {headline(report)}")
    print_line(f"chain {found.chain}")
    if not found.is_sound:
        print_line("not sound: it is not, or not only, what was run")
    else:
        print_line("sound" if found.is_rankable else "sound, and not to be ranked")
