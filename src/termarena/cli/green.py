"""`termarena green`: the referee as an A2A server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli import run_options, serving_options
from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.battles.config import GreenConfig
    from termarena.battles.serving import Place
    from termarena.cli.serving import Standing
    from termarena.tasks import Dataset

__all__ = ["app"]

app = command_app()


@app.callback(invoke_without_command=True)
def green(  # noqa: PLR0913 - every option of the command is a parameter
    context: typer.Context,
    *,
    dataset: run_options.DatasetOption = None,
    path: run_options.PathOption = None,
    host: serving_options.HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: any that is free.")] = 9009,
    card_url: serving_options.CardUrlOption = None,
    card: serving_options.CardOption = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A config.toml: see docs/battles.md.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where battles are kept; else battles/.")
    ] = None,
    key_file: serving_options.KeyFileOption = None,
    allow_network: serving_options.AllowNetworkOption = None,
    backend: serving_options.BackendOption = None,
    json: JsonOption = False,
) -> None:
    """Referee battles over A2A, until Ctrl-C: white agents get a sandboxed terminal, then hidden tests run.

    \b
    termarena green                                        # the bundled samples, at http://127.0.0.1:9009
    termarena green --dataset terminal-bench@2.0 --port 9009 --card-url https://green.example.org
    termarena green --config config.toml --out battles
    termarena battle --white http://127.0.0.1:9019 --task hello-world    # in another terminal

    It understands every request of AgentBeats, over A2A 1.0 and 0.3. Beyond 127.0.0.1 a key is needed, in
    TERMARENA_GREEN_KEY or --key-file. No model is asked: the same battle has the same referee.
    """
    if context.invoked_subcommand is not None:
        return
    serving_options.require_packages("green")
    from termarena.battles.cards import GREEN_CARD, read_card
    from termarena.battles.config import GreenConfig, read_config
    from termarena.cli.choosing import open_dataset
    from termarena.cli.serving import GREEN_KEY, key_in, launcher_at, place_of, stand
    from termarena.tasks import SAMPLES

    where = place_of(host=host, port=port, card_url=card_url, key=key_in(key_file, GREEN_KEY))
    tasks = open_dataset(str(path) if path is not None else dataset or SAMPLES)
    chosen = read_config(config) if config is not None else GreenConfig()
    text = read_card(card) if card is not None else GREEN_CARD
    networks = [*chosen.network.allow, *(allow_network or [])]
    launcher = launcher_at(backend, alias=text.name, is_green=True, networks=networks)
    standing = _standing(chosen, tasks, where, out=out or Path("battles"), networks=networks)
    stand(
        lambda: standing()._replace(launcher=launcher),
        text,
        where,
        what=f"the green agent for {len(tasks.tasks)} tasks of {tasks.name}",
        json=json,
    )


def _standing(
    config: GreenConfig, dataset: Dataset, place: Place, *, out: Path, networks: list[str]
) -> Callable[[], Standing]:
    """What makes the server, once the event loop runs."""
    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.green import GreenExecutor
    from termarena.battles.referee import Referee
    from termarena.core.settings import resolve_settings

    policy = AddressPolicy.of(networks, allows_loopback=place.is_loopback)
    home = resolve_settings().settings.paths.home

    def make() -> Standing:
        from termarena.cli.serving import Standing

        referee = Referee(config, dataset.tasks, dataset=dataset.name, out=out, home=home, policy=policy)
        executor = GreenExecutor(referee)
        return Standing(executor, executor.aclose, referee.doors.routes, referee.doors.life)

    return make


@app.command()
def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the white agent is.")],
    *,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=1, help="Seconds for each check.")
    ] = 60.0,
    key_file: serving_options.SentKeyFileOption = None,
    allow_network: serving_options.AllowNetworkOption = None,
    json: JsonOption = False,
) -> None:
    """Try a white agent before a battle: its card, a dry run without a sandbox, odd answers, cancelling, concurrency.

    \b
    termarena green check http://127.0.0.1:9019
    termarena green check http://127.0.0.1:9019 --patience 300 --json    # a slow model

    A key that it asks for is in TERMARENA_WHITE_KEY or --key-file. Exits 1 if a check failed.
    """
    serving_options.require_packages("green")
    import asyncio

    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.checking import check_white
    from termarena.battles.white_agent import KEY_VARIABLE
    from termarena.cli.output import Column, print_json, print_table
    from termarena.cli.serving import key_in

    policy = AddressPolicy.of(allow_network or [])
    key = key_in(key_file, KEY_VARIABLE)
    found = asyncio.run(check_white(url, policy=policy, key=key, patience_s=patience))
    is_well = all(one.state != "failed" for one in found)
    if json:
        rows = [{"name": one.name, "state": one.state, "message": one.message} for one in found]
        print_json({"url": url, "passed": is_well, "checks": rows})
    else:
        colours = {"passed": "green", "failed": "red", "noted": "yellow"}
        rows_shown = [[one.name, one.state, one.message] for one in found]
        print_table(["check", Column("", styles=colours), "what was seen"], rows_shown)
    if not is_well:
        nobody = "start it, or give the address that serves its card; nothing else was tried"
        say(f"hint: {nobody if len(found) == 1 else 'docs/battles.md says what a white agent is asked and answers'}")
        raise typer.Exit(1)
