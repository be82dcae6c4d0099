"""`termarena serve`: the arena."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli import run_options, serving_options
from termarena.cli.finding import RUNS
from termarena.cli.help import command_app, command_group
from termarena.cli.output import JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.arena.config import BattleConfig
    from termarena.arena.database import Database
    from termarena.battles.referee import Referee
    from termarena.tasks import Dataset

__all__ = ["app"]

app = command_app()

LONGEST_NAME = 100
DbOption = Annotated[
    str | None, typer.Option("--db", metavar="URL", help="sqlite:///FILE or postgresql://…; else arena.db in --runs.")
]
HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 is any free one.")]


@app.callback(invoke_without_command=True)
def serve(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    *,
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Runs that are taken in and watched.")] = RUNS,
    db: DbOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8642,
    public: Annotated[bool, typer.Option("--public", help="Allow an address that others can reach.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Reading needs a key too.")] = False,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", metavar="NAME", help="A name that it is asked for by; repeat. * is any."),
    ] = None,
    dataset: run_options.DatasetOption = None,
    path: run_options.PathOption = None,
    proofs: Annotated[
        Path | None, typer.Option("--proofs", metavar="FOLDER", help="Proofs that are shown: what prove --out wrote.")
    ] = None,
    forge: Annotated[
        Path | None, typer.Option("--forge", metavar="FOLDER", help="A forge's folder, whose ledger is shown.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="How agents reach it, if not by host and port.")
    ] = None,
    allow_network: serving_options.AllowNetworkOption = None,
    battles: Annotated[
        bool,
        typer.Option("--battles/--no-battles", help="Fight battles that are asked for, with the server's referee."),
    ] = True,
    json: JsonOption = False,
) -> None:
    """Serve leaderboards, runs, trials and battles as web pages and as a REST API.

    \b
    termarena serve                                  # the runs in ./runs, on http://127.0.0.1:8642
    termarena serve --runs /data/runs --db postgresql://arena@localhost/arena
    termarena serve --dataset terminal-bench@2.0     # what battles are about; else the bundled samples
    termarena serve --host 0.0.0.0 --public --host-name arena.example   # put TLS before it

    Runs that are in the folder are taken in, also while they go on. Ctrl-C stops it.
    """
    if context.invoked_subcommand is not None:
        return
    from termarena.core.errors import MissingExtra, UsageError
    from termarena.core.hosts import is_loopback

    try:
        from termarena.arena.config import ArenaConfig
        from termarena.arena.serving import listen
        from termarena.arena.serving import serve as go_on
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), extra="arena", purpose="the arena") from error
    if not is_loopback(host) and not public:
        raise UsageError(f"{host} can be reached from other machines", hint="say so with --public")
    if not is_loopback(host):
        say("warning: what is sent is not encrypted, keys neither; put a server with TLS before this one")
    if not is_loopback(host) and not host_name:
        say(f"warning: it answers only to {host} and to names of loopback; name it with --host-name")
    from termarena.cli.choosing import open_dataset
    from termarena.tasks import SAMPLES

    tasks = open_dataset(str(path) if path is not None else dataset or SAMPLES)
    config = ArenaConfig(
        db_url=_db_url(db, runs),
        runs=runs,
        host=host,
        port=port,
        is_private=private,
        host_names=tuple(host_name or ()),
        proofs=_there(proofs, "--proofs"),
        forge=_there(forge, "--forge"),
        url=(url or "").rstrip("/"),
        tasks={task.id: task for task in tasks.tasks},
        battles=_battles(tasks, runs, networks=allow_network or [], is_local=is_loopback(host)) if battles else None,
    )
    listening = listen(config)

    def tell() -> None:
        print_json({"url": listening.url}, is_line=True) if json else print_line(listening.url)
        say("serving; Ctrl-C stops it")

    with suppress(KeyboardInterrupt):  # how it is ended
        go_on(config, listening, tell)


def _there(folder: Path | None, option: str) -> Path | None:
    from termarena.core.errors import UsageError

    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint=f"{option} takes one that is there")
    return folder


def _battles(tasks: Dataset, runs: Path, *, networks: list[str], is_local: bool) -> BattleConfig | None:
    """How battles are fought, each as a run in `runs`; None without the extra."""
    from importlib.util import find_spec

    from termarena.arena.config import BattleConfig

    if find_spec("a2a") is None or find_spec("mcp") is None:
        say("no battle is fought here; they need: pip install 'termarena[battles]'")
        return None
    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.config import GreenConfig
    from termarena.core.settings import resolve_settings

    home = resolve_settings().settings.paths.home
    policy = AddressPolicy.of(networks, allows_loopback=is_local)

    def make() -> Referee:
        from termarena.battles.referee import Referee

        return Referee(GreenConfig(), tasks.tasks, dataset=tasks.name, out=runs, home=home, policy=policy)

    return BattleConfig(policy, make)


def _db_url(db: str | None, runs: Path) -> str:
    """What was given, or a file beside the runs. ./runs is made where it is missing; a folder that was named must be
    there."""
    from termarena.core.errors import UsageError

    if runs != RUNS and not runs.is_dir():
        raise UsageError(f"{runs} is no folder", hint=f"make it with: mkdir -p {runs}")
    try:
        runs.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {runs}: {error.strerror}", hint="name another folder with --runs") from error
    return db or f"sqlite:///{runs.resolve() / 'arena.db'}"


keys = command_group("Add, list and revoke the keys of an arena.")
app.add_typer(keys, name="keys")
RunsOption = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="The arena's folder of runs.")]


@keys.command("add")
def add_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; shown beside the runs that it sends.")],
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="read, submit or admin; repeat. Without any: submit."),
    ] = None,
    runs: RunsOption = RUNS,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key and show it, once: only its hash is kept.

    \b
    termarena serve keys add lab-3
    termarena serve keys add guest --scope read --db postgresql://arena@localhost/arena
    """
    from termarena.core.errors import UsageError

    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"a name of a key has 1 to {LONGEST_NAME} printable characters")
    with _opened(db, runs) as database:
        from termarena.arena import keys as held

        for given in scope or ():
            if given not in held.SCOPES:
                raise UsageError(f"no scope is called {given}", hint=f"there is: {', '.join(held.SCOPES)}")
        wanted = [known for known in held.SCOPES if known in (scope or ["submit"])]
        token = held.add_key(database, name, wanted)
    print_json({"name": name, "key": token}) if json else print_line(token)
    say("it is not shown again; give it to: termarena run --arena URL, as TERMARENA_ARENA_KEY")


