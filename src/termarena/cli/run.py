"""`termarena run`: an agent on tasks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termarena.cli.choosing import (
    CategoryOption,
    DifficultyOption,
    ExcludeOption,
    LanguageOption,
    SampleOption,
    SeedOption,
    StrictOption,
    TagOption,
    TaskOption,
    open_dataset,
    say_manifest,
    say_others,
    selection,
)
from termarena.cli.output import JsonOption, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.cli.meaning import Meant
    from termarena.runs.config_lock import RunFacts
    from termarena.runs.plan import RunOptions
    from termarena.tasks import BrokenTask, Dataset

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)

# `-n` is how many at once here, as in other harnesses; elsewhere it is `--first`.
FirstOption = Annotated[
    int | None, typer.Option("--first", min=1, metavar="N", help="The first N by id, after all else.")
]


@app.command()
def run(  # noqa: PLR0913 - every option of the command is a parameter
    *,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", metavar="NAME", help="A pulled dataset, or samples.")
    ] = None,
    path: Annotated[
        Path | None, typer.Option("--path", "-p", metavar="FOLDER", help="A folder of tasks, one task, a tasks.json.")
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            "--agent", "-a", metavar="AGENT", help="oracle, nop, tools, script:FILE, replay:FILE, module:Class …"
        ),
    ] = "oracle",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="openai:gpt-5-mini, ollama:qwen3 …, for agents that take one."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", min=1, help="How often a trial's model is asked at most.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Of the model; else the provider's own.")] = None,
    max_reply_tokens: Annotated[
        int | None, typer.Option("--max-reply-tokens", min=1, metavar="N", help="How long one of its replies may be.")
    ] = None,
    examples: Annotated[
        list[str] | None,
        typer.Option("--examples", metavar="RUN", help="Show the model similar solved trials of this run, or builtin."),
    ] = None,
    example_count: Annotated[int, typer.Option("--example-count", min=1, metavar="N", help="So many of them.")] = 1,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="FILE", help="Further tools for the model: see docs/agents.md.")
    ] = None,
    trial_budget_usd: Annotated[
        float | None, typer.Option("--trial-budget-usd", metavar="USD", help="What one trial's model may cost.")
    ] = None,
    run_budget_usd: Annotated[
        float | None, typer.Option("--run-budget-usd", metavar="USD", help="What all trials together may cost.")
    ] = None,
    trial_budget_tokens: Annotated[
        int | None, typer.Option("--trial-budget-tokens", min=1, metavar="N", help="Tokens of one trial.")
    ] = None,
    run_budget_tokens: Annotated[
        int | None, typer.Option("--run-budget-tokens", min=1, metavar="N", help="Tokens of all trials together.")
    ] = None,
    model_requests: Annotated[
        int | None, typer.Option("--model-requests", min=1, metavar="N", help="Requests to the model at once.")
    ] = None,
    model_tokens_per_minute: Annotated[
        int | None, typer.Option("--model-tokens-per-minute", min=1, metavar="N", help="What the provider allows.")
    ] = None,
    driver: Annotated[
        str, typer.Option(metavar="DRIVER", help="namespace, docker, or auto: per task, the first that can.")
    ] = "auto",
    attempts: Annotated[int, typer.Option("--attempts", "-k", min=1, help="Trials per task.")] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-n", min=1, help="Trials at once, at most; else as many as fit here."),
    ] = None,
    retries: Annotated[int, typer.Option("--retry", min=0, help="Try an unscored trial again, so often.")] = 2,
    timeout_multiplier: Annotated[
        float, typer.Option("--timeout-multiplier", help="Of every time limit; other than 1 is not ranked.")
    ] = 1.0,
    grading: Annotated[
        Literal["auto", "sealed", "live", "both"], typer.Option(help="Where the tests run: see docs/grading.md.")
    ] = "auto",
    integrity: Annotated[
        Literal["enforce", "report"], typer.Option(help="Whether tampering takes a pass away, or is only told.")
    ] = "enforce",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="The run's own folder; else runs/TIME-AGENT.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run; start and write nothing.")] = False,
    ids: TaskOption = None,
    exclude: ExcludeOption = None,
    categories: CategoryOption = None,
    difficulties: DifficultyOption = None,
    tags: TagOption = None,
    languages: LanguageOption = None,
    sample: SampleOption = None,
    seed: SeedOption = 0,
    first: FirstOption = None,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """Run an agent on tasks, grade what it did, and report.

    \b
    termarena run                                    # the reference solutions on the bundled samples
    termarena run --agent tools --model openai:gpt-5-mini --run-budget-usd 5
    termarena run --agent my_agents:Mine -k 3        # your own agent, three trials per task
    termarena run --path TASKS --task 'git-*' -n 4   # some tasks of a folder, four at once
    termarena run --dataset terminal-bench@2.0 --sample 10 --dry-run

    A task with a recipe for a plain file system runs on the embedded sandbox, any other in a container. A folder that
    does not load does not stop the others: it is told, and its trials are unscored.

    Ctrl-C stops cleanly, twice at once; `termarena resume` goes on. Exits 0 for a completed run whatever the score, 1
    when nothing could be scored or the run's folder takes no more, 130 when interrupted.
    """
    from termarena.cli.starting import options_of

    if model is not None:
        _refuse_model(agent)
    options = options_of(
        agent=agent,
        model=model,
        max_steps=max_steps,
        temperature=temperature,
        max_reply_tokens=max_reply_tokens,
        examples=tuple(examples or ()),
        example_count=example_count,
        tools=tools,
        trial_budget_usd=trial_budget_usd,
        run_budget_usd=run_budget_usd,
        trial_budget_tokens=trial_budget_tokens,
        run_budget_tokens=run_budget_tokens,
        model_requests=model_requests,
        model_tokens_per_minute=model_tokens_per_minute,
        driver=driver,
        attempts=attempts,
        concurrency=concurrency,
        retries=retries,
        timeout_multiplier=timeout_multiplier,
        grading=grading,
        integrity=integrity,
    )
    wanted: dict[str, list[str] | int | None] = {
        "ids": ids,
        "exclude": exclude,
        "categories": categories,
        "difficulties": difficulties,
        "tags": tags,
    }
    wanted |= {"languages": languages, "sample": sample, "seed": seed, "first": first}
    opened = _open(dataset, path, strict=strict)
    meant = _choose(wanted, opened)
    facts = _facts(options, meant, dataset=opened.name)
    if dry_run:
        from termarena.cli.planning import print_plan

        print_plan(options, meant, dataset=opened.name, json=json)
        return
    raise typer.Exit(_run(options, meant, facts, out=out, json=json))


def _refuse_model(agent: str) -> None:
    """Most agents that come with us take none. Raises UsageError."""
    from termarena.agents.registry import known_agents
    from termarena.core.errors import UsageError

    word = agent.partition(":")[0]
    if any(known.word.partition(":")[0] == word and known.kind != "model" for known in known_agents()):
        hint = "leave --model out, or take --agent tools"
        raise UsageError(f"the agent {agent} takes no model", hint=hint)


def _open(dataset: str | None, path: Path | None, *, strict: bool | None) -> Dataset:
    from termarena.core.errors import NotFound, UsageError
    from termarena.tasks import SAMPLES

    if dataset is not None and path is not None:
        raise UsageError("--dataset and --path name two sets of tasks", hint="give one of them")
    if path is not None and not path.exists():
        raise NotFound(f"nothing is at {path}", hint="a dataset that was pulled is named with --dataset")
    if dataset is None and path is None:
        say("no dataset was given: taking the bundled samples")
    return open_dataset(str(path) if path is not None else dataset or SAMPLES, strict=strict)


def _choose(wanted: Mapping[str, list[str] | int | None], dataset: Dataset) -> Meant:
    from termarena.cli.meaning import meant_by

    meant = meant_by(selection(**wanted), dataset)
    say_others([dataset])
    say_manifest(dataset)
    for name, broken in meant.broken.items():
        say(f"{name} does not load and will be unscored: {broken.error}")
    if meant.unjudged:
        names = ", ".join(Path(broken.path).name for broken in meant.unjudged[:5])
        say(f"left out, since they do not load ({len(meant.unjudged)}): {names}")
    return meant


def _run(options: RunOptions, meant: Meant, facts: RunFacts, *, out: Path | None, json: bool) -> int:
    import asyncio

    from termarena.cli.carrying import carry_out
    from termarena.cli.starting import new_folder
    from termarena.core.run_folder import RunFolder
    from termarena.core.settings import resolve_settings
    from termarena.runs.opening import start_run
    from termarena.runs.trials import Trials

    home = resolve_settings().settings.paths.home
    folder = RunFolder(out if out is not None else new_folder(options.agent))
    runner = Trials(options, home=home, run_id=folder.id)
    asyncio.run(runner.probe())
    opened = start_run(options, meant.tasks, folder, facts)
    say(
        f"{options.agent} on {len(meant.tasks)} tasks of {facts.dataset}: {opened.lock.trials} trials, in {folder.path}"
    )
    return carry_out(opened, runner, json=json)


def _facts(options: RunOptions, meant: Meant, *, dataset: str) -> RunFacts:
    import os
    import sys

    from termarena.cli.starting import version_of
    from termarena.runs.config_lock import BrokenTaskFacts, RunFacts, scrubbed

    broken = tuple(BrokenTaskFacts(id=name, path=one.path, problem=_problem(one)) for name, one in meant.broken.items())
    return RunFacts(
        agent_name=options.agent,
        agent_version=version_of(options, meant.tasks[0]),
        driver=_drivers(options, meant),
        dataset=dataset,
        argv=scrubbed(sys.argv, os.environ),
        broken=broken,
    )


def _drivers(options: RunOptions, meant: Meant) -> str:
    """The drivers that `auto` comes to, or the one that was asked for; `none` where nothing can run."""
    from termarena.core.errors import CapabilityMissing
    from termarena.core.settings import resolve_settings
    from termarena.sandbox.drivers import AUTO, choose_driver

    if options.driver != AUTO:
        return options.driver
    home = resolve_settings().settings.paths.home
    found = set()
    for task in meant.tasks:
        with suppress(CapabilityMissing):
            found.add(choose_driver(AUTO, task.environment, home=home).name)
    return " and ".join(sorted(found)) or "none"


def _problem(broken: BrokenTask) -> str:
    hint = broken.error.hint
    return f"{broken.error.message} ({hint})" if hint else broken.error.message
