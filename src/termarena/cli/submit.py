"""`termarena submit`: a run, or the rest of it, to an arena."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.arena.sending import Sender
    from termarena.core.run_folder import RunFolder

__all__ = ["KEY_VARIABLE", "app", "sending"]

app = command_app()

KEY_VARIABLE = "TERMARENA_ARENA_KEY"


@app.command()
def submit(
    run: Annotated[
        str, typer.Argument(metavar="RUN|BUNDLE", help="A run's folder or id, or a file of termarena pack.")
    ],
    *,
    arena: Annotated[str, typer.Option("--arena", metavar="URL", help="The arena's address.")],
    json: JsonOption = False,
) -> None:
    """Send a run to an arena: all of it, or what is not there yet. The key is taken from TERMARENA_ARENA_KEY.

    \b
    termarena submit runs/2026-11-15T10-00-00Z-mine --arena https://arena.example
    termarena submit mine.bundle.tar.gz --arena https://arena.example    # verified on arrival

    Exits 1 for a bundle that was taken and contradicts itself.
    """
    from pathlib import Path

    from termarena.cli.finding import find_run

    if Path(run).is_file():
        _hand_in(Path(run), arena, json=json)
        return
    sender = _sender(find_run(run), arena)
    try:
        trials = sender.send()
    finally:
        sender.close()
    print_json({"url": sender.page, "trials": trials}) if json else print_line(sender.page)
    say("1 trial was sent" if trials == 1 else f"{trials} trials were sent")


def _hand_in(bundle: Path, arena: str, *, json: bool) -> None:
    from termarena.arena.sending import hand_in
    from termarena.cli.output import ExitStatus

    told = hand_in(bundle, arena, _key())
    if json:
        print_json(told)
    else:
        rows = [[one["severity"], one["rule"], one["where"], one["message"]] for one in told["findings"]]
        if rows:
            print_table(["severity", "rule", "where", "what was found"], rows)
        print_line(told["url"])
    if not told["is_sound"]:
        say("not sound: it is not, or not only, what was run")
        raise typer.Exit(ExitStatus.FAULT)


@contextmanager
def sending(folder: RunFolder, arena: str | None) -> Iterator[None]:
    """Send the run while the block carries it out, if there is an arena to send it to.

    Raises UsageError for an arena without an address or a key, before anything has begun.
    """
    if arena is None:
        yield
        return
    from termarena.arena.sending import Streaming

    sender = _sender(folder, arena)
    say(f"it can be watched at {sender.page}")
    with Streaming(sender, say):
        yield


def _sender(folder: RunFolder, arena: str) -> Sender:
    from termarena.arena.sending import Sender

    return Sender(folder, arena, _key())


def _key() -> str:
    import os

    from termarena.core.errors import UsageError

    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise UsageError(f"sending to an arena needs a key in {KEY_VARIABLE}", hint="its operator can make you one")
    return key
