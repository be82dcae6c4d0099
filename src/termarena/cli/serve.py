"""`termarena serve`: the arena."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from termarena.cli.finding import RUNS
from termarena.cli.output import JsonOption, print_json, print_line, say

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)

DbOption = Annotated[
    str | None, typer.Option("--db", metavar="URL", help="sqlite:///FILE or postgresql://…; else arena.db in --runs.")
]
HostOption = Annotated[str, typer.Option("--host", help="The address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 is any free one.")]


@app.callback(invoke_without_command=True)
def serve(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    *,
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Runs that are taken in and watched.")] = RUNS,
    db: DbOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8642,
    public: Annotated[bool, typer.Option("--public", help="Allow an address that others can reach.")] = False,
    json: JsonOption = False,
) -> None:
    """Serve leaderboards, runs and trials as web pages and as a REST API.

    \b
    termarena serve                                  # the runs in ./runs, on http://127.0.0.1:8642
    termarena serve --runs /data/runs --db postgresql://arena@localhost/arena
    termarena serve --host 0.0.0.0 --public          # others may read; put TLS before it

    Runs that are in the folder are taken in, also while they go on. Ctrl-C stops it.
    """
    if context.invoked_subcommand is not None:
        return
    from termarena.core.errors import MissingExtra, UsageError

    try:
        from termarena.arena.config import ArenaConfig
        from termarena.arena.serving import is_loopback, listen
        from termarena.arena.serving import serve as go_on
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), extra="arena", purpose="the arena") from error
    if not is_loopback(host) and not public:
        raise UsageError(f"{host} can be reached from other machines", hint="say so with --public")
    if not is_loopback(host):
        say("warning: what is sent is not encrypted; put a server with TLS before this one")
    config = ArenaConfig(db_url=_db_url(db, runs), runs=runs, host=host, port=port)
    listening = listen(config)
    print_json({"url": listening.url}, is_line=True) if json else print_line(listening.url)
    say("serving; Ctrl-C stops it")
    go_on(config, listening)


def _db_url(db: str | None, runs: Path) -> str:
    """What was given, or a file beside the runs, whose folder is made where it is missing."""
    from termarena.core.errors import UsageError

    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {runs}: {error.strerror}", hint="name another folder with --runs") from error
    return db or f"sqlite:///{runs.resolve() / 'arena.db'}"
