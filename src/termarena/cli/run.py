"""`termarena run`: an agent on tasks."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from termarena.cli import fetch_options, run_options
from termarena.cli.choosing import (
    CategoryOption,
    DifficultyOption,
    ExcludeOption,
    LanguageOption,
    SeedOption,
    StrictOption,
    TagOption,
    TaskOption,
    given_for,
    open_dataset,
    say_manifest,
    say_others,
    selection,
)
from termarena.cli.fetch_options import FetchCommand
from termarena.cli.help import command_app
from termarena.cli.output import ExitStatus, JsonOption, failure_of, report_failure, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # Typer keeps its copy of Click private; needed to say what is overridden, and never at run time.
    from typer._click import Context, Parameter

    from termarena.cli.meaning import Meant
    from termarena.core.errors import TermArenaError
    from termarena.runs.config_lock import RunFacts
    from termarena.runs.plan import RunOptions
    from termarena.tasks import BrokenTask, Dataset, Selection

__all__ = ["app"]

app = command_app()


class _RunCommand(FetchCommand):
    """Typer has no option with a value that may be left out; `--sample` is one here, as are two for recordings."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """`--sample` without a number is `--dataset samples`. Raises UsageError for two values of one option."""
        words = fetch_options.with_folders(_with_samples(args))
        _, alone, given = self.make_parser(ctx).parse_args(args=[*words])
        _refuse_alone(alone)
        self._refuse_twice(given)
        return super().parse_args(ctx, words)

    @staticmethod
    def _refuse_twice(given: Sequence[Parameter]) -> None:
        """Of two values the last would be taken and the first forgotten without a word."""
        once = [
            option for option in given if not getattr(option, "multiple", True) and not getattr(option, "is_flag", True)
        ]
        twice = next((option for option in once if once.count(option) > 1), None)
        if twice is not None:
            from termarena.core.errors import UsageError

            each = "a run has one model; run each, then: termarena compare RUN RUN"
            raise UsageError(f"{twice.opts[0]} was given twice", hint=each if twice.name == "model" else "give it once")


def _refuse_alone(words: Sequence[str]) -> None:
    """A task is named by an option; whoever names it without one is told which."""
    if not words:
        return
    from termarena.core.errors import UsageError

    word, is_there = shlex.quote(words[0]), False
    with suppress(OSError):  # it need not be a name that a file can have
        is_there = Path(words[0]).exists()
    meant = f"--path {word}" if is_there else f"--task {word}"
    raise UsageError(f"{word} stands alone", hint=f"did you mean {meant}? --path is a folder of tasks, --task an id")


def _with_samples(arguments: list[str]) -> list[str]:
    if any(word.partition("=")[0] in ("--dataset", "-d", "--path", "-p") for word in arguments):
        return arguments
    for place, word in enumerate(arguments):
        is_alone = place + 1 == len(arguments) or arguments[place + 1].startswith("-")
        if word == "--sample" and is_alone:
            return [*arguments[:place], "--dataset", "samples", *arguments[place + 1 :]]
    return arguments


@app.command(cls=_RunCommand)
def run(  # noqa: PLR0913 - every option of the command is a parameter
    *,
    dataset: run_options.DatasetOption = None,
    path: run_options.PathOption = None,
    agent: run_options.AgentsOption = None,
    model: run_options.ModelOption = None,
    max_steps: run_options.MaxStepsOption = None,
    temperature: run_options.TemperatureOption = None,
    max_reply_tokens: run_options.MaxReplyTokensOption = None,
    examples: run_options.ExamplesOption = None,
    example_count: run_options.ExampleCountOption = 1,
    example_embeddings: run_options.ExampleEmbeddingsOption = None,
    tools: run_options.ToolsOption = None,
    trial_budget_usd: run_options.TrialBudgetUsdOption = None,
    run_budget_usd: run_options.RunBudgetUsdOption = None,
    trial_budget_tokens: run_options.TrialBudgetTokensOption = None,
    run_budget_tokens: run_options.RunBudgetTokensOption = None,
    model_requests: run_options.ModelRequestsOption = None,
    model_tokens_per_minute: run_options.ModelTokensPerMinuteOption = None,
    driver: run_options.DriverOption = "auto",
    engine: run_options.EngineOption = "local",
    address: run_options.AddressOption = "auto",
    attempts: run_options.AttemptsOption = 1,
    concurrency: run_options.ConcurrencyOption = None,
    retries: run_options.RetryOption = 2,
    timeout_multiplier: run_options.TimeoutMultiplierOption = 1.0,
    grading: run_options.GradingOption = "auto",
    integrity: run_options.IntegrityOption = "enforce",
    record_fetches: fetch_options.RecordFetchesOption = None,
    replay_fetches: fetch_options.ReplayFetchesOption = None,
    out: run_options.OutOption = None,
    arena: run_options.ArenaOption = None,
    dry_run: run_options.DryRunOption = False,
    ids: TaskOption = None,
    exclude: ExcludeOption = None,
    categories: CategoryOption = None,
    difficulties: DifficultyOption = None,
    tags: TagOption = None,
    languages: LanguageOption = None,
    sample: run_options.SampleOption = None,
    seed: SeedOption = 0,
    first: run_options.FirstOption = None,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """Run an agent on tasks, grade what it did, and report.

    \b
    termarena run --sample                           # the reference solutions on the bundled samples
    termarena run --agent tools --model openai:gpt-5-mini --run-budget-usd 5
    termarena run --agent cli:claude-code --model anthropic:claude-haiku-4-5   # in the sandbox
    termarena run --agent cli:codex --agent cli:aider --model ollama:qwen3   # a run for each of them
    termarena run --agent my_agents:Mine -k 3        # your own agent, three trials per task
    termarena run --path TASKS --task 'git-*' -n 4   # some tasks of a folder, four at once
    termarena run --dataset terminal-bench@2.0 --sample 10 --dry-run
    termarena run --sample --engine ray --address auto   # on a Ray cluster: docs/cluster.md
    termarena run --path TASKS --record-fetches      # keep downloads: docs/fetches.md
    termarena run --path TASKS --replay-fetches      # and do without a network from then on

    A task with a recipe for a plain file system runs on the embedded sandbox, any other in a container, or embedded
    where no engine answers. A folder that does not load does not stop the others: it is told, and its trials are
    unscored. Of several agents, one that cannot run is told, and the others run.

    Ctrl-C stops cleanly, a second one at once; `termarena resume` goes on. Exits 0 for a completed run whatever the
    score, 1 when nothing could be scored or the run's folder takes no more, 130 when interrupted.
    """
    given = locals()  # the parameters: what is not read below goes by its name into the options or the selection
    if example_embeddings is not None and not examples:
        from termarena.core.errors import UsageError

        raise UsageError("--example-embeddings chooses among examples", hint="name some: --examples RUN, or builtin")
    given["record_fetches"], given["replay_fetches"] = fetch_options.checked_fetches(record_fetches, replay_fetches)
    if driver == "auto" and (record_fetches is not None or replay_fetches is not None):
        given["driver"] = "namespace"  # an engine's own builder fetches past every recording
    agents = [*dict.fromkeys(agent or ["oracle"])]
    if out is not None and len(agents) > 1:
        from termarena.core.errors import UsageError

        raise UsageError("--out names the folder of one run", hint="leave it out: every agent's run gets its own")
    only = _options(given, agents[0]) if len(agents) == 1 else None  # what is wrong is told before tasks are read
    opened = _open(dataset, path, strict=strict)
    meant = _choose(selection(given), opened)
    if only is not None:
        raise typer.Exit(_one(only, _facts(only, meant, dataset=opened.name), meant, given))
    raise typer.Exit(_each(agents, meant, opened.name, given))


def _each(agents: Sequence[str], meant: Meant, dataset: str, given: Mapping[str, Any]) -> int:
    """A run for every agent; one that cannot run does not stop the others. The first status that is not 0, if any.

    What can be known of an agent without starting it is told before the first run.
    """
    from termarena.core.errors import TermArenaError

    ready: list[tuple[RunOptions, RunFacts]] = []
    found = 0
    for word in agents:
        try:
            options = _options(_own(given, word), word)
            ready.append((options, _facts(options, meant, dataset=dataset)))
        except TermArenaError as error:
            status = _tell_left_out(word, error, as_json=given["json"])
            found = found or status
    for options, facts in ready:
        try:
            status = _one(options, facts, meant, given)
        except TermArenaError as error:
            status = _tell_left_out(options.agent, error, as_json=given["json"])
        if status == ExitStatus.INTERRUPTED:
            return status
        found = found or status
    return found


def _own(given: Mapping[str, Any], agent: str) -> Mapping[str, Any]:
    """What was given, as far as it is for this one of several agents."""
    if given["model"] is None or not _takes_no_model(agent):
        return given
    say(f"{agent} takes no model: it runs without one")
    return {**given, "model": None}


def _tell_left_out(agent: str, error: TermArenaError, *, as_json: bool) -> int:
    report_failure(failure_of(error), as_json=as_json)
    say(f"{agent} does not run")
    return error.exit_status


def _options(given: Mapping[str, Any], agent: str) -> RunOptions:
    """Raises `UsageError`."""
    from termarena.cli.starting import options_of
    from termarena.runs.plan import RunOptions

    if given["model"] is not None:
        _refuse_model(agent, given["model"])
    return options_of(**given_for(RunOptions, {**given, "agent": agent}))


def _one(options: RunOptions, facts: RunFacts, meant: Meant, given: Mapping[str, Any]) -> int:
    """The run of one agent, or what it would be; its exit status."""
    if given["dry_run"]:
        from termarena.cli.planning import print_plan

        if options.engine != "local":
            say("a dry run does not ask the cluster: what is told is what this machine could do")
        print_plan(options, meant, dataset=facts.dataset, json=given["json"])
        return 0
    return _run(options, meant, facts, to=_Destination(given["out"], given["arena"]), json=given["json"])


def _refuse_model(agent: str, model: str) -> None:
    """Most agents that come with us take none, and not every model takes tools. Raises UsageError."""
    from termarena.core.errors import UsageError

    if _takes_no_model(agent):
        hint = "leave --model out, or take --agent tools"
        raise UsageError(f"the agent {agent} takes no model", hint=hint)
    if agent == "tools" and model.startswith("elizaos:"):
        raise UsageError("a runtime of ElizaOS takes no tools", hint="use --agent tools-text")


def _takes_no_model(agent: str) -> bool:
    from termarena.agents.registry import known_agents

    word = agent.partition(":")[0]
    return any(
        known.word.partition(":")[0] == word and known.kind not in ("model", "installed") for known in known_agents()
    )


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


def _choose(wanted: Selection, dataset: Dataset) -> Meant:
    from termarena.cli.meaning import meant_by

    meant = meant_by(wanted, dataset)
    say_others([dataset])
    say_manifest(dataset)
    for name, broken in meant.broken.items():
        say(f"{name} does not load and will be unscored: {broken.error}")
    if meant.unjudged:
        names = ", ".join(Path(broken.path).name for broken in meant.unjudged[:5])
        say(f"left out, since they do not load ({len(meant.unjudged)}): {names}")
    return meant


class _Destination(NamedTuple):
    """Where a run goes: its folder, if one was named, and an arena, if it is sent to one."""

    out: Path | None
    arena: str | None


def _run(options: RunOptions, meant: Meant, facts: RunFacts, *, to: _Destination, json: bool) -> int:
    import asyncio

    from termarena.cli.starting import begun, new_folder, runner_of
    from termarena.cli.submit import sending
    from termarena.core.run_folder import RunFolder

    folder = RunFolder(to.out if to.out is not None else new_folder(options.agent))
    runner = runner_of(options, run_id=folder.id)
    asyncio.run(runner.probe(meant.tasks))
    with sending(folder, to.arena):
        with begun(runner, meant.tasks[0]):
            # Imported now: the fork server takes as long to start.
            from termarena.cli.carrying import carry_out
            from termarena.reports.telling import count
            from termarena.runs.opening import start_run

            opened = start_run(options, meant.tasks, folder, facts)
        tasks, trials = count(len(meant.tasks), "task"), count(opened.lock.trials, "trial")
        say(f"{options.agent} on {tasks} of {facts.dataset}: {trials}, in {folder.path}")
        return carry_out(opened, runner, json=json, budget=runner.budget)


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

    if options.driver != AUTO or options.engine != "local":
        return options.driver  # what `auto` comes to on the nodes stands in each result
    home = resolve_settings().settings.paths.home
    found = set()
    for task in meant.tasks:
        with suppress(CapabilityMissing):
            found.add(choose_driver(AUTO, task.environment, home=home).name)
    return " and ".join(sorted(found)) or "none"


def _problem(broken: BrokenTask) -> str:
    hint = broken.error.hint
    return f"{broken.error.message} ({hint})" if hint else broken.error.message
