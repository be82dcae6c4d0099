"""The trials of one run: what they share, opened when the first needs it."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from termarena.agents.baseline import baseline_of, is_baseline
from termarena.agents.recording import Recording
from termarena.agents.registry import AgentOptions, is_installed, probe_agent, resolve_agent, takes_models
from termarena.core.errors import CapabilityMissing, SandboxError
from termarena.core.scrub import Scrubber
from termarena.grading.contract import Verdict
from termarena.runs.judging import Judge
from termarena.runs.machine import budget_here
from termarena.runs.recording import write_attempt
from termarena.runs.setting import Setting
from termarena.runs.state import TrialState
from termarena.runs.trial import Trial
from termarena.sandbox.drivers import check_driver, choose_driver, open_driver
from termarena.sandbox.staged import staging
from termarena.sandbox.staging import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from termarena.agents.contract import Agent
    from termarena.agents.installed.sharing import InstalledRun
    from termarena.core.run_folder import AttemptFolder
    from termarena.models import Brought, RunModels
    from termarena.runs.machine import Budget
    from termarena.runs.plan import RunOptions, TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.tasks import Task

__all__ = ["Trials"]


@runtime_checkable
class _Begins(Protocol):
    def begin(self) -> None: ...


class Trials:
    """Carries out trials; see `TrialRunner`. Drivers and start states are shared and end with `aclose`."""

    def __init__(
        self,
        options: RunOptions,
        *,
        home: Path,
        run_id: str,
        on_log: Callable[[str], None] | None = None,
        agent_options: AgentOptions | None = None,
        brought: Brought | None = None,
    ) -> None:
        """`agent_options` say what agents get beyond their word; `brought` is there where the run goes on.

        Raises `UsageError` for a baseline that is none, `NotFound` for examples of a run or a file of tools
        that is not there.
        """
        self._options = options
        self._home = home
        self._run_id = run_id
        self._on_log = on_log
        self._brought = brought
        self._models = _models(options, brought) if _may_ask(options) else None
        given = agent_options or _agent_options(options, self._models, brought)
        models = given.models or self._models
        self._installed = _installed(models, home) if models is not None and is_installed(options.agent) else None
        self._agent_options = replace(given, installed=self._installed)
        self._baseline = baseline_of(options.agent) if is_baseline(options.agent) else None
        self.scrubber = Scrubber.from_environment(os.environ)
        self._settings: dict[str, Setting] = {}
        self._held = ExitStack()

    @property
    def budget(self) -> Budget:
        """What trials may use together: this machine's."""
        return budget_here()

    async def probe(self, tasks: Sequence[Task] = ()) -> None:
        """Look whether the driver's engine, the model's endpoint and an agent elsewhere are there, before any start.

        An installed agent is installed for those of the tasks that lie on this machine's own files. Nothing is asked of
        the model. Raises what `check_driver` raises, `ModelUnavailable` and its kind, what `RunModels.check` raises,
        `AgentNotInstalled`, and what `probe_agent` raises.
        """
        if self._baseline is None:
            await asyncio.to_thread(check_driver, self._options.driver)
            await probe_agent(self._options.agent)
        if self._options.model is None or not takes_models(self._options.agent):
            return
        models = _models(self._options, self._brought)
        try:
            await models.probe(self._options.model)
            if self._options.example_embeddings is not None:
                await models.probe(self._options.example_embeddings)
        finally:
            await models.aclose()
        if self._installed is not None and any(self._is_embedded(task) for task in tasks):
            await _install(self._options.agent, self._home)

    def _is_embedded(self, task: Task) -> bool:
        try:
            return choose_driver(self._options.driver, task.environment, home=self._home).name == "namespace"
        except CapabilityMissing:
            return False

    def begin(self, task: Task) -> None:
        """Have what a trial at this task waits for first start now, while the caller goes on; `aclose` ends it.

        What goes wrong here is left for the trial to tell, which tries again.
        """
        if self._baseline is not None or not self._is_embedded(task):
            return
        with suppress(SandboxError, OSError):
            driver = self.setting_on("namespace").driver
            if isinstance(driver, _Begins):
                driver.begin()

    async def __aenter__(self) -> Self:
        """Nothing starts yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything."""
        await self.aclose()

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int = 0) -> TrialResult:
        """One trial; raises `CancelledError` after its clean-up, and `OSError` from the run folder."""
        folder.path.mkdir(parents=True, exist_ok=True)
        state = TrialState(run_id=self._run_id, options=self._options, task=task, key=plan.key, retry=retry)
        recording = Recording(folder, self.scrubber)
        if self._baseline is not None:
            reward = float(self._baseline.passes(task.id, plan.key.attempt))
            state.end, state.verdict = "submitted", Verdict(reward=reward, graded_in="baseline")
            return write_attempt(folder, state, recording.finish(), self.scrubber)
        return await Trial(lambda: self._setting_for(task), state, recording, scrubber=self.scrubber).run()

    def _setting_for(self, task: Task) -> Setting:
        """The driver that this task runs on; raises `CapabilityMissing` where none can."""
        return self.setting_on(choose_driver(self._options.driver, task.environment, home=self._home).name)

    def setting_on(self, driver_name: str) -> Setting:
        """What trials on one driver share; raises `NotFound` for a driver that there is not."""
        if driver_name not in self._settings:
            driver = open_driver(driver_name, home=self._home, run_id=self._run_id, on_log=self._on_log)
            with suppress(OSError):  # a home that cannot be used: the driver says so, and what is to be done
                self._held.enter_context(staging())
            options = self._options
            stage = Stage(driver, build_timeout_multiplier=options.timeout_multiplier, fetches=options.fetch_plan)
            judge = Judge(driver, stage, self._options, scrubber=self.scrubber)
            self._settings[driver_name] = Setting(self._options, driver, stage, judge, self._make_agent)
        return self._settings[driver_name]

    def _make_agent(self, task: Task) -> Agent:
        return resolve_agent(self._options.agent, task=task, options=self._agent_options)()

    async def aclose(self) -> None:
        """End every sandbox and give back every start state."""
        if self._installed is not None:
            await self._installed.aclose()
        if self._models is not None:
            await self._models.aclose()
        settings, self._settings = self._settings, {}
        for setting in settings.values():
            await setting.stage.aclose()
            await setting.driver.aclose()
        self._held.close()


