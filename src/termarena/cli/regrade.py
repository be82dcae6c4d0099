"""`termarena regrade`: other tests, or mended ones, on what the agent left."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.choosing import TaskOption
from termarena.cli.finding import MovedOption, RunArgument
from termarena.cli.help import command_app
from termarena.cli.output import Column, ExitStatus, JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.core.run_folder import RunFolder
    from termarena.runs.regrading import Regraded, RegradeWish

__all__ = ["app"]

app = command_app()


@app.command()
def regrade(
    run: RunArgument,
    *,
    tests: Annotated[
        Path | None,
        typer.Option("--tests", metavar="FOLDER", help="The tests of one task, or a folder with TASK/tests for each."),
    ] = None,
    ids: TaskOption = None,
    path: MovedOption = None,
    json: JsonOption = False,
) -> None:
    """Grade a run again from the file states that it captured; the agent is not run.

    \b
    termarena regrade runs/2026-11-15T10-00-00Z-oracle
    termarena regrade 2026-11-15 --task fix-the-build --tests fixed/tests

    The earlier grading is kept in the trial's folder, the journal gets the new outcome, the report is made again. What
    cannot be graded again says why: no captured state, or a verdict that came from running processes.
    """
    import asyncio

    from termarena.cli.carrying import make_report
    from termarena.cli.finding import find_run
    from termarena.runs.reading import read_run

    folder = find_run(run)
    regraded = asyncio.run(_regrade(folder, _wish(tests, ids, path)))
    report = make_report(read_run(folder))
    if json:
        print_json({"accuracy": report.accuracy, "trials": [_row(one) for one in regraded]})
    else:
        _print(regraded, accuracy=report.accuracy)
    if not any(one.after for one in regraded):
        say("error: nothing could be graded again")
        raise typer.Exit(ExitStatus.FAULT)


def _wish(tests: Path | None, ids: Sequence[str] | None, path: Path | None) -> RegradeWish:
    from termarena.runs.regrading import RegradeWish

    if not ids:
        return RegradeWish(tests=tests, source=path)
    names = tuple(ids)

    def wants(key: tuple[str, int]) -> bool:
        called = (key[0], key[0].rpartition("/")[2])
        return any(fnmatchcase(name, pattern) for name in called for pattern in names)

    return RegradeWish(tests=tests, source=path, wants=wants)


async def _regrade(folder: RunFolder, wish: RegradeWish) -> list[Regraded]:
    from termarena.core.errors import NotFound
    from termarena.core.settings import resolve_settings
    from termarena.runs.regrading import regrade as grade_again

    found = []
    async for one in grade_again(folder, wish, home=resolve_settings().settings.paths.home):
        found.append(one)
        say(f"{one.key.task_id}/{one.key.attempt}: {_told(one)}")
    if not found:
        raise NotFound("no trial with an outcome is called so", hint=f"see: termarena runs show {folder.path}")
    return found


def _told(one: Regraded) -> str:
    if one.after is None:
        return f"not graded again: {one.why}"
    return f"still {one.after}" if one.after == one.before else f"{one.before}, now {one.after}"


def _row(one: Regraded) -> dict[str, object]:
    return {
        "task_id": one.key.task_id,
        "attempt": one.key.attempt,
        "before": one.before,
        "after": one.after,
        "reward": one.reward,
        "why_not": one.why or None,
    }


def _print(regraded: Sequence[Regraded], *, accuracy: float | None) -> None:
    from termarena.cli.ending import OUTCOME_STYLES
    from termarena.reports.telling import count, percent

    styled = [Column(title, styles=OUTCOME_STYLES) for title in ("before", "now")]
    rows = [[one.key.task_id, one.key.attempt, one.before, one.after, one.reward, one.why] for one in regraded]
    print_table(["task", Column("attempt", "right"), *styled, Column("reward", "right"), "not graded again"], rows)
    changed = sum(one.after is not None and one.after != one.before for one in regraded)
    print_line()
    print_line(f"{changed} of {count(len(regraded), 'trial')} changed; accuracy {percent(accuracy)}")
