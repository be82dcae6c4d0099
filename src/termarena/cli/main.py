"""The `termarena` command: the table of sub-commands, and how whatever goes wrong is told.

A sub-command's module is imported only when that sub-command is used; `--help`, `--version` and completion of the first
word read the table below and nothing else. A module in the table holds `app`, a Typer.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from termarena import __version__
from termarena.cli.garbage import collect_late
from termarena.cli.output import ExitStatus, Failure, failure_of, print_line, report_failure, say
from termarena.core.errors import TermArenaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    # Typer keeps its copy of Click private; these are needed to say what is overridden, and never at run time.
    from typer._click import Command, Context, HelpFormatter

__all__ = ["COMMANDS", "SECTIONS", "app", "main"]

PROGRAM = "termarena"
COMPLETION_VARIABLE = "_TERMARENA_COMPLETE"


class LazyCommand(NamedTuple):
    """Where a sub-command lives and what the overview says of it."""

    module: str
    help: str


# The overview's headings, each with its commands.
SECTIONS = {
    "Run agents": {
        "run": LazyCommand("termarena.cli.run", "Run an agent on tasks, grade what it did, and report."),
        "resume": LazyCommand("termarena.cli.resume", "Go on with a run that was interrupted."),
        "play": LazyCommand("termarena.cli.play", "Try a task yourself, recorded and graded."),
        "agents": LazyCommand("termarena.cli.agents", "List agents, and install those that live in the sandbox."),
        "broker": LazyCommand("termarena.cli.broker", "Serve one model on loopback, metered, without its key."),
    },
    "See what came of it": {
        "runs": LazyCommand("termarena.cli.runs", "List runs, show what came of them, look into trials."),
        "report": LazyCommand("termarena.cli.report", "Make a run's report again from its journal."),
        "replay": LazyCommand("termarena.cli.replay", "Play a trial's terminal in yours."),
        "regrade": LazyCommand("termarena.cli.regrade", "Grade a run again without running the agent."),
        "compare": LazyCommand("termarena.cli.compare", "Compare runs task by task: better, worse, or cannot tell."),
        "analyze": LazyCommand("termarena.cli.analyze", "Read what agents did, and what went wrong on the way."),
        "power": LazyCommand("termarena.cli.power", "Say how small a difference can be and still be found."),
        "import": LazyCommand("termarena.cli.importing", "Read results of other harnesses."),
    },
    "Make tasks, and prove them": {
        "tasks": LazyCommand("termarena.cli.tasks", "List, show, check, convert and start tasks."),
        "datasets": LazyCommand("termarena.cli.datasets", "List, fetch, lock and verify sets of tasks."),
        "record": LazyCommand("termarena.cli.record", "Record your shell, as the beginning of a task."),
        "forge": LazyCommand("termarena.cli.forge", "Make tasks of terminal recordings."),
        "prove": LazyCommand("termarena.cli.prove", "Find out by trying what tasks are worth."),
    },
    "Look into sandboxes": {
        "shell": LazyCommand("termarena.cli.shell", "Open a shell in a sandbox."),
        "sandbox": LazyCommand("termarena.cli.sandbox", "List and remove sandboxes, and measure them."),
        "images": LazyCommand("termarena.cli.images", "Get, build, list and remove images for embedded sandboxes."),
    },
    "Show results to others": {
        "pack": LazyCommand("termarena.cli.pack", "Pack a run into one file to hand in."),
        "verify": LazyCommand("termarena.cli.verify", "Check a packed run and recompute its score."),
        "submit": LazyCommand("termarena.cli.submit", "Send a run to an arena."),
        "serve": LazyCommand("termarena.cli.serve", "Serve leaderboards, runs and battles as web pages."),
    },
    "Referee agents over A2A": {
        "green": LazyCommand("termarena.cli.green", "Referee battles over A2A."),
        "white": LazyCommand("termarena.cli.white", "Serve an agent of ours as an A2A white agent."),
        "battle": LazyCommand("termarena.cli.battle", "Ask a green agent for a battle with a white agent."),
    },
    "This machine": {
        "doctor": LazyCommand("termarena.cli.doctor", "Say what this machine can do and what it lacks."),
        "settings": LazyCommand("termarena.cli.settings", "Show every setting and where its value comes from."),
        "docs": LazyCommand("termarena.cli.docs", "Serve this documentation on your own machine."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}


class LazyGroup(TyperGroup):
    """A group that knows its commands by name and help line, and imports the one that is used."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - Typer hands through what its base class takes
        """Stand-ins take the place of the commands: overview, completion and "did you mean" need no more."""
        super().__init__(**attributes)
        self.commands.update({name: TyperCommand(name, short_help=command.help) for name, command in COMMANDS.items()})

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The real command for the name that was typed."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        if name not in COMMANDS:
            return name, stand_in, rest
        command = get_command(import_module(COMMANDS[name].module).app)
        command.name = name
        return name, command, rest

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Every command below the heading that it belongs to; what they say is in one column."""
        del ctx
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), command.help) for name, command in section.items()])


# Typer's own flags default to None, and None is coerced by pydantic: the help of every sub-command would wait for it.
_UNSET_FLAGS = {"help": False, "install_completion": False, "show_completion": False}
app = typer.Typer(
    name=PROGRAM,
    cls=LazyGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"default_map": {**dict.fromkeys(COMMANDS, _UNSET_FLAGS), **_UNSET_FLAGS}},
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - Typer's signature for a callback
    if asked:
        print_line(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    """Measure terminal agents: tasks in every format, verdicts that can be defended.

    \b
    termarena doctor         # what this machine can do and what it lacks
    termarena run --sample   # a first run: the bundled tasks, solved
    termarena docs           # the documentation, in your browser
    """
    del version, debug  # both act before or after this function: `_show_version`, `main`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status: 0 done, 1 a fault, 2 usage, 130 interrupted, 141 reader gone.

    With `--json` among the arguments, an error is one JSON object on the last line of stderr.
    """
    collect_late()
    given = list(sys.argv[1:] if arguments is None else arguments)
    _survive_odd_names()
    command = get_command(app)
    if COMPLETION_VARIABLE in os.environ:
        command.main(given, prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE)
    try:
        status = _run(command, given)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return ExitStatus.READER_GONE
    return status


