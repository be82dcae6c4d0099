"""The floor that battles are fought on: drivers and start states that all share, and the room there is."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from termarena.agents.recording import Recording
from termarena.core.errors import BattleRefused
from termarena.core.scrub import Scrubber
from termarena.runs.judging import Judge
from termarena.runs.setting import Setting
from termarena.runs.state import TrialState
from termarena.runs.trial import Trial
from termarena.sandbox.drivers import choose_driver, open_driver
from termarena.sandbox.staging import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from termarena.agents.contract import Agent
    from termarena.battles.config import LimitSettings
    from termarena.core.run_folder import AttemptFolder
    from termarena.runs.plan import RunOptions, TrialPlan
    from termarena.runs.result import TrialResult
    from termarena.sandbox import Driver
    from termarena.tasks import Task

__all__ = ["BattleRunner", "Floor"]


class Floor:
    """Opened when the first trial needs it; `aclose` ends everything."""

    def __init__(self, limits: LimitSettings, *, home: Path) -> None:
        """`home` is where root file systems are kept."""
        self.limits = limits
        self._home = home
        self.scrubber = Scrubber.from_environment(os.environ)
        self._ground: dict[str, tuple[Driver, Stage]] = {}
        self._trials = asyncio.Semaphore(limits.trials_at_once)
        self._battles = asyncio.Semaphore(limits.battles_at_once)
        self._waiting = 0
        self._whites: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def battle(self) -> AsyncIterator[None]:
        """Room for a battle, after those that came before; raises `BattleRefused` where too many wait."""
        if self._battles.locked() and self._waiting >= self.limits.battles_waiting:
            limits = self.limits
            fought = f"{limits.battles_at_once} battles are fought and {limits.battles_waiting} wait"
            raise BattleRefused(f"there is no room: {fought}", hint="ask again later, or another green agent")
        self._waiting += 1
        try:
            await self._battles.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._battles.release()

    @contextlib.asynccontextmanager
    async def trial(self, white_url: str, *, most: int) -> AsyncIterator[None]:
        """Room for a trial, with its white agent and on this machine."""
        turn, users = self._whites.get(white_url, (asyncio.Semaphore(most), 0))
        self._whites[white_url] = (turn, users + 1)
        try:
            async with turn, self._trials:
                yield
        finally:
            turn, users = self._whites.pop(white_url)
            if users > 1:
                self._whites[white_url] = (turn, users - 1)

    def ground(self, options: RunOptions, task: Task) -> tuple[Driver, Stage]:
        """The driver of a task and its start states; raises `CapabilityMissing`."""
        name = choose_driver(options.driver, task.environment, home=self._home).name
        if name not in self._ground:
            driver = open_driver(name, home=self._home, run_id=f"green-{os.getpid()}")
            self._ground[name] = (driver, Stage(driver))
        return self._ground[name]

    async def aclose(self) -> None:
        """End every sandbox."""
        ground, self._ground = self._ground, {}
        for driver, stage in ground.values():
            await stage.aclose()
            await driver.aclose()


class BattleRunner:
    """The trials of one battle; see `TrialRunner`."""

    def __init__(
        self, floor: Floor, options: RunOptions, make_agent: Callable[[TrialPlan], Agent], *, run_id: str
    ) -> None:
        """`make_agent` makes the white agent of one trial."""
        self._floor = floor
        self._options = options
        self._make_agent = make_agent
        self._run_id = run_id
        self.scrubber = floor.scrubber
        """Takes secrets out of what is recorded."""

    async def run(self, plan: TrialPlan, task: Task, *, folder: AttemptFolder, retry: int) -> TrialResult:
        """One trial, when there is room for it; its clocks begin then."""
        options, floor = self._options, self._floor
        async with floor.trial(options.agent, most=options.concurrency or 1):
            state = TrialState(run_id=self._run_id, options=options, task=task, key=plan.key, retry=retry)
            recording = Recording(folder, self.scrubber)
            return await Trial(lambda: self._setting(plan, task), state, recording, scrubber=self.scrubber).run()

    def _setting(self, plan: TrialPlan, task: Task) -> Setting:
        driver, stage = self._floor.ground(self._options, task)
        judge = Judge(driver, stage, self._options, scrubber=self.scrubber)
        return Setting(self._options, driver, stage, judge, lambda _: self._make_agent(plan))

    async def aclose(self) -> None:
        """The floor stays for other battles."""
