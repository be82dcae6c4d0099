"""`termarena report`: the report of a run, made again from its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from termarena.cli.finding import RunArgument
from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, print_text, say

__all__ = ["app"]

app = command_app()


@app.command()
def report(
    run: RunArgument,
    *,
    form: Annotated[Literal["md", "json"], typer.Option("--format", "-f", help="Markdown or JSON.")] = "md",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it there instead of showing it.")
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write it as a folder of web pages; --out names it, else html in the run.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make a run's report again from its journal, and show it; report.json and report.md of the run are replaced.

    \b
    termarena report runs/2026-11-15T10-00-00Z-oracle
    termarena report 2026-11-15 --format json | jq .accuracy
    termarena report 2026-11-15 --out oracle.md
    termarena report 2026-11-15 --html        # pages with replay that need no server

    A run that is not complete has a report too: it counts what has ended, and the bounds tell what is open.
    """
    if html:
        _write_pages(run, out, json=json)
        return
    from json import loads

    from termarena.cli.finding import find_run
    from termarena.core.errors import RunNotWritable
    from termarena.reports import as_json, as_markdown, build_report, write_report
    from termarena.runs.reading import read_run

    view = read_run(find_run(run))
    made = build_report(view)
    try:
        write_report(made, view.folder)
    except OSError as error:  # an archive may be read-only, and its report can still be shown
        say(f"warning: report.json and report.md stay as they were: {error.strerror or error}")
    is_json = json or form == "json"
    if out is None:
        print_json(loads(as_json(made))) if is_json else print_text(as_markdown(made).removesuffix("\n"))
        return
    try:
        out.write_bytes(as_json(made) if is_json else as_markdown(made).encode())
    except OSError as error:
        raise RunNotWritable(str(out), problem=error.strerror or str(error), errno=error.errno) from error


def _write_pages(run: str, out: Path | None, *, json: bool) -> None:
    from termarena.cli.finding import find_run
    from termarena.core.errors import MissingExtra

    try:
        from termarena.arena.exporting import export_run
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), extra="arena", purpose="a report as web pages") from error
    folder = find_run(run)
    made = export_run(folder, out if out is not None else folder.path / "html")
    print_json({"index": str(made.index), "pages": made.pages}) if json else print_line(str(made.index))
