"""One trial: prepare → work → seal → grade → record.

Each phase has its clock. Whatever a task, an agent or the machine does becomes a `TrialResult`; the only errors that
leave a trial are its cancellation and a run folder that cannot be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.agents.contract import AgentReport, Brief, Elsewhere, Ground, Metered, Resident
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import AgentGone, ClusterError, SandboxError
from termarena.core.trajectory import TrajectoryAgent
from termarena.grading.integrity import examine
from termarena.grading.steps import combine, goes_on
from termarena.models.errors import ModelUnavailable
from termarena.runs.clocks import Clocks
from termarena.runs.faults import blame, describe, has_exhausted_resources, is_machinery, last_usage
from termarena.runs.judging import Case, is_live_evidence, under_limits, under_policy
from termarena.runs.recording import keep_state, write_attempt
from termarena.runs.steps import Leg, lay_step, legs_of
from termarena.sandbox.contention import take_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.agents.contract import Agent, AgentEnd, Usage
    from termarena.agents.recording import Recording
    from termarena.core.run_folder import AttemptFolder
    from termarena.core.scrub import Scrubber
    from termarena.runs.result import TrialResult
    from termarena.runs.setting import Setting
    from termarena.runs.state import TrialState
    from termarena.sandbox import Sandbox

__all__ = ["Trial"]


class Trial:
    """One attempt of one agent at one task."""

    def __init__(
        self, setting: Callable[[], Setting], state: TrialState, recording: Recording, *, scrubber: Scrubber
    ) -> None:
        """`setting` gives what the trials on this task's driver share; it may raise, as every phase may."""
        self._open_setting = setting
        self._state = state
        self._task = state.task
        self._recording = recording
        self._scrubber = scrubber
        self._clocks = Clocks()
        self._used: Usage | None = None

    @property
    def _folder(self) -> AttemptFolder:
        return self._recording.folder

    async def run(self) -> TrialResult:
        """Carry it out; raises `CancelledError` once everything of it is gone, `OSError` from the run folder."""
        began = take_sample()
        # A sandbox that breaks after its verdict takes nothing back and stops no other trial.
        with contextlib.suppress(SandboxError):
            async with AsyncExitStack() as stack:
                try:
                    await self._carry_out(stack)
                except Exception as error:  # noqa: BLE001 - the trial's boundary: whatever it was becomes a fault
                    self._state.blame = blame(error, self._clocks.current)
                self._state.contention = began.until(take_sample(), usage=self._state.usage)
                with self._clocks.phase("record"):
                    await self._keep_state()
        return await self._record()

    async def _carry_out(self, stack: AsyncExitStack) -> None:
        with self._clocks.phase("prepare"):
            setting = self._state.setting = self._open_setting()
            agent = self._state.agent = setting.make_agent(self._task)
            model = self._state.options.model
            self._recording.introduce(TrajectoryAgent(name=agent.name, version=agent.version, model_name=model))
            box = await self._prepare(setting, agent, stack)
        for leg in legs_of(self._task, setting.options):
            with self._clocks.phase("prepare"):
                await lay_step(box, leg)
            workspace = await self._work(agent, box, leg, stack)
            if leg.is_last and isinstance(agent, Resident):
                agent.move_out()
            with self._clocks.phase("seal"):
                case = await self._seal(setting, box, leg, stack)
                case = replace(case, terminal=workspace.last_terminal if leg.wants_shell else None)
            with self._clocks.phase("grade"):
                verdict = await setting.judge.judge(case)
            self._state.verdicts[leg.name] = verdict
            if leg.is_last or (leg.step is not None and not goes_on(leg.step, verdict)):
                break
            await box.thaw()
        self._state.verdict = combine(self._task, self._state.verdicts)

    # The phases.

    async def _prepare(self, setting: Setting, agent: Agent, stack: AsyncExitStack) -> Sandbox:
        place = Path(self._task.provenance.path)
        start = await setting.stage.prepare(self._task.environment, folder=place, task=self._task.id)
        self._state.start = start
        spec = under_limits(under_policy(start.spec, self._task.agent.network), setting.options)
        if isinstance(agent, Resident):
            stack.callback(agent.move_out)
            spec = await agent.move_in(Ground(setting.driver, start, spec))
        return await stack.enter_async_context(start.start(spec=spec))

    async def _work(self, agent: Agent, box: Sandbox, leg: Leg, stack: AsyncExitStack) -> TrialWorkspace:
        """The agent's time; when it is over the workspace is shut, and what was running in it has been ended."""
        with self._clocks.phase("work"):
            self._recording.instruct(leg.instruction)
            deadline = time.monotonic() + leg.timeout_s
            workspace = TrialWorkspace(
                box, self._recording, deadline=deadline, user=leg.user, keeps_terminals=leg.wants_shell
            )
            stack.push_async_callback(_hang_up, box, workspace)
            try:
                await self._solve(agent, box, workspace, leg)
            finally:
                await asyncio.shield(workspace.close())
            return workspace

    async def _solve(self, agent: Agent, box: Sandbox, workspace: TrialWorkspace, leg: Leg) -> None:
        timer = asyncio.timeout(leg.timeout_s)
        try:
            async with timer:
                self._take(agent, await agent.solve(self._brief(leg), workspace))
            # An agent that does not let itself be cancelled has still run out of time.
            self._state.end = "timeout" if timer.expired() else self._state.report.end
        except Exception as error:
            if isinstance(agent, Metered):
                self._take(agent, AgentReport())
            if not box.is_alive or (is_machinery(error) and _is_credible(error, agent, workspace)):
                self._state.usage = await last_usage(box)
                self._state.end = "resource_limit" if has_exhausted_resources(self._state.usage) else None
                raise
            self._state.end = "timeout" if timer.expired() else "error"
            self._state.agent_error = None if timer.expired() else describe(error, "work")

    def _take(self, agent: Agent, report: AgentReport) -> None:
        """The last report counts; what the steps before it used is added, unless the agent counts itself."""
        earlier = self._used
        self._used = report.usage if earlier is None else earlier.plus(report.usage)
        self._state.report = replace(report, usage=agent.usage if isinstance(agent, Metered) else self._used)

    def _brief(self, leg: Leg) -> Brief:
        environment = self._task.environment
        policy = self._task.agent.network or environment.network
        return Brief(
            task_id=self._task.id,
            instruction=leg.instruction,
            timeout_s=leg.timeout_s,
            step=leg.name or None,
            workdir=environment.workdir,
            user=leg.user,
            network=policy.mode,
            mcp_servers=environment.mcp_servers,
            skills_dir=environment.skills_dir,
        )

    async def _seal(self, setting: Setting, box: Sandbox, leg: Leg, stack: AsyncExitStack) -> Case:
        """End the agent's reach and take down what it left; the box stays frozen, or sealed if nobody needs it."""
        await box.freeze()
        state = self._state
        state.usage = await box.usage()
        state.processes_left = len(await box.processes())
        if state.end == "error" and has_exhausted_resources(state.usage):
            state.end = "resource_limit"
        end = state.end or "error"
        if not self._is_needed_alive(setting, leg, end):
            await box.seal()
        state.changes = await box.diff()
        if setting.options.grading != "live" or (setting.options.keep_state and leg.is_last):
            state.snapshot = await box.snapshot()
            stack.callback(state.snapshot.close)
        logs = leg.logs_in(self._folder)
        logs.parent.mkdir(parents=True, exist_ok=True)
        return Case(
            task=self._task,
            tests=leg.tests,
            grading=leg.grading,
            artifacts=leg.artifacts,
            box=box,
            start=state.start,
            snapshot=state.snapshot,
            changes=state.changes,
            findings=await examine(box, state.changes, self._task),
            processes_left=state.processes_left,
            agent_end=end,
            terminal=None,
            output=leg.output_in(self._folder),
            logs=logs,
            is_last=leg.is_last,
        )

    def _is_needed_alive(self, setting: Setting, leg: Leg, end: AgentEnd) -> bool:
        """Whether what runs in the sandbox may have to go on after the seal."""
        grading = setting.options.grading
        if grading in ("live", "both") or not leg.is_last or leg.grading.mode == "separate":
            return True
        left = self._state.processes_left
        return grading == "auto" and is_live_evidence(self._task, processes_left=left, agent_end=end)

    async def _keep_state(self) -> None:
        """Capture the final file state while the sandbox that holds it is still there."""
        state = self._state
        if state.setting is not None and state.snapshot is not None and state.changes is not None:
            state.state_kept = await keep_state(state.snapshot, state.changes, self._folder, state.setting.options)

    async def _record(self) -> TrialResult:
        with self._clocks.phase("record"):
            record = self._recording.finish()
        self._state.clocks = self._clocks.read()
        return await asyncio.to_thread(write_attempt, self._folder, self._state, record, self._scrubber)


def _is_credible(error: Exception, agent: Agent, workspace: TrialWorkspace) -> bool:
    """Whether an agent that says so lost its sandbox, its model or its budget, or was never there: the workspace raised
    it, or our own loop did, or nothing of the task was ever told."""
    if isinstance(error, AgentGone):
        return isinstance(agent, Elsewhere) and not agent.is_told
    is_of_loop = isinstance(error, ModelUnavailable | ClusterError) and isinstance(agent, Metered)
    return workspace.has_raised(error) or is_of_loop


async def _hang_up(box: Sandbox, workspace: TrialWorkspace) -> None:
    """End every process first: hanging up would wait for a shell that is frozen or does not listen."""
    with contextlib.suppress(SandboxError):
        await box.kill_processes()
    await workspace.hang_up()
