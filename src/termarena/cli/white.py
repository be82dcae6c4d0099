"""`termarena white`: one of our agents as a white agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from termarena.cli import run_options, serving_options
from termarena.cli.help import command_app
from termarena.cli.output import JsonOption

__all__ = ["app"]

app = command_app()


@app.command()
def white(  # noqa: PLR0913 - every option of the command is a parameter
    *,
    agent: Annotated[
        str,
        typer.Option(
            "--agent", "-a", metavar="AGENT", help="oracle, nop, tools, terminus, script:FILE, module:Class …"
        ),
    ] = "oracle",
    model: run_options.ModelOption = None,
    max_steps: run_options.MaxStepsOption = None,
    trial_budget_usd: run_options.TrialBudgetUsdOption = None,
    run_budget_usd: run_options.RunBudgetUsdOption = None,
    trial_budget_tokens: run_options.TrialBudgetTokensOption = None,
    run_budget_tokens: run_options.RunBudgetTokensOption = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", metavar="NAME", help="The tasks that the oracle knows.")
    ] = None,
    path: run_options.PathOption = None,
    host: serving_options.HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: any that is free.")] = 9019,
    card_url: serving_options.CardUrlOption = None,
    card: serving_options.CardOption = None,
    key_file: serving_options.KeyFileOption = None,
    backend: serving_options.BackendOption = None,
    json: JsonOption = False,
) -> None:
    """Serve an agent of ours as an A2A white agent, until Ctrl-C.

    \b
    termarena white                                            # the oracle, for the bundled samples
    termarena white --agent tools --model openai:gpt-5-mini --run-budget-usd 5
    termarena white --agent script:solve.sh
    termarena run --agent a2a:http://127.0.0.1:9019 --sample   # in another terminal: measure it

    It speaks terminal-bench-shell-v1 over A2A 1.0 and 0.3. The oracle finds its task by `task_id`, else by the
    instruction, among the tasks given here. A trial is one conversation, and the run's budget is for as long as this
    server lives: when it is spent, further tasks are answered with an error. Beyond 127.0.0.1 a key is needed, in
    TERMARENA_WHITE_KEY or --key-file: see docs/battles.md.
    """
    serving_options.require_packages("white")
    from termarena.battles.cards import WHITE_CARD, read_card
    from termarena.battles.white_agent import KEY_VARIABLE
    from termarena.cli.choosing import open_dataset
    from termarena.cli.serving import Standing, key_in, launcher_at, place_of, stand
    from termarena.cli.starting import options_of
    from termarena.models import RunModels
    from termarena.runs.asking import limits_of
    from termarena.tasks import SAMPLES

    where = place_of(host=host, port=port, card_url=card_url, key=key_in(key_file, KEY_VARIABLE))
    tasks = open_dataset(str(path) if path is not None else dataset or SAMPLES).tasks
    text = read_card(card) if card is not None else WHITE_CARD

    def make() -> Standing:
        from termarena.agents.mind import LoopOptions
        from termarena.agents.registry import AgentOptions
        from termarena.battles.white import Bench, WhiteExecutor

        models = RunModels(limits_of(options))
        loop = LoopOptions(max_steps=max_steps) if max_steps is not None else LoopOptions()
        executor = WhiteExecutor(Bench(agent, tasks, AgentOptions(model=model, models=models, loop=loop)))

        async def end() -> None:
            await executor.aclose()
            await models.aclose()

        return Standing(executor, end, launcher=launcher)

    _check(agent, model)
    options = options_of(
        agent=agent,
        driver="auto",
        trial_budget_usd=trial_budget_usd,
        run_budget_usd=run_budget_usd,
        trial_budget_tokens=trial_budget_tokens,
        run_budget_tokens=run_budget_tokens,
    )
    if model is not None:
        RunModels(limits_of(options)).check(model)  # a missing key is told now, and not in every battle
    launcher = launcher_at(backend, alias=f"{text.name} ({agent})", is_green=False)
    stand(make, text, where, what=f"the white agent {agent}", json=json)


def _check(agent: str, model: str | None) -> None:
    """Raises what says that this word names no agent here: better now than in every battle."""
    from termarena.agents.baseline import is_baseline
    from termarena.agents.registry import is_installed, kind_of, takes_models
    from termarena.core.errors import UsageError

    if is_baseline(agent) or agent == "human" or agent.startswith("a2a:") or is_installed(agent):
        raise UsageError(f"the agent {agent} cannot be served", hint="take oracle, nop, script:FILE, tools …")
    kind_of(agent)
    if takes_models(agent) and model is None:
        raise UsageError(f"the agent {agent} needs a model", hint="add --model, such as openai:gpt-5-mini")
    if agent.startswith("script:") and not Path(agent.partition(":")[2]).is_file():
        raise UsageError(f"no script is at {agent.partition(':')[2]}", hint="write --agent script:FILE")
