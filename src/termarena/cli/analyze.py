"""`termarena analyze`: what agents did in a run, step by step, and what went wrong on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_text, say

if TYPE_CHECKING:
    from termarena.analysis import Reading, TrialReading

__all__ = ["app"]

app = command_app()

Form = Literal["md", "json", "html"]


@app.command()
def analyze(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs: folders, or ids in ./runs.")],
    *,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", metavar="ID", help="Show the timelines of this task's trials; a glob; repeat."),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--format", "-f", help="Markdown, JSON or one HTML page; else by --out's ending.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it there, with every timeline.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="Let a model add prose, marked as its own."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Read what agents did: timelines, loops, ignored errors, wasted commands, and where solved and unsolved part.

    \b
    termarena analyze runs/2026-11-15T10-00-00Z-tools
    termarena analyze 2026-11-15 --task 'git-*'      # with the timelines of these trials
    termarena analyze mine yours --out both.html     # paths of one task are compared across the runs

    The same runs give the same reading: rules find what they find in the steps, and each finding names the steps. A
    model only adds prose, where --model asks for it. docs/analyze.md says what each flaw means and what is not seen.
    """
    from termarena.analysis import read_runs
    from termarena.cli.finding import find_run
    from termarena.runs.reading import read_run

    reading = read_runs([read_run(find_run(name)) for name in runs])
    prose = ""
    if model is not None:
        from termarena.cli.prose import prose_about

        prose = prose_about(reading, model)
    chosen = _chosen(reading, tasks or [])
    form = "json" if json else form or _form_of(out)
    if out is not None:
        _write(out, form, reading, prose)
    elif form == "json":
        from termarena.analysis import as_data

        print_json(as_data(reading, prose=prose))
    else:
        print_text(_text(reading, form, chosen, prose).removesuffix("\n"))
        if form == "md" and not chosen and reading.trials:
            say("next: --task ID shows the timelines of a task's trials, --out FILE.html writes all of them")


def _form_of(out: Path | None) -> Form:
    from termarena.core.errors import UsageError

    if out is None:
        return "md"
    endings: dict[str, Form] = {".html": "html", ".htm": "html", ".json": "json", ".md": "md", ".markdown": "md"}
    if form := endings.get(out.suffix.lower()):
        return form
    raise UsageError(
        f"{out.name} does not say what it is to be", hint="end it with .md, .json or .html, or add --format"
    )


def _chosen(reading: Reading, patterns: list[str]) -> list[TrialReading]:
    """The trials whose timelines are asked for. Raises NotFound for a pattern without any."""
    from fnmatch import fnmatchcase

    from termarena.core.errors import NotFound

    found: list[TrialReading] = []
    for pattern in patterns:
        meant = [
            one
            for one in reading.trials
            if any(fnmatchcase(name, pattern) for name in (one.trial.task_id, one.trial.task_id.rpartition("/")[2]))
        ]
        if not meant:
            known = tuple(dict.fromkeys(one.trial.task_id for one in reading.trials))
            raise NotFound(f"no trial of a task called {pattern} is there", known=known)
        found += [one for one in meant if one not in found]
    return found


def _text(reading: Reading, form: Form, timelines: list[TrialReading], prose: str) -> str:
    from termarena.analysis import as_data, as_html, as_markdown

    if form == "html":
        return as_html(reading, prose=prose)
    if form == "json":
        from json import dumps

        return dumps(as_data(reading, prose=prose), indent=2, allow_nan=False) + "\n"
    return as_markdown(reading, timelines=timelines, prose=prose)


def _write(out: Path, form: Form, reading: Reading, prose: str) -> None:
    from termarena.core.errors import RunNotWritable

    try:
        out.write_text(_text(reading, form, list(reading.trials), prose), encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunNotWritable(str(out), problem=error.strerror or str(error), errno=error.errno) from error
    say(f"written to {out}")
