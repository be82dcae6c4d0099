"""`TerminalBenchRunner`: a TermArena run, asked for and told in ElizaOS's words."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from elizaos_terminal_bench.config import TerminalBenchConfig
from elizaos_terminal_bench.dataset import TerminalBenchDataset, home_of
from elizaos_terminal_bench.evaluator import TerminalBenchEvaluator
from elizaos_terminal_bench.leaderboard import compare
from elizaos_terminal_bench.runtime_model import RUNTIME_WORD, RuntimeModels
from elizaos_terminal_bench.sessions import result_of
from elizaos_terminal_bench.writing import OutputFiles, write_files
from termarena import __version__
from termarena.agents.mind import LoopOptions
from termarena.agents.registry import AgentOptions
from termarena.cli.carrying import make_report
from termarena.cli.live import trial_line
from termarena.cli.meaning import meant_by
from termarena.cli.starting import options_of, version_of
from termarena.core.errors import CapabilityMissing, UsageError
from termarena.models import Sampling
from termarena.runs.config_lock import BrokenTaskFacts, RunFacts, scrubbed
from termarena.runs.listening import Quiet
from termarena.runs.opening import start_run
from termarena.runs.plan import RunOptions
from termarena.runs.reading import read_run
from termarena.runs.running import execute
from termarena.runs.trials import Trials
from termarena.sandbox.drivers import choose_driver
from termarena.tasks import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from elizaos_terminal_bench.types import TerminalBenchReport, TerminalBenchResult
    from termarena.cli.meaning import Meant
    from termarena.models.elizaos import Runtime
    from termarena.reports import Report
    from termarena.runs.engine import Job
    from termarena.runs.listening import Progress
    from termarena.runs.reading import RunView
    from termarena.runs.result import TrialSummary
    from termarena.tasks import Task

__all__ = ["RunPlan", "TerminalBenchRunner", "run_terminal_bench"]

logger = logging.getLogger("elizaos_terminal_bench")


class RunPlan(NamedTuple):
    """What a run would be."""

    options: RunOptions
    meant: Meant
    dataset: str


class TerminalBenchRunner:
    """Runs tasks and reports. Everything that is wrong with what was asked for is told before anything starts."""

    def __init__(
        self,
        runtime: Runtime | None = None,
        config: TerminalBenchConfig | None = None,
        *,
        data_path: Path | str | None = None,
        output_path: Path | str | None = None,
    ) -> None:
        """Either a `config`, or the two paths that one would hold.

        `runtime` is an ElizaOS runtime, whose model is asked unless the config says otherwise. Raises UsageError for
        both forms at once, and for a model beside the runtime's.
        """
        if config is not None and (data_path, output_path) != (None, None):
            raise UsageError("config and the paths beside it say the same things", hint="set them in the config")
        if runtime is not None and config is not None and config.model_name is not None:
            raise UsageError("the runtime and model_name name two models", hint="give one of them")
        self.runtime = runtime
        self.config = config or TerminalBenchConfig(data_path=data_path)
        if output_path is not None:
            self.config = replace(self.config, output_dir=output_path)
        self.dataset: TerminalBenchDataset | None = None
        self.evaluator = TerminalBenchEvaluator()

    async def setup(self, use_sample_tasks: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature that users know
        """Load the tasks. Raises NotFound where there are none; the samples are taken only when asked for."""
        self.dataset = await self._load(use_sample_tasks=use_sample_tasks)

    async def _load(self, *, use_sample_tasks: bool) -> TerminalBenchDataset:
        config = self.config
        dataset = TerminalBenchDataset(
            config.data_path, config.version, use_sample_tasks=use_sample_tasks, cache_dir=config.cache_dir
        )
        await dataset.load()
        return dataset

    async def run(
        self,
        categories: Sequence[str] | None = None,
        difficulties: Sequence[str] | None = None,
        task_ids: Sequence[str] | None = None,
        max_tasks: int | None = None,
    ) -> TerminalBenchReport:
        """Run the chosen tasks and write the files; what is not given is as the config says.

        A dry run starts and writes nothing: its report has no results and no accuracy. Raises UsageError, NotFound and
        what a run raises; KeyboardInterrupt when a signal stopped it, and `termarena resume` goes on with it.
        """
        plan = await self.plan(categories, difficulties, task_ids, max_tasks)
        if self.config.dry_run:
            return self.evaluator.create_report([], 0.0, metadata={**self._metadata(plan), "dry_run": True})
        return await self._carry_out(plan)

    async def run_single(self, task_id: str) -> TerminalBenchResult:
        """Run one task; its files are written as those of any run. Raises as `run` does, UsageError for a dry run."""
        if self.config.dry_run:
            raise UsageError("a dry run has no result", hint="ask for the plan: runner.plan(task_ids=[…])")
        return (await self.run(task_ids=[task_id])).results[0]

    async def plan(
        self,
        categories: Sequence[str] | None = None,
        difficulties: Sequence[str] | None = None,
        task_ids: Sequence[str] | None = None,
        max_tasks: int | None = None,
    ) -> RunPlan:
        """What `run` would do. Raises UsageError and NotFound for what cannot be done; an unknown name is an error."""
        options = self._options()
        config = self.config
        if self.dataset is None:
            self.dataset = await self._load(use_sample_tasks=False)
        dataset = self.dataset
        if max_tasks is not None and max_tasks < 1:
            raise UsageError(f"max_tasks must be greater than zero, not {max_tasks}", hint="leave it out for no limit")
        wanted = Selection(
            ids=_either("task_ids", task_ids, config.task_ids),
            categories=_either("categories", categories, config.categories),
            difficulties=_either("difficulties", difficulties, config.difficulties),
            first=max_tasks or config.max_tasks,
        )
        meant = meant_by(wanted, dataset.source)
        for broken in meant.unjudged:
            logger.warning("%s does not load and is left out: %s", broken.path, broken.error)
        _version(options, meant.tasks[0])  # an agent or a model that is none is told now
        return RunPlan(options, meant, dataset.public_name or dataset.source.name)

    @property
    def _asked_runtime(self) -> Runtime | None:
        return None if self.config.asks_no_model else self.runtime

    def _options(self) -> RunOptions:
        config = self.config
        model = config.model if self._asked_runtime is None else RUNTIME_WORD
        if model is None and not config.asks_no_model:
            logger.warning("no model and no harness was named: the reference solutions run, as with --oracle")
        word = config.agent(has_model=model is not None)
        default_s = RunOptions.model_fields["default_timeout_s"].default
        return options_of(
            # A runtime takes one text and gives one back: there is no place for tool calls.
            agent="tools-text" if model == RUNTIME_WORD else word,
            model=model,
            max_steps=config.max_iterations,
            temperature=config.temperature,
            driver=config.driver,
            concurrency=config.parallel_tasks,
            keep_state=config.save_detailed_logs,
            default_timeout_s=config.timeout_per_task_seconds or default_s,
        )

    def _trials(self, plan: RunPlan, run_id: str, home: Path) -> Trials:
        options, runtime = plan.options, self._asked_runtime
        if runtime is None:
            return Trials(options, home=home, run_id=run_id)
        loop = LoopOptions(
            max_steps=options.max_steps or LoopOptions().max_steps, sampling=Sampling(temperature=options.temperature)
        )
        asked = AgentOptions(model=options.model, models=RuntimeModels(runtime), loop=loop)
        return Trials(options, home=home, run_id=run_id, agent_options=asked)

    async def _carry_out(self, plan: RunPlan) -> TerminalBenchReport:
        home = home_of(self.config.cache_dir)
        files = OutputFiles.new(self.config.output_dir)
        runner = self._trials(plan, files.run.id, home)
        if plan.options.model not in (None, RUNTIME_WORD):
            await runner.probe()
        opened = await asyncio.to_thread(start_run, plan.options, plan.meant.tasks, files.run, _facts(plan, home))
        began_s = monotonic()
        with opened:
            end = await execute(opened, runner, _Logged(is_verbose=self.config.verbose))
        took_s = monotonic() - began_s
        view = read_run(files.run)
        core = make_report(view)
        if end.reason == "interrupted":
            raise KeyboardInterrupt(f"interrupted; go on with it: termarena resume {files.run.path}")
        report = self._report(plan, view, core, took_s)
        write_files(report, files, self.config)
        return report

    def _report(self, plan: RunPlan, view: RunView, core: Report, took_s: float) -> TerminalBenchReport:
        known = {task.task_id: task for task in self.dataset or ()}
        results = []
        for key in view.lock.trial_keys():
            summary = view.history.summary(key)
            if summary is not None:
                folder = view.folder.attempt(*key, retry=summary.retry)
                results.append(result_of(summary, folder, known.get(key.task_id)))
        name = self.dataset.public_name if self.dataset is not None else None
        return self.evaluator.create_report(
            results,
            took_s,
            metadata={"timestamp": core.started_at, **self._metadata(plan), "run_folder": str(view.folder.path)},
            leaderboard_comparison=compare(core, name) if self.config.compare_leaderboard else None,
        )

    def _metadata(self, plan: RunPlan) -> dict[str, str | int | float | bool | None]:
        is_sample = self.dataset is not None and self.dataset.use_sample_tasks
        has_version = self.config.data_path is None and not is_sample
        return {
            "version": self.config.version if has_version else None,
            "model": plan.options.model or plan.options.agent,
            "agent": plan.options.agent,
            "max_iterations": plan.options.max_steps,
            "sample_tasks": is_sample,
            "dataset": plan.dataset,
            "termarena": __version__,
        }


async def run_terminal_bench(
    config: TerminalBenchConfig | None = None,
    use_sample_tasks: bool = False,  # noqa: FBT001, FBT002 - the signature that users know
) -> TerminalBenchReport:
    """A whole run in one call; raises as `TerminalBenchRunner` does."""
    runner = TerminalBenchRunner(config=config)
    await runner.setup(use_sample_tasks)
    return await runner.run()


class _Logged(Quiet):
    """Says in the log what happens."""

    def __init__(self, *, is_verbose: bool) -> None:
        self._is_verbose = is_verbose

    def trial_started(self, job: Job, progress: Progress) -> None:
        if self._is_verbose:
            logger.info("%s/%s  started   %s", progress.done + progress.running, progress.total, job.plan.key.task_id)

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        logger.info("%s/%s  %s", progress.done, progress.total, trial_line(summary))

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        logger.info("%s; again in %.0f s (%s left)", trial_line(summary), wait_s, progress.left)

    def notice(self, text: str) -> None:
        logger.warning("%s", text)


def _either(name: str, given: Sequence[str] | None, configured: Sequence[str] | None) -> tuple[str, ...]:
    if given is not None and not list(given):
        raise UsageError(f"{name} is empty, which would choose nothing", hint="leave it out for all")
    chosen = given if given is not None else configured
    return tuple(map(str, chosen or ()))


def _facts(plan: RunPlan, home: Path) -> RunFacts:
    broken = tuple(
        BrokenTaskFacts(id=name, path=one.path, problem=str(one.error)) for name, one in plan.meant.broken.items()
    )
    return RunFacts(
        agent_name=plan.options.agent,
        agent_version=_version(plan.options, plan.meant.tasks[0]),
        driver=_drivers(plan.options.driver, plan.meant.tasks, home),
        dataset=plan.dataset,
        argv=scrubbed(sys.argv, os.environ),
        broken=broken,
    )


def _version(options: RunOptions, task: Task) -> str:
    """Raises NotFound or UsageError for an agent or a model that there is not."""
    return __version__ if options.model == RUNTIME_WORD else version_of(options, task)


def _drivers(word: str, tasks: Sequence[Task], home: Path) -> str:
    """Those that the tasks come to; `none` where nothing can run them."""
    found = set()
    for task in tasks:
        with suppress(CapabilityMissing):
            found.add(choose_driver(word, task.environment, home=home).name)
    return " and ".join(sorted(found)) or "none"
