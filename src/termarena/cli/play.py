"""`termarena play`: a person tries a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.choosing import open_task
from termarena.cli.help import command_app
from termarena.cli.output import ExitStatus, JsonOption, say

if TYPE_CHECKING:
    from termarena.cli.seat import OwnTerminal
    from termarena.runs.opening import OpenRun
    from termarena.tasks import Task

__all__ = ["app"]

app = command_app()


@app.command()
def play(
    name: Annotated[str, typer.Argument(metavar="TASK", help="A task's folder, or its id in the dataset.")],
    *,
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", metavar="NAME", help="Where a task's id is looked up.")
    ] = "samples",
    driver: Annotated[str, typer.Option(metavar="DRIVER", help="namespace, docker or auto.")] = "auto",
    timeout_multiplier: Annotated[
        float, typer.Option("--timeout-multiplier", metavar="FACTOR", help="Of every time limit.")
    ] = 1.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="The run's own folder; else runs/TIME-human.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Try a task yourself: your terminal in its sandbox, recorded, and graded as any agent is.

    \b
    termarena play hello-world
    termarena play ./my-task --timeout-multiplier 4

    The instruction and the time are shown, then you have a shell. Leave it to submit; what you did is in the run's
    folder, with the recording, and `termarena replay` plays it.
    """
    from termarena.cli.attaching import require_terminal
    from termarena.cli.seat import OwnTerminal

    require_terminal("playing a task")
    task = open_task(name, dataset=dataset)
    seat = OwnTerminal()
    opened = _begin(task, driver=driver, timeout_multiplier=timeout_multiplier, out=out)
    raise typer.Exit(_play(opened, seat, json=json))


def _begin(task: Task, *, driver: str, timeout_multiplier: float, out: Path | None) -> OpenRun:
    import os
    import sys

    from termarena import __version__
    from termarena.cli.starting import new_folder, options_of
    from termarena.core.run_folder import RunFolder
    from termarena.runs.config_lock import RunFacts, scrubbed
    from termarena.runs.opening import start_run

    options = options_of(agent="human", driver=driver, timeout_multiplier=timeout_multiplier, retries=0)
    facts = RunFacts(
        agent_name="human",
        agent_version=__version__,
        driver=driver,
        dataset=task.id,
        argv=scrubbed(sys.argv, os.environ),
    )
    return start_run(options, (task,), RunFolder(out if out is not None else new_folder("human")), facts)


def _play(opened: OpenRun, seat: OwnTerminal, *, json: bool) -> int:
    import asyncio

    from termarena.agents.registry import AgentOptions
    from termarena.cli.carrying import make_report
    from termarena.cli.ending import print_outcome, shown_path
    from termarena.core.settings import resolve_settings
    from termarena.runs.reading import read_run
    from termarena.runs.running import execute
    from termarena.runs.trials import Trials

    home = resolve_settings().settings.paths.home
    options = AgentOptions(seat=seat)
    runner = Trials(opened.lock.options, home=home, run_id=opened.folder.id, agent_options=options)
    say("making the sandbox …")
    with opened:
        end = asyncio.run(execute(opened, runner))
    if end.reason == "interrupted":
        why = "not submitted" if seat.is_abandoned else "interrupted"
        say(f"{why}: nothing was graded; what was recorded is in {shown_path(opened.folder)}")
        return ExitStatus.INTERRUPTED
    view = read_run(opened.folder)
    report = make_report(view)
    print_outcome(view, report, json_wanted=json)
    return ExitStatus.DONE if report.solved + report.unsolved else ExitStatus.FAULT
