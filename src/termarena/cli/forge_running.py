"""`termarena forge run`: recordings in, proven tasks out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.extras import require_forge
from termarena.cli.forge_making import DEFAULT_FORGE, ForgeOption, home_folder
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table, progress, say
from termarena.cli.run_options import AddressOption, EngineOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from termarena.forge.assisting import Assistant
    from termarena.forge.intake import Unreadable
    from termarena.forge.ledger import Outcome
    from termarena.forge.making import MakingConfig
    from termarena.forge.transcript import Transcript
    from termarena.models import RunModels

__all__ = ["run"]

STATES = {"admitted": "green", "refused": "yellow", "failed": "red"}


def run(  # noqa: PLR0913 - one parameter per option
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Recordings: files, or folders of them.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where tasks go; else tasks/ of the forge.")
    ] = None,
    forge: ForgeOption = DEFAULT_FORGE,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-n", metavar="N", min=1, help="Recordings at once.")
    ] = 2,
    engine: EngineOption = "local",
    address: AddressOption = "auto",
    json: JsonOption = False,
) -> None:
    """Make tasks of recordings: every stage, every gate; admitted tasks are written, the others explained.

    \b
    termarena forge run session.cast --out tasks
    termarena forge run recordings/ -n 4
    termarena forge run recordings/ --json
    termarena forge run recordings/ --engine ray   # read on the nodes of a cluster

    What the ledger has an outcome for is not made again; interrupted, the same command goes on. Exits 0 whatever was
    refused, 1 if something failed that is not the recordings' fault, 2 if nothing that was given is a recording.
    """
    from termarena.cli.screening import workers
    from termarena.core.errors import RecordingError
    from termarena.forge.home import TASKS, settings_of
    from termarena.forge.home import init as make_folder
    from termarena.forge.intake import found_in, items_in

    require_forge()
    make_folder(forge)
    files = found_in(paths)
    outcomes: list[Outcome] = []
    with progress("recordings", total=len(files)) as bar:

        def on_outcome(outcome: Outcome, was_known: bool) -> None:  # noqa: FBT001 - the library's callback
            outcomes.append(outcome)
            bar.advance()
            say(f"{outcome.state}{' (known)' if was_known else ''}: {outcome.source}: {_why(outcome)}")

        with workers(engine, address) as where:
            _work(
                items_in(files, where, settings_of(forge).screen),
                out or forge / TASKS,
                forge,
                slots=concurrency,
                on_outcome=on_outcome,
            )
    _show_outcomes(outcomes, as_json=json)
    if outcomes and all(outcome.gate == "read" for outcome in outcomes):
        raise RecordingError("nothing that was given is a recording", hint="see each reason above")
    if any(outcome.state == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _work(
    recordings: Iterable[Transcript | Unreadable],
    out: Path,
    forge: Path,
    *,
    slots: int,
    on_outcome: Callable[[Outcome, bool], None],
) -> None:
    import asyncio

    from termarena.forge.home import settings_of
    from termarena.forge.ledger import Ledger
    from termarena.forge.working import Order, work
    from termarena.sandbox.drivers import open_driver

    config = settings_of(forge)
    models, assistant = _assistants(config)
    order = Order(recordings, out, config, slots, assistant)

    async def go(ledger: Ledger) -> None:
        driver = open_driver("namespace", home=home_folder())
        try:
            await work(order, ledger, driver, on_outcome)
        finally:
            await driver.aclose()
            if models is not None:
                await models.aclose()

    with Ledger(forge) as ledger:
        asyncio.run(go(ledger))


def _assistants(config: MakingConfig) -> tuple[RunModels | None, Callable[[], Assistant] | None]:
    """What opens a model for each recording, where the settings name one; it is looked at before anything starts."""
    rules = config.model
    if rules is None:
        return None, None
    from termarena.forge.assisting import Assistant
    from termarena.models import ModelLimits, RunModels

    limits = ModelLimits(rules.recording_usd, rules.usd, rules.recording_tokens, rules.tokens)
    models = RunModels(limits)
    models.check(rules.name)
    return models, lambda: Assistant(models.open(rules.name), rules)


def _why(outcome: Outcome) -> str:
    if outcome.state == "admitted":
        return f"{outcome.task_id} (fidelity {outcome.fidelity:.2f}, mutation score {outcome.mutation_score:.2f})"
    return f"{outcome.gate}: {outcome.reason}"


def _show_outcomes(outcomes: list[Outcome], *, as_json: bool) -> None:
    ordered = sorted(outcomes, key=lambda outcome: outcome.source)
    if as_json:
        print_json([outcome._asdict() for outcome in ordered])
        return
    columns: list[str | Column] = ["recording", Column("outcome", styles=STATES), "task or reason"]
    print_table(columns, [[Path(one.source).name, one.state, _why(one)] for one in ordered])
    print_line()
    admitted = [one for one in ordered if one.state == "admitted"]
    print_line(f"{len(admitted)} of {len(ordered)} recordings became tasks")
    if admitted and admitted[0].folder:
        say(f"next: termarena run --path {Path(admitted[0].folder).parent} --agent oracle")
    elif ordered:
        say(f"next: termarena forge explain {shlex.quote(Path(ordered[0].source).name)}")
