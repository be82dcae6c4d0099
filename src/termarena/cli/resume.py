"""`termarena resume`: going on with a run that was interrupted."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from termarena.cli.finding import MovedOption, RunArgument
from termarena.cli.help import command_app
from termarena.cli.output import JsonOption

__all__ = ["app"]

app = command_app()


@app.command()
def resume(  # noqa: PLR0913 - every option of the command is a parameter
    run: RunArgument,
    *,
    retry_unscored: Annotated[
        bool, typer.Option("--retry-unscored", help="Try again what could not be scored, too.")
    ] = False,
    path: MovedOption = None,
    allow_changed: Annotated[
        bool, typer.Option("--allow-changed", help="Go on although tasks have changed; the run is then a mixed one.")
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-n", metavar="N", min=1, help="Trials at once, at most; else as it began."),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"] | None, typer.Option("--engine", help="Where it goes on; else where it began.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Of the cluster; else as it began.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Go on with a run: only trials without an outcome are run, with the options that it began with.

    \b
    termarena resume runs/2026-11-15T10-00-00Z-oracle
    termarena resume 2026-11-15 --retry-unscored

    Whatever ended the run, be it `kill -9` or a full disk, nothing is run twice and nothing is lost. A run that another
    process carries out is refused.
    """
    import asyncio

    from termarena.cli.carrying import carry_out
    from termarena.cli.finding import find_run
    from termarena.cli.starting import elsewhere, runner_of, version_of
    from termarena.models import Brought
    from termarena.runs.opening import Resume, open_run

    folder = find_run(run)
    wish = Resume(source=path, retry_unscored=retry_unscored, allow_changed=allow_changed, concurrency=concurrency)
    opened = open_run(folder, wish)
    first = next(iter(opened.tasks.values()), None)
    if first is not None:
        version_of(opened.lock.options, first)  # an agent that is not here any more is told now, and not in every trial
    options = elsewhere(opened.lock.options, engine=engine, address=address)
    runner = runner_of(options, run_id=folder.id, brought=Brought(spent=opened.history.spent()))
    if opened.jobs:
        asyncio.run(runner.probe())
    raise typer.Exit(carry_out(opened, runner, json=json, budget=runner.budget))
