"""`termarena runs`: what was run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.finding import RUNS, RunArgument
from termarena.cli.help import command_group
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table, print_text, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.core.run_folder import RunFolder
    from termarena.reports import Report
    from termarena.runs.reading import RunView

__all__ = ["app"]

app = command_group("List runs, show what came of them, and look into trials.")

TrialArgument = Annotated[
    str | None,
    typer.Argument(metavar="TRIAL", help="A task of the run, or TASK/ATTEMPT; else the last attempt."),
]


@app.command("list")
def list_runs(
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where runs lie.")] = RUNS,
    *,
    json: JsonOption = False,
) -> None:
    """List the runs in a folder: agent, dataset, how far, how good. The newest is the last.

    \b
    termarena runs list
    termarena runs list /data/runs --json
    """
    from termarena.cli.finding import runs_in
    from termarena.core.errors import TermArenaError
    from termarena.core.run_folder import RunFolder

    rows: list[dict[str, object]] = []
    for folder in runs_in(place):
        try:
            rows.append(_row(RunFolder(folder)))
        except TermArenaError as error:
            rows.append({"run": folder.name, "problem": error.message})
    if json:
        print_json({"folder": str(place), "runs": rows})
    elif rows:
        _print_runs(rows)
    else:
        say(f"no run is in {place}; start one with: termarena run")


def _row(folder: RunFolder) -> dict[str, object]:
    from termarena.reports import build_report
    from termarena.runs.reading import read_run

    view = read_run(folder)
    report = build_report(view)
    return {
        "run": folder.id,
        "state": view.state,
        "agent": report.agent,
        "model": report.model,
        "dataset": report.dataset,
        "tasks": report.tasks,
        "total": report.total,
        "done": report.total - report.pending,
        "solved": report.solved,
        "unscored": report.unscored,
        "accuracy": report.accuracy,
        "accuracy_low": report.accuracy_low,
        "accuracy_high": report.accuracy_high,
        "started_at": report.started_at,
        "finished_at": report.finished_at,
    }


_STATE_STYLES = {"finished": "green", "running": "cyan", "interrupted": "yellow"}


def _times(view: RunView) -> str:
    history = view.history
    if history.started_at is None:
        return "not begun"
    if history.finished_at is not None:
        return f"{history.started_at} to {history.finished_at}"
    return (
        f"{history.started_at} to now" if view.state == "running" else f"{history.started_at} to {history.updated_at}"
    )


def _print_runs(rows: Sequence[dict[str, object]]) -> None:
    from termarena.reports.telling import percent

    columns: list[str | Column] = ["run", Column("state", styles=_STATE_STYLES), "agent", "dataset"]
    columns += [Column(title, "right") for title in ("done", "solved", "unscored", "accuracy")]
    cells = []
    for row in rows:
        if "problem" in row:
            cells.append([row["run"], "damaged", *[""] * 6])
            say(f"{row['run']}: {row['problem']}")
            continue
        accuracy = row["accuracy"]
        shown = percent(accuracy if isinstance(accuracy, float) else None)
        done = f"{row['done']:,} of {row['total']:,}"
        names = [row[name] for name in ("run", "state", "agent", "dataset")]
        cells.append([*names, done, row["solved"], row["unscored"] or "", shown])
    print_table(columns, cells)


@app.command()
def show(run: RunArgument, trial: TrialArgument = None, *, json: JsonOption = False) -> None:
    """Show a run: its plan, its table of tasks, its faults. With a trial: its verdict, tests, clocks, limits and files.

    \b
    termarena runs show 2026-11-15T10-00-00Z-oracle
    termarena runs show 2026-11-15 fix-the-build/2
    """
    from termarena.cli.ending import print_outcome
    from termarena.cli.finding import find_run
    from termarena.reports import build_report
    from termarena.runs.reading import read_run

    if trial is not None:
        _show_trial(run, trial, json=json)
        return
    view = read_run(find_run(run))
    report = build_report(view)
    if not json:
        for label, value in _facts(view, report):
            print_line(f"{label:<13}{value}")
        print_line()
    print_outcome(view, report, json_wanted=json)


def _facts(view: RunView, report: Report) -> list[tuple[str, str]]:
    from termarena.reports.telling import count

    lock, history = view.lock, view.history
    machine = lock.machine
    facts = [
        ("run", f"{view.folder.id} ({view.state})"),
        ("agent", f"{report.agent} {report.agent_version}" + (f" with {report.model}" if report.model else "")),
        ("dataset", f"{report.dataset}: {count(report.tasks, 'task')}, {count(report.attempts, 'attempt')} each"),
        ("driver", report.driver),
        ("time", _times(view)),
        ("termarena", lock.versions.termarena),
    ]
    if machine is not None:
        told = f"{machine.cpu_model or 'unknown processor'}, {machine.usable_cpus:g} cpus, {machine.memory_mb} MB"
        facts.append(("machine", told))
    if lock.origin is not None:
        version = lock.origin.version or "of unknown version"
        facts.append(("imported", f"from {lock.origin.tool} {version}, {lock.origin.path}"))
    again = {"resumed": history.resumes, "tried again": history.retries, "graded again": history.regrades}
    rest = [f"{what} {number} times" if number > 1 else f"{what} once" for what, number in again.items() if number]
    return [*facts, ("also", ", ".join(rest))] if rest else facts


def _show_trial(run: str, trial: str, *, json: bool) -> None:
    from termarena.cli.finding import find_attempt
    from termarena.cli.inspecting import trial_text
    from termarena.runs.recording import read_result

    folder = find_attempt((run, trial))
    result = read_result(folder)
    if json:
        print_json({"folder": str(folder.path), **result.model_dump(mode="json")})
    else:
        print_text(trial_text(folder, result))


@app.command()
def logs(run: RunArgument, trial: TrialArgument = None, *, json: JsonOption = False) -> None:
    """Show what happened: the events of a run, or what a trial's agent did and its tests wrote.

    \b
    termarena runs logs 2026-11-15
    termarena runs logs 2026-11-15 fix-the-build
    """
    from termarena.cli.finding import find_attempt, find_run
    from termarena.cli.inspecting import event_line, trial_log, trial_log_text
    from termarena.runs.journal import JournalReader

    if trial is not None:
        found = trial_log(find_attempt((run, trial)))
        print_json(found) if json else print_text(trial_log_text(found))
        return
    for event in JournalReader(find_run(run).journal):
        # One object per line, as the journal has them: a run may have hundreds of thousands.
        print_json(event.fields, is_line=True) if json else print_line(event_line(event))