def _run(command: Command, arguments: list[str]) -> int:
    """Run the command; every end it can come to is a status, except that of a pipe without a reader."""
    as_json = _asks_for("--json", arguments)
    try:
        with command.make_context(PROGRAM, list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        return _report_usage(error, as_json=as_json)
    except TermArenaError as error:
        _show_traceback(arguments)
        report_failure(failure_of(error), as_json=as_json)
        return error.exit_status
    except (KeyboardInterrupt, typer.Abort, EOFError):
        report_failure({"kind": "Interrupted", "message": "interrupted"}, as_json=as_json)
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the one place where a defect becomes an exit status
        _report_defect(error, arguments, as_json=as_json)
        return ExitStatus.FAULT
    return ExitStatus.DONE


def _report_usage(error: typer.TyperException, *, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if context and message == context.get_help():  # a group without a sub-command
        if not as_json:
            _say_lines(message)
            return error.exit_code
        message = "Missing command."
    path = context.command_path if context else PROGRAM
    report_failure({"kind": "UsageError", "message": _one_line(message), "hint": f"see {path} --help"}, as_json=as_json)
    return error.exit_code


def _report_defect(error: Exception, arguments: list[str], *, as_json: bool) -> None:
    _show_traceback(arguments)
    again = shlex.join([PROGRAM, "--debug", *arguments])
    failure: Failure = {
        "kind": type(error).__name__,
        "message": _one_line(f"unexpected {type(error).__name__}: {error}"),
        "hint": None if _asks_for("--debug", arguments) else f"run again with --debug for the traceback: {again}",
    }
    report_failure(failure, as_json=as_json)


def _show_traceback(arguments: list[str]) -> None:
    if _asks_for("--debug", arguments):
        import traceback

        _say_lines(traceback.format_exc())


def _say_lines(text: str) -> None:
    for line in text.rstrip().split("\n"):
        say(line)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _asks_for(flag: str, arguments: list[str]) -> bool:
    """Whether the flag is given; what follows a bare `--` belongs to someone else."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return flag in own


def _survive_odd_names() -> None:
    """A file name or a terminal that is not UTF-8 must not turn a result into a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Let the interpreter's own flush at exit go nowhere instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
