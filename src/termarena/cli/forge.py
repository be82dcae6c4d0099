"""`termarena forge`: recordings in, proven tasks out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli import forge_making, forge_sets
from termarena.cli.forge_retrieving import retrieve
from termarena.cli.forge_running import run
from termarena.cli.help import command_group
from termarena.cli.output import Column, ExitStatus, JsonOption, print_json, print_line, print_table, say
from termarena.cli.run_options import AddressOption, EngineOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.forge.transcript import Command, Transcript

__all__ = ["app"]

app = command_group("Make proven tasks of terminal recordings.")
SHOWN_TEXT = 200

PathsArgument = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Recordings: files, or folders with files in them.")
]


@app.command("read")
def read_command(
    paths: PathsArgument,
    *,
    output: Annotated[bool, typer.Option("--output", help="Show what each command printed as well.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the commands that were typed in a recording, what each rests on, and how it ended.

    \b
    termarena forge read session.cast
    termarena forge read session.cast --output
    termarena forge read recordings/ --json

    Asciicasts of version 1, 2 and 3, typescripts of `script` (with their timing beside them as FILE.timing), and text.
    With --json one line per recording. Of several files, one that is no recording is told, the others are read, and the
    exit status is 1.
    """
    unread = _Unread()
    for transcript in _transcripts(paths, unread):
        if json:
            print_json(transcript.model_dump(mode="json"), is_line=True)
        else:
            _show(transcript, with_output=output)
    if unread.count:
        raise typer.Exit(ExitStatus.FAULT)


@app.command("screen")
def screen_command(  # noqa: PLR0913 - one parameter per option
    paths: PathsArgument,
    *,
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="FILE.toml", help="Thresholds other than the default ones.")
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="FOLDER", help="Tasks that are known already; may be given again."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write the kept transcripts there, redacted.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every finding with its evidence.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--concurrency", "-n", metavar="N", min=1, help="Processes; else one per core.")
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = "auto",
    json: JsonOption = False,
) -> None:
    """Say which recordings can become tasks, what was redacted in them, and why the others cannot.

    \b
    termarena forge screen session.cast --explain
    termarena forge screen recordings/ --against tasks/ --out kept/
    termarena forge screen recordings/ --json
    termarena forge screen recordings/ --engine ray --address auto

    What cannot be read or judged is refused. Of recordings that are alike the best is kept, and none that is like one
    which an earlier call wrote to --out. With --json one line per
    recording, redacted.
    """
    from termarena.cli.screening import Screened, kept_before, known_tasks, read_rules, workers, write_transcript
    from termarena.forge.finding import find_recordings
    from termarena.forge.screening import ScreenPlan, screen_files

    chosen, known, screened = read_rules(rules), known_tasks(against or []), Screened()
    with workers(engine, address, jobs) as where:
        plan = ScreenPlan(chosen, known, where, keeps_transcripts=out is not None, earlier=kept_before(out))
        for screening in screen_files(find_recordings(paths), plan):
            screened.count(screening)
            if out is not None and screening.kept:
                write_transcript(screening, out)
            screened.show(screening, json=json, explain=explain)
    screened.sum_up(json=json)


app.command("retrieve")(retrieve)
app.command("run")(run)
forge_making.mount(app)
forge_sets.mount(app)


class _Unread:
    """How many files were no recordings."""

    count = 0


def _transcripts(paths: Sequence[Path], unread: _Unread) -> Iterator[Transcript]:
    from termarena.core.errors import RecordingError
    from termarena.forge.finding import find_recordings
    from termarena.forge.reading import read

    is_alone = len(paths) == 1 and paths[0].is_file()
    for path in find_recordings(paths):
        try:
            yield read(path)
        except RecordingError as error:
            if is_alone:
                raise
            unread.count += 1
            say(f"error: {error.message}")


def _show(transcript: Transcript, *, with_output: bool) -> None:
    facts = [f"asciicast {transcript.version}" if transcript.version.isdigit() else transcript.version]
    facts += [f"{transcript.cols}x{transcript.rows}", f"{transcript.duration_s:.0f} s"]
    facts += [fact for fact in (transcript.facts.shell, transcript.facts.system) if fact]
    facts += ["uses the alternate screen"] if transcript.alternate_screen else []
    print_line(f"{transcript.source}: {transcript.title or 'no title'} ({', '.join(facts)})")
    for trouble in transcript.trouble:
        say(f"warning: {transcript.source}: {trouble}")
    if with_output:
        _show_outputs(transcript)
        return
    columns: list[str | Column] = [
        Column("at", "right"),
        "evidence",
        Column("sure", "right"),
        Column("status", "right"),
        "command",
    ]
    if transcript.commands:
        print_table(columns, [_row(command) for command in transcript.commands])
    else:
        say("no command was found in it")


def _row(command: Command) -> list[object]:
    note = "" if command.shell else "  (not the shell's)"
    note += "  (full screen)" if command.interactive else ""
    text = command.text if len(command.text) <= SHOWN_TEXT else command.text[:SHOWN_TEXT] + "…"
    return [f"{command.began_s:.1f}", command.tier.value, f"{command.confidence:.2f}", command.exit_status, text + note]


def _show_outputs(transcript: Transcript) -> None:
    from termarena.cli.output import print_text

    for command in transcript.commands:
        print_line(f"$ {command.text}")
        if command.output:
            print_text(command.output)