def _may_ask(options: RunOptions) -> bool:
    """Whether a model may be asked; and what only such agents need is looked at for every agent that it is given to."""
    given = options.examples or options.tools or options.example_embeddings
    return bool(given) or takes_models(options.agent)


def _models(options: RunOptions, brought: Brought | None) -> RunModels:
    from termarena.models import RunModels  # noqa: PLC0415 - most words ask no model
    from termarena.runs.asking import limits_of  # noqa: PLC0415 - as above

    return RunModels(limits_of(options), brought=brought)


def _agent_options(options: RunOptions, models: RunModels | None, brought: Brought | None) -> AgentOptions:
    """Raises what `loop_of` raises."""
    places = brought.places if brought is not None else {}
    given = AgentOptions(model=options.model, models=models, places=places)
    if models is None:
        return given
    from termarena.runs.asking import loop_of  # noqa: PLC0415 - as above

    return replace(given, loop=loop_of(options, models, places))


async def _install(word: str, home: Path) -> None:
    from termarena.agents.installed.description import describe  # noqa: PLC0415 - as below
    from termarena.agents.installed.layers import Layers  # noqa: PLC0415 - as below

    driver = open_driver("namespace", home=home, run_id="agents")
    try:
        await Layers(home).on_host_root(describe(word.partition(":")[2]), driver)
    finally:
        await driver.aclose()


def _installed(models: RunModels, home: Path) -> InstalledRun:
    from termarena.agents.installed.sharing import InstalledRun  # noqa: PLC0415 - most runs do without a broker

    return InstalledRun(models, home)