@keys.command("list")
def list_keys(*, runs: RunsOption = RUNS, db: DbOption = None, json: JsonOption = False) -> None:
    """List the keys: whose, what for, since when, and whether they were revoked.

    \b
    termarena serve keys list
    termarena serve keys list --json
    """
    from dataclasses import asdict

    with _opened(db, runs) as database:
        from termarena.arena import keys as held

        rows = held.list_keys(database)
    if json:
        print_json({"keys": [asdict(row) for row in rows]})
    elif rows:
        print_table(
            ["name", "may", "since", "revoked"],
            [[row.name, ", ".join(row.scopes), row.created_at, row.revoked_at] for row in rows],
        )
    else:
        say("there is no key; make one with: termarena serve keys add NAME")


@keys.command("revoke")
def revoke_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As it was added.")],
    *,
    runs: RunsOption = RUNS,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key worthless, at once. What was sent with it stays.

    \b
    termarena serve keys revoke lab-3
    """
    with _opened(db, runs) as database:
        from termarena.arena import keys as held

        held.revoke_key(database, name)
    print_json({"revoked": name}) if json else print_line(f"{name} is revoked")


@contextmanager
def _opened(db: str | None, runs: Path) -> Iterator[Database]:
    """The database of an arena, up to date."""
    from termarena.core.errors import MissingExtra

    try:
        from termarena.arena.database import Database
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), extra="arena", purpose="the arena") from error
    database = Database(_db_url(db, runs))
    database.migrate()
    try:
        yield database
    finally:
        database.close()
