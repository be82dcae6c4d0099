"""What `run`, `resume` and `play` share of beginning."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.models import Brought, RunModels
    from termarena.runs.cluster.runner import RayTrials
    from termarena.runs.plan import RunOptions
    from termarena.runs.trials import Trials
    from termarena.tasks import Task

__all__ = ["begun", "elsewhere", "new_folder", "options_of", "runner_of", "version_of"]

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST_WORD = 40


def options_of(**values: object) -> RunOptions:
    """The run's options. Raises UsageError for a value that cannot be, NotFound for a driver that there is not."""
    from pydantic import ValidationError

    from termarena.core.errors import NotFound, UsageError
    from termarena.runs.plan import RunOptions
    from termarena.sandbox.drivers import AUTO, DRIVERS

    if values["driver"] not in (AUTO, *DRIVERS):
        raise NotFound(f"no driver is called {values['driver']}", known=(AUTO, *DRIVERS))
    try:
        return RunOptions.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from error


def version_of(options: RunOptions, task: Task) -> str:
    """What the agent calls its version, `unknown` where it has no way to try this task.

    Raises NotFound or UsageError for a word that names no agent here: better now than in every trial.
    """
    from termarena import __version__
    from termarena.agents.baseline import is_baseline
    from termarena.agents.registry import AgentOptions, resolve_agent
    from termarena.core.errors import TaskError

    if is_baseline(options.agent):
        return __version__
    try:
        given = AgentOptions(model=options.model, models=_models_of(options))
        made = resolve_agent(options.agent, task=task, options=given)
    except TaskError:
        return "unknown"
    return made().version


def _models_of(options: RunOptions) -> RunModels | None:
    from termarena.agents.registry import takes_models

    if not takes_models(options.agent):
        return None
    from termarena.models import RunModels
    from termarena.runs.asking import limits_of

    return RunModels(limits_of(options))


def runner_of(options: RunOptions, *, run_id: str, brought: Brought | None = None) -> Trials | RayTrials:
    """What carries the run's trials out, on its engine; `brought` is there where the run goes on.

    Raises what the two raise.
    """
    if options.engine == "ray":
        from termarena.cli.output import say
        from termarena.runs.cluster.runner import RayTrials

        return RayTrials(options, run_id=run_id, brought=brought, on_log=say)
    from termarena.core.settings import resolve_settings
    from termarena.runs.trials import Trials

    return Trials(options, home=resolve_settings().settings.paths.home, run_id=run_id, brought=brought)


@contextmanager
def begun(runner: Trials | RayTrials, task: Task) -> Iterator[None]:
    """What the first trial waits for starts while the block prepares the run; it is ended if that fails."""
    import asyncio

    from termarena.runs.trials import Trials

    if isinstance(runner, Trials):
        runner.begin(task)
    try:
        yield
    except BaseException:
        asyncio.run(runner.aclose())
        raise


def elsewhere(options: RunOptions, *, engine: str | None, address: str | None) -> RunOptions:
    """The options of a run that goes on with another engine, or on another cluster, where one is named."""
    named = {"engine": engine, "address": address}
    return options.model_copy(update={name: value for name, value in named.items() if value is not None})


def new_folder(agent: str) -> Path:
    """`runs/2026-11-15T10-00-00Z-oracle`, or with a number behind it where that is taken."""
    from datetime import UTC, datetime

    from termarena.cli.finding import free_place

    word = _ODD.sub("-", agent.rpartition("/")[2]).strip("-.")[:LONGEST_WORD] or "agent"
    name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{word}"
    return free_place(name)
