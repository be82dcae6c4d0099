"""`termarena record`: a person's own session, as a recording that can become a task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, say

if TYPE_CHECKING:
    from termarena.forge.recording import ShellStart
    from termarena.sandbox import PtyProcess
    from termarena.sandbox.terminal import CastWriter

__all__ = ["app"]

app = command_app()

RECORDING_VARIABLE = "TERMARENA_RECORDING"
SANDBOX_FOLDER = "/run/termarena-record"


@dataclass(frozen=True)
class Wish:
    """What is to be recorded, and how."""

    path: Path
    version: Literal[2, 3]
    program: str | None
    records_input: bool


@app.command()
def record(  # noqa: PLR0913 - one parameter per option
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A new file; else recording-TIME.cast.")] = None,
    *,
    title: Annotated[
        str | None, typer.Option("--title", "-t", metavar="TEXT", help="Its title; else you are asked at the end.")
    ] = None,
    shell: Annotated[
        str | None, typer.Option("--shell", metavar="PATH", help="bash, zsh or fish; else your own ($SHELL).")
    ] = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="In a sandbox: nothing you do there touches this machine.")
    ] = False,
    v3: Annotated[bool, typer.Option("--v3", help="Write asciicast version 3 instead of 2.")] = False,
    keys: Annotated[
        bool, typer.Option("--input", help="Record the keys too, but none typed while nothing is echoed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Record your shell. Work as always; leave it with exit or Ctrl-D, and give the recording a title.

    \b
    termarena record
    termarena record fix-the-build.cast --sandbox
    termarena record demo.cast --shell /usr/bin/fish --v3 --title "Sort a log with awk"

    bash, zsh and fish mark each prompt, command and exit status, so that `termarena forge read` recovers every command
    exactly. Passwords that a program reads without showing them are never recorded.
    """
    import asyncio
    import os

    from termarena.cli.attaching import require_terminal
    from termarena.core.errors import UsageError

    require_terminal("recording")
    if RECORDING_VARIABLE in os.environ:
        raise UsageError("this shell is being recorded already", hint="leave it first, or open another terminal")
    wish = Wish(file or _new_name(), 3 if v3 else 2, shell, records_input=keys)
    cast = _writer(wish)
    status: int | None = None
    try:
        status = asyncio.run(_in_sandbox(wish, cast) if sandbox else _on_this_machine(wish, cast))
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    finally:
        cast.close(status)
    if cast.problem is not None:
        say(f"warning: the recording is not complete: {cast.problem}")
    _tell(wish.path, title if title is not None else _ask_title(), status, json=json)


def _new_name() -> Path:
    from datetime import UTC, datetime

    return Path(datetime.now(UTC).strftime("recording-%Y-%m-%dT%H-%M-%SZ.cast"))


def _writer(wish: Wish) -> CastWriter:
    import os

    from termarena.core.errors import UsageError
    from termarena.sandbox.terminal import CastWriter

    env = {"SHELL": wish.program or os.environ.get("SHELL", "/bin/bash"), "TERM": _term()}
    try:
        return CastWriter(wish.path, version=wish.version, env=env)
    except OSError as error:
        raise UsageError(f"cannot record to {wish.path}: {error.strerror}", hint="name a new file") from error


def _term() -> str:
    import os

    return os.environ.get("TERM", "xterm-256color")


async def _on_this_machine(wish: Wish, cast: CastWriter) -> int:
    import os
    import tempfile

    from termarena.cli.attaching import size_here
    from termarena.forge.recording import LocalPty, marked_shell

    with tempfile.TemporaryDirectory(prefix="termarena-record-") as folder:
        program = wish.program or os.environ.get("SHELL", "/bin/bash")
        start = marked_shell(program, folder, zdotdir=os.environ.get("ZDOTDIR"))
        for name, text in start.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        _announce(wish, start)
        cols, rows = size_here()
        env = {**os.environ, **start.env, RECORDING_VARIABLE: "1"}
        return await _attach(LocalPty(start.argv, env, cols=cols, rows=rows), cast, wish)


async def _in_sandbox(wish: Wish, cast: CastWriter) -> int:
    from termarena.cli.attaching import size_here
    from termarena.core.settings import resolve_settings
    from termarena.forge.recording import marked_shell
    from termarena.sandbox import SandboxSpec
    from termarena.sandbox.drivers import open_driver

    driver = open_driver("namespace", home=resolve_settings().settings.paths.home, on_log=say)
    try:
        async with driver.start(SandboxSpec()) as box:
            start = marked_shell(wish.program or "/bin/bash", SANDBOX_FOLDER)
            for name, text in start.files.items():
                await box.write(f"{SANDBOX_FOLDER}/{name}", text.encode())
            _announce(wish, start)
            cols, rows = size_here()
            env = {**start.env, RECORDING_VARIABLE: "1", "TERM": _term()}
            return await _attach(await box.open_pty(start.argv, cols=cols, rows=rows, env=env), cast, wish)
    finally:
        await driver.aclose()


def _announce(wish: Wish, start: ShellStart) -> None:
    say(f"recording to {wish.path}; leave the shell with exit or Ctrl-D")
    if not start.is_marked:
        say(f"{start.argv[0]} cannot mark its lines: commands will be recovered from its prompts, which is less sure")


async def _attach(pty: PtyProcess, cast: CastWriter, wish: Wish) -> int:
    from termarena.cli.attaching import attach, size_here

    try:
        cast.begin(*size_here())
        return await attach(pty, cast, records_input=wish.records_input)
    finally:
        pty.close()


def _ask_title() -> str:
    say("what did you do? One line, as a title; Enter for none:")
    try:
        return input().strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def _tell(path: Path, title: str, status: int | None, *, json: bool) -> None:
    from termarena.forge.reading import read
    from termarena.forge.recording import set_title

    if title:
        set_title(path, title)
    found = read(path)
    if json:
        facts = {"path": str(path), "title": title, "duration_s": found.duration_s, "exit_status": status}
        print_json({**facts, "commands": [command.text for command in found.commands]})
        return
    print_line(str(path))
    say(f"{len(found.commands)} commands in {found.duration_s:.0f} s; see them with: termarena forge read {path}")
    say(f"next: termarena forge run {path} --out tasks")
