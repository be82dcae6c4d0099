"""`termarena green`: the referee as an A2A server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli import run_options, serving_options
from termarena.cli.output import JsonOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.battles.config import GreenConfig
    from termarena.battles.serving import Place
    from termarena.cli.serving import Standing
    from termarena.tasks import Dataset

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def green(  # noqa: PLR0913 - every option of the command is a parameter
    context: typer.Context,
    *,
    dataset: run_options.DatasetOption = None,
    path: run_options.PathOption = None,
    host: serving_options.HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 9009,
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
    from termarena.battles.cards import GREEN_CARD, read_card
    from termarena.battles.config import GreenConfig, read_config
    from termarena.cli.choosing import open_dataset
    from termarena.cli.serving import place_of, stand
    from termarena.tasks import SAMPLES

    tasks = open_dataset(str(path) if path is not None else dataset or SAMPLES)
    where = place_of(host=host, port=port, card_url=card_url, key_file=key_file)
    chosen = read_config(config) if config is not None else GreenConfig()
    text = read_card(card) if card is not None else GREEN_CARD
    standing = _standing(chosen, tasks, where, out=out or Path("battles"), networks=allow_network or [])
    stand(standing, text, where, what=f"the green agent for {len(tasks.tasks)} tasks of {tasks.name}", json=json)


def _standing(
    config: GreenConfig, dataset: Dataset, place: Place, *, out: Path, networks: list[str]
) -> Callable[[], Standing]:
    """What makes the server, once the event loop runs."""
    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.green import GreenExecutor
    from termarena.battles.referee import Referee
    from termarena.core.settings import resolve_settings

    policy = AddressPolicy.of([*config.network.allow, *networks], allows_loopback=place.is_loopback)
    home = resolve_settings().settings.paths.home

    def make() -> Standing:
        from termarena.cli.serving import Standing

        referee = Referee(config, dataset.tasks, dataset=dataset.name, out=out, home=home, policy=policy)
        executor = GreenExecutor(referee)
        return Standing(executor, executor.aclose, referee.doors.routes, referee.doors.life)

    return make
