"""`termarena replay`: a recording, played in the reader's terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.sandbox.terminal import Cast

__all__ = ["app"]

app = command_app()


@app.command()
def replay(
    words: Annotated[
        list[str], typer.Argument(metavar="TRIAL", help="RUN/TASK, RUN/TASK/ATTEMPT, RUN TASK, or a file.cast.")
    ],
    *,
    speed: Annotated[
        float, typer.Option("--speed", "-s", metavar="FACTOR", min=0.01, max=1000, help="2 is twice as fast.")
    ] = 1.0,
    idle_limit_s: Annotated[
        float | None, typer.Option("--idle-limit", "-i", min=0, metavar="SECONDS", help="No silence lasts longer.")
    ] = None,
    terminal: Annotated[
        int, typer.Option("--terminal", metavar="N", min=1, help="Which, of a trial with several.")
    ] = 1,
    json: JsonOption = False,
) -> None:
    """Play what happened on a trial's terminal, in yours. Space pauses, . steps, + and - change the speed, q leaves.

    \b
    termarena replay 2026-11-15/fix-the-build
    termarena replay runs/2026-11-15T10-00-00Z-oracle fix-the-build --speed 4 --idle-limit 1
    termarena replay session.cast

    Asciicast versions 1, 2 and 3. Only text, colours and movements are played: a recording cannot reach your clipboard,
    your window's title or your keyboard.
    """
    path = _recording(words, terminal)
    cast = _read(path)
    for trouble in cast.trouble:
        say(f"warning: {path}: {trouble}")
    if json:
        print_json(_facts(path, cast))
        return
    _play(cast, speed=speed, idle_limit_s=idle_limit_s)


def _recording(words: Sequence[str], number: int) -> Path:
    from termarena.cli.finding import find_attempt
    from termarena.core.errors import NotFound

    if len(words) == 1 and Path(words[0]).is_file():
        return Path(words[0])
    attempt = find_attempt(words)
    path = attempt.cast(number)
    if path.is_file():
        return path
    others = sorted(other.name for other in attempt.path.glob("*.cast"))
    hint = "this agent used no terminal; see what it did with: termarena runs logs" if not others else None
    raise NotFound(f"{attempt.path} has no {path.name}", known=tuple(others), hint=hint)


def _read(path: Path) -> Cast:
    from termarena.core.errors import UsageError
    from termarena.sandbox.terminal import read_cast

    try:
        return read_cast(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        hint = "give an asciicast, such as terminal.cast of a trial"
        raise UsageError(f"{path} is not an asciicast", hint=hint) from error


def _facts(path: Path, cast: Cast) -> dict[str, object]:
    return {
        "path": str(path),
        "version": cast.version,
        "cols": cast.cols,
        "rows": cast.rows,
        "events": len(cast.events),
        "duration_s": cast.events[-1].at_s if cast.events else 0.0,
        "is_cut": cast.is_cut,
        "markers": [{"at_s": event.at_s, "label": event.text} for event in cast.events if event.code == "m"],
    }


def _play(cast: Cast, *, speed: float, idle_limit_s: float | None) -> None:
    from termarena.cli.attaching import require_terminal, size_here
    from termarena.cli.player import KEYS, Pace, Player

    require_terminal("playing a recording", hint="run it without pipes; --json tells what is in the recording")
    cols, rows = size_here()
    if cols < cast.cols or rows < cast.rows:
        say(f"recorded at {cast.cols}x{cast.rows}; here are {cols}x{rows}, so lines may break: make the window larger")
    say(KEYS)
    _end_properly()
    reached_end = Player(cast, Pace(speed, idle_limit_s)).play()
    say("")
    say("end of the recording" if reached_end else "left before the end")


def _end_properly() -> None:
    """Let a signal that ends the program put the terminal back first."""
    import signal

    def leave(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
