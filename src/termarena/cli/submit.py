"""`termarena submit`: a run, or the rest of it, to an arena."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.finding import RunArgument
from termarena.cli.output import JsonOption, print_json, print_line, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.arena.sending import Sender
    from termarena.core.run_folder import RunFolder

__all__ = ["KEY_VARIABLE", "app", "sending"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)

KEY_VARIABLE = "TERMARENA_ARENA_KEY"


@app.command()
def submit(
    run: RunArgument,
    *,
    arena: Annotated[str, typer.Option("--arena", metavar="URL", help="The arena's address.")],
    json: JsonOption = False,
) -> None:
    """Send a run to an arena: all of it, or what is not there yet. The key is taken from TERMARENA_ARENA_KEY.

    \b
    termarena submit runs/2026-11-15T10-00-00Z-mine --arena https://arena.example
    """
    from termarena.cli.finding import find_run

    sender = _sender(find_run(run), arena)
    try:
        trials = sender.send()
    finally:
        sender.close()
    print_json({"url": sender.page, "trials": trials}) if json else print_line(sender.page)
    say("1 trial was sent" if trials == 1 else f"{trials} trials were sent")


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
    import os

    from termarena.arena.sending import Sender
    from termarena.core.errors import UsageError

    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise UsageError(f"sending to an arena needs a key in {KEY_VARIABLE}", hint="its operator can make you one")
    return Sender(folder, arena, key)
