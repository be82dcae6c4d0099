"""`termarena import`: results of other harnesses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import command_group
from termarena.cli.output import JsonOption, print_json, print_line, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.core.run_folder import RunFolder
    from termarena.runs.importing import ForeignRun
    from termarena.runs.reading import Counts

__all__ = ["app"]

app = command_group("Read results of other harnesses, so that they can be reported and compared.")

OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="The run's own folder; else one in ./runs.")
]


@app.command()
def harbor(
    folders: Annotated[list[Path], typer.Argument(metavar="JOB_DIR", help="A job's folder: jobs/<job>.")],
    *,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Read a job of Harbor, finished or not; of several agents, each becomes a run. Several jobs are pooled.

    \b
    termarena import harbor jobs/2026-11-15__10-00-00
    termarena compare runs/imported-A runs/imported-B

    Trials that the verifier gave no reward for are unscored, also where Harbor's own mean counts them as 0.
    """
    from termarena.runs.importing import pooled, read_harbor

    groups: dict[tuple[str, str | None, str], list[ForeignRun]] = {}
    for run in (run for folder in folders for run in read_harbor(folder)):
        groups.setdefault((run.agent, run.model, run.dataset), []).append(run)
    _write([pooled(runs) for runs in groups.values()], out, json=json)


@app.command()
def tb(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN_DIR", help="A run's folder, or a results.json.")],
    *,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Read a run of Terminal-Bench's tb, finished or not. Several runs of one agent are pooled into one.

    \b
    termarena import tb runs/2026-11-15__10-00-00
    termarena import tb submission/run-1 submission/run-2 submission/run-3

    Trials whose tests came to no result are unscored, also where tb counts them as unresolved.
    """
    from termarena.runs.importing import pooled, read_terminal_bench

    _write([pooled([read_terminal_bench(folder) for folder in folders])], out, json=json)


def _write(runs: Sequence[ForeignRun], out: Path | None, *, json: bool) -> None:
    from termarena.runs.importing import write_foreign
    from termarena.runs.reading import read_run

    told = []
    for run, folder in zip(runs, _folders(runs, out), strict=True):
        write_foreign(run, folder)
        counts = read_run(folder).counts
        told.append(
            {
                "run": str(folder.path),
                "agent": run.agent,
                "model": run.model,
                "dataset": run.dataset,
                "tasks": len(run.tasks),
                "attempts": run.attempts,
                **counts._asdict(),
                "changed_limits": dict(run.origin.changed_limits),
                "notes": list(run.origin.notes),
            }
        )
        if not json:
            _tell(run, folder, counts)
    if json:
        print_json({"schema_version": 1, "kind": "imported-runs", "runs": told})


def _tell(run: ForeignRun, folder: RunFolder, counts: Counts) -> None:
    from termarena.reports.telling import count

    print_line(str(folder.path))
    missing = f", {counts.missing} without a result" if counts.missing else ""
    who = f"{run.agent} with {run.model}" if run.model else run.agent
    outcomes = f"{counts.solved} solved, {counts.unsolved} unsolved, {counts.unscored} unscored{missing}"
    say(f"{who} on {count(len(run.tasks), 'task')} of {run.dataset}: {outcomes}")
    for name, value in run.origin.changed_limits.items():
        say(f"note: a limit that is not the tasks' own: {name} = {value}")
    for note in run.origin.notes:
        say(f"note: {note}")


def _folders(runs: Sequence[ForeignRun], out: Path | None) -> Iterator[RunFolder]:
    """One for each run: `out` itself where there is one run, else a folder below it; else a new one in ./runs."""
    from termarena.cli.finding import free_place
    from termarena.core.run_folder import RunFolder, folder_name

    for run in runs:
        parts = [run.agent, *([run.model] if run.model else []), run.dataset] if len(runs) > 1 else []
        own = folder_name("-".join(part.replace("/", "-") for part in parts)) if parts else ""
        if out is not None:
            yield RunFolder(out / own if own else out)
            continue
        name = folder_name("-".join(filter(None, [run.origin.tool, run.origin.name, own])))
        yield RunFolder(free_place(name))
