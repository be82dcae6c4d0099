"""What a run came to, on a screen: the table, the headline, the faults, and the next command to type."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from termarena.cli.output import Column, print_json, print_line, print_table, say
from termarena.reports import as_json
from termarena.reports.telling import UNKNOWN, count, duration, headline, money, score_words, tests_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.core.run_folder import RunFolder
    from termarena.reports import Report, TaskRow
    from termarena.runs.reading import RunView

__all__ = ["print_outcome", "shown_path"]

MOST_ROWS: Final = 200
"""A longer table is replaced by one of the categories."""
MOST_FAULTS: Final = 5
ALWAYS_SHOWN: Final = 4
"""Columns of the table of tasks that are there even if they are empty."""
OUTCOME_STYLES = {"solved": "green", "unsolved": "red", "unscored": "yellow"}


def print_outcome(view: RunView, report: Report, *, json_wanted: bool) -> None:
    """Tell how the run went: the result on stdout, what to do next on stderr."""
    if json_wanted:
        print_json({"folder": str(view.folder.path), "state": view.state, **json.loads(as_json(report))})
        return
    if report.tasks <= MOST_ROWS:
        _print_tasks(report)
    else:
        _print_categories(report)
    print_line()
    print_line(headline(report))
    _print_remarks(report)
    for line in _fault_lines(view, report):
        say(line)
    say(f"results in {shown_path(view.folder)}")
    say(f"next: {_next(view, report)}")


def _print_tasks(report: Report) -> None:
    columns: list[str | Column] = [
        "task",
        Column("outcome", styles=OUTCOME_STYLES),
        Column("reward", "right"),
        Column("time", "right"),
        Column("tests", "right"),
        "failure",
    ]
    rows = [_cells(row) for row in report.per_task]
    # A column in which nobody has anything to say is noise: most tasks name no tests, and good runs have no failures.
    told = [at for at in range(len(columns)) if at < ALWAYS_SHOWN or any(row[at] != "" for row in rows)]
    print_table([columns[at] for at in told], [[row[at] for at in told] for row in rows])


def _cells(row: TaskRow) -> list[object]:
    reward = "" if row.mean_reward is None else f"{row.mean_reward:.2f}"
    tests = tests_words(row.tests_passed, row.tests_total)
    failures = ", ".join(mode if number == 1 else f"{number} {mode}" for mode, number in row.failure_modes.items())
    return [row.task_id, _outcome(row), reward, duration(row.duration_s), tests, failures]


def _outcome(row: TaskRow) -> str:
    if row.total > 1:
        scored = row.solved + row.unsolved
        return f"{row.solved} of {scored} solved" if scored else UNKNOWN
    for outcome in ("solved", "unsolved", "unscored"):
        if getattr(row, outcome):
            return outcome
    return UNKNOWN


def _print_categories(report: Report) -> None:
    columns: list[str | Column] = ["category"]
    columns += [Column(name, "right") for name in ("tasks", "accuracy", "solved", "unsolved", "unscored")]
    print_table(
        columns,
        [
            [name, one.tasks, score_words(one), one.solved, one.unsolved, one.unscored]
            for name, one in report.by_category.items()
        ],
    )


def _print_remarks(report: Report) -> None:
    totals = report.totals
    if report.mean_reward is not None and report.mean_reward != report.accuracy:
        print_line(f"mean reward {report.mean_reward:.3f}")
    if totals.cost_usd is not None:
        bound = (
            f" (at least: {count(totals.trials_without_cost, 'trial')} told none)" if totals.trials_without_cost else ""
        )
        print_line(f"cost {money(totals.cost_usd)}{bound}")
    if report.tampered:
        print_line(f"{count(report.tampered, 'trial')} tampered with the grading: see report.md")
    if report.not_ranked:
        print_line(f"not to be ranked: {'; '.join(one.message for one in report.not_ranked)}")


def _fault_lines(view: RunView, report: Report) -> Iterator[str]:
    """Every different fault once, with its hint; the table has said whose trials they were."""
    told: dict[str, list[str]] = {}
    for one in report.unscored_trials:
        told.setdefault(f"{one.failure_mode}: {one.message}", []).append(f"{one.task_id}/{one.attempt}")
    for message, trials in [*told.items()][:MOST_FAULTS]:
        others = f" and {len(trials) - 1} more" if len(trials) > 1 else ""
        yield f"unscored: {trials[0]}{others}: {message}"
        hint = _hint_of(view.folder, trials[0])
        if hint:
            yield f"hint: {hint}"
    if len(told) > MOST_FAULTS:
        yield f"unscored: {len(told) - MOST_FAULTS} more kinds of faults: see report.md"


def _hint_of(folder: RunFolder, trial: str) -> str | None:
    """What the trial's own record says to do about it."""
    from termarena.cli.finding import attempts_in
    from termarena.core.errors import TaskFormatError
    from termarena.runs.recording import read_result

    task_id, _, attempt = trial.rpartition("/")
    tries = [found.folder for found in attempts_in(folder, task_id) if found.attempt == int(attempt)]
    try:
        detail = read_result(tries[-1]).fault_detail if tries else None
    except TaskFormatError:
        return None
    return detail.hint if detail is not None else None


def _next(view: RunView, report: Report) -> str:
    """The command that most people would want now."""
    run = shlex.quote(shown_path(view.folder))
    if report.imported_from is not None:
        return f"termarena compare {run} ANOTHER"
    if view.state != "finished":
        return f"termarena resume {run}"
    if report.unscored and any(count_ for fault, count_ in report.by_fault.items() if fault in ("infra", "test")):
        return f"termarena resume {run} --retry-unscored"
    if report.agent == "human":
        return f"termarena replay {run} {shlex.quote(report.per_task[0].task_id)}"
    unsolved = next((row for row in report.per_task if row.unsolved), None)
    if unsolved is not None:
        return f"termarena runs logs {run} {shlex.quote(unsolved.task_id)}"
    return f"termarena report {run}"


def shown_path(folder: RunFolder) -> str:
    """The run as the user would type it: relative to here where it lies below."""
    from pathlib import Path

    path = folder.path.absolute()
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
