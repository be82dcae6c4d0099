"""The referee: carries battles out, each a run of its own, and leaves a folder that every other command reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from termarena import __version__
from termarena.battles.backend import Backend, BattleOver
from termarena.battles.doors import Doors
from termarena.battles.floor import BattleRunner, Floor
from termarena.battles.orders import with_config
from termarena.battles.results import result_of, summary_text
from termarena.battles.session import SessionLimits, Tally
from termarena.battles.white_agent import WhiteAgent, WhiteOptions
from termarena.core.ending import end_tasks
from termarena.core.errors import AddressRefused, AgentGone, BattleRefused, FetchError, NotFound
from termarena.core.records import write_record
from termarena.core.run_folder import RunFolder
from termarena.core.scrub import Scrubber
from termarena.runs.config_lock import RunFacts
from termarena.runs.listening import Quiet
from termarena.runs.machine import Budget
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.running import execute, start_run
from termarena.tasks import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from termarena.agents.contract import Brief
    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.config import GreenConfig
    from termarena.battles.orders import Order
    from termarena.core.records import Json
    from termarena.runs.engine import Job
    from termarena.runs.listening import Progress
    from termarena.runs.plan import TrialPlan
    from termarena.runs.result import TrialSummary
    from termarena.tasks import Task

__all__ = ["Referee"]

PLENTY: Final = Budget(cpus=1e9, memory_mb=1 << 40)
"""Room is given by the floor, for all battles together."""
REFEREE: Final = "green_agent"
"""What backends call us."""
DRAW: Final = "draw"
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True)
class _Watch(Quiet):
    """Says what happens, in words, and keeps how each trial ended."""

    say: Callable[[str], None]
    summaries: dict[TrialKey, TrialSummary] = field(default_factory=dict)

    def trial_started(self, job: Job, progress: Progress) -> None:
        self.say(
            f"{job.plan.key.task_id}: attempt {job.plan.key.attempt} begins ({progress.done} of {progress.total} done)"
        )

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        self.summaries[TrialKey(summary.task_id, summary.attempt)] = summary
        words = "" if summary.outcome == "solved" else f" ({summary.failure_mode})"
        self.say(f"{summary.task_id}: {summary.outcome}{words}; {progress.done} of {progress.total} done")

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        del progress
        self.say(f"{summary.task_id}: {summary.message or 'unscored'}; again in {wait_s:.0f} s")


class Referee:
    """What all battles of one green agent share. `aclose` ends everything."""

    def __init__(
        self, config: GreenConfig, tasks: Sequence[Task], *, dataset: str, out: Path, home: Path, policy: AddressPolicy
    ) -> None:
        """Battles are kept in `out`. Raises `NotFound` where the configuration names tasks that are not there."""
        chosen = Selection(ids=config.tasks.include, exclude=config.tasks.exclude)
        self._tasks = chosen.choose(tasks)
        self._config = config
        self._dataset = dataset
        self._out = out
        self.policy = policy
        self._floor = Floor(config.limits, home=home)
        self.doors = Doors()
        self._white = replace(_white_options(config, policy), open_door=self.doors.open)

    async def fight(self, order: Order, say: Callable[[str], None]) -> dict[str, Json]:
        """Carry a battle out; what it came to. `say` is told in words what happens, and must not block.

        Raises `BattleRefused` before anything is written. Cancelled, it ends every trial first.
        """
        if order.others:
            named = ", ".join((order.white_name, *order.others))
            raise BattleRefused(f"one white agent fights here at a time, not {named}", hint="a battle for each of them")
        tasks = self._choose(order)
        async with self._floor.battle():
            return await self._fight(order, tasks, say)

    def _choose(self, order: Order) -> tuple[Task, ...]:
        wanted = order.wanted
        try:
            chosen = Selection(ids=wanted.ids, exclude=wanted.exclude).choose(self._tasks)
        except NotFound as error:
            raise BattleRefused(error.message, hint=error.hint) from error
        chosen = chosen[wanted.shard_index :: wanted.num_shards][: wanted.first]
        if not chosen:
            raise BattleRefused(f"shard {wanted.shard_index} of {wanted.num_shards} holds no task")
        if len(chosen) * wanted.attempts > self._config.limits.most_trials:
            raise BattleRefused(f"that is more than {self._config.limits.most_trials} trials")
        return chosen

    async def _fight(self, order: Order, tasks: tuple[Task, ...], say: Callable[[str], None]) -> dict[str, Json]:
        folder = self._folder(order.battle_id)
        options = self._run_options(order)
        facts = RunFacts(
            agent_name=options.agent, agent_version=__version__, driver=options.driver, dataset=self._dataset
        )
        watch, tallies = _Watch(say), dict[TrialKey, Tally]()
        runner = BattleRunner(self._floor, options, self._maker(order, tallies), run_id=folder.id)
        runner.scrubber = self._scrubber(order)
        run = await asyncio.to_thread(start_run, options, tasks, folder, facts)
        stopped: dict[str, Json] = {}
        with run:
            try:
                await execute(run, runner, watch, budget=PLENTY, takes_signals=False)
            except AgentGone as error:  # what was not tried is told as such
                stopped["stopped"] = error.message
            summaries = [watch.summaries[key] for key in run.lock.trial_keys() if key in watch.summaries]
        result = result_of(order, summaries, tallies, {task.id: task for task in tasks}) | stopped
        await asyncio.to_thread(self._keep, folder, order, result)
        return result

    def _folder(self, battle_id: str) -> RunFolder:
        name = f"battle_{_ODD.sub('-', battle_id)[:80] or 'unnamed'}"
        folder, number = self._out / name, 1
        while folder.exists():
            number += 1
            folder = self._out / f"{name}-{number}"
        folder.mkdir(parents=True)
        return RunFolder(folder)

    def _run_options(self, order: Order) -> RunOptions:
        limits, config = self._config.limits, self._config
        parallel = min(order.wanted.max_parallel or limits.trials_per_white, limits.trials_at_once)
        return RunOptions(
            agent=f"a2a:{order.white_url}",
            driver=config.driver,
            attempts=order.wanted.attempts,
            concurrency=parallel,
            retries=limits.retries,
            timeout_multiplier=config.tasks.timeout_multiplier * order.wanted.timeout_multiplier,
            cpus=config.tasks.cpus,
            memory_mb=config.tasks.memory_mb,
        )

    def _maker(self, order: Order, tallies: dict[TrialKey, Tally]) -> Callable[[TrialPlan], WhiteAgent]:
        def make(plan: TrialPlan) -> WhiteAgent:
            def ended(brief: Brief, tally: Tally) -> None:
                tallies[plan.key] = tally if not brief.step else tally.plus(tallies.get(plan.key))

            headers = {"Authorization": f"Bearer {order.white_key}"} if order.white_key else {}
            return WhiteAgent(order.white_url, replace(self._white, ended=ended, headers=headers))

        return make

    def _scrubber(self, order: Order) -> Scrubber:
        """What takes the secrets of the environment out of everything, and the white agent's key."""
        if order.white_key is None:
            return self._floor.scrubber
        return Scrubber.from_environment({**os.environ, "WHITE_KEY": order.white_key})

    def _keep(self, folder: RunFolder, order: Order, result: dict[str, Json]) -> None:
        about: dict[str, Json] = {"white_url": order.white_url, "role": order.role, "backend_url": order.backend_url}
        payload = self._scrubber(order).scrub_json({**about, "result": result})
        if isinstance(payload, dict):
            write_record(folder.path / "battle.json", "battle", payload)

    # With a backend.

    async def fight_and_report(self, order: Order, say: Callable[[str], None]) -> dict[str, Json]:
        """The same, reported to the order's backend as it goes, where there is one. A backend that does not answer
        takes nothing from the result.

        Raises `BattleRefused` too where the backend has ended the battle: nothing that follows counts.
        """
        if order.backend_url is None:
            return await self.fight(order, say)
        backend = Backend(order.backend_url, self.policy)
        try:
            result = await self._told(order, backend, say)
            table = "\n".join(_table(result))
            with contextlib.suppress(FetchError, AddressRefused):
                await backend.report(
                    order.battle_id, summary_text(result), winner=_winner(order, result), detail=result, table=table
                )
        except BattleOver as error:
            raise BattleRefused(f"the backend does not know the battle {order.battle_id} any more: {error}") from error
        return result

    async def fight_for_backend(self, order: Order, say: Callable[[str], None]) -> None:
        """The same for an order whose configuration the backend keeps; a refusal is reported there as a draw."""
        assert order.backend_url is not None  # noqa: S101 - the caller looked
        backend = Backend(order.backend_url, self.policy)
        with contextlib.suppress(BattleOver, FetchError, AddressRefused):
            try:
                order = with_config(order, await backend.config_of(order.battle_id))
                await self.fight_and_report(order, say)
            except BattleRefused as error:
                refusal = f"{error.message}{f' ({error.hint})' if error.hint else ''}"
                await backend.report(order.battle_id, refusal, winner=DRAW, detail={}, table="")

    async def _told(self, order: Order, backend: Backend, say: Callable[[str], None]) -> dict[str, Json]:
        """The battle, its words posted as they come; it is ended when the backend has ended it."""
        words: asyncio.Queue[str | None] = asyncio.Queue()

        def heard(text: str) -> None:
            say(text)
            words.put_nowait(text)

        async def post() -> None:
            while (text := await words.get()) is not None:
                with contextlib.suppress(FetchError, AddressRefused):
                    await backend.tell(order.battle_id, text)

        fought = asyncio.create_task(self.fight(order, heard))
        posting = asyncio.create_task(post())
        try:
            await asyncio.wait({fought, posting}, return_when=asyncio.FIRST_COMPLETED)
            words.put_nowait(None)
            await posting  # BattleOver: nothing that follows counts
            return await fought
        finally:
            await end_tasks(fought, posting)

    async def aclose(self) -> None:
        """End every sandbox."""
        await self._floor.aclose()


def _white_options(config: GreenConfig, policy: AddressPolicy) -> WhiteOptions:
    session = config.session
    limits = SessionLimits(
        default_timeout_s=session.default_timeout_s,
        max_timeout_s=session.max_timeout_s,
        max_output_bytes=session.max_output_bytes,
        max_file_bytes=session.max_file_bytes,
        max_turns=session.max_turns,
    )
    usual = WhiteOptions()
    patience = replace(usual.patience, first_contact_s=session.first_contact_s)
    return WhiteOptions(policy=policy, patience=patience, limits=limits)


def _winner(order: Order, result: dict[str, Json]) -> str:
    """As backends have it; nobody's where nothing could be scored."""
    if result["unscored"] == result["max_score"]:
        return DRAW
    return order.white_name if result["score"] == result["max_score"] else REFEREE


def _table(result: dict[str, Json]) -> Iterator[str]:
    yield "| task | attempt | outcome | failure | commands |"
    yield "|---|---|---|---|---|"
    rows = result["rows"]
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            cells = (row["task_id"], row["attempt"], row["outcome"], row["failure_mode"], row["n_commands"])
            yield f"| {' | '.join(map(str, cells))} |"
