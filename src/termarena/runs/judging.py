"""Which gradings a sealed state gets, and which of them counts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from termarena.core.errors import CapabilityMissing, EngineError, SandboxBroken, SandboxError
from termarena.grading.contract import GradingFault, Verdict
from termarena.grading.control import against_control, needs_control
from termarena.grading.grader import Grader
from termarena.grading.integrity import apply, shadowing
from termarena.grading.job import GradingJob
from termarena.grading.rules.places import ONLY_LIVE
from termarena.grading.rules.python import MODULE
from termarena.grading.separate import carry_over, collect
from termarena.grading.stand_ins import StandIns, learnt
from termarena.runs.faults import has_exhausted_resources, last_usage
from termarena.runs.unshadowed import Control, Question, ask_live, ask_sealed
from termarena.sandbox import Feature, Network
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from termarena.agents.contract import AgentEnd
    from termarena.core.scrub import Scrubber
    from termarena.grading.contract import GradedIn, IntegrityFinding
    from termarena.runs.plan import RunOptions
    from termarena.sandbox import Change, Driver, FileChanges, Sandbox, SandboxSpec, Snapshot
    from termarena.sandbox.spec import Fetches
    from termarena.sandbox.staging import StartState, StartStates
    from termarena.sandbox.terminal import Terminal
    from termarena.tasks.model import Artifact, Environment, Grading, NetworkPolicy, Task, Tests, Toolchain

__all__ = ["Case", "Judge", "is_live_evidence", "under_limits", "under_policy"]

NO_RECORDING: Final = "the tests are typed into the agent's own shell, which has its own way to the network"


@runtime_checkable
class _Recordable(Protocol):
    def through(self, fetches: Fetches) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Case:
    """A state that an agent left and that nothing can change any more, and what is to be asked of it."""

    task: Task
    tests: Tests | None
    grading: Grading
    artifacts: tuple[Artifact, ...]
    """What a separate grader gets of the agent's files: the task's, and the step's."""
    box: Sandbox
    """Frozen, or sealed where no live grading can follow."""
    start: StartState | None
    """What it was before the agent came; None where that is still to be prepared, should it be asked for."""
    snapshot: Snapshot | None
    """None where only a live grading was asked for and the state is not kept."""
    changes: FileChanges
    findings: tuple[IntegrityFinding, ...]
    processes_left: int
    agent_end: AgentEnd
    terminal: Terminal | None
    """The agent's, for tests that are to be typed into it."""
    output: Path
    logs: Path
    is_last: bool
    """Whether the box is given up after it."""


def is_live_evidence(task: Task, *, processes_left: int, agent_end: AgentEnd) -> bool:
    """Whether a sealed grading may miss what counts: the task wants services, its tests want the agent's own shell, or
    the agent left processes running.

    What an agent left running at its deadline is work that goes on after it, unless the task wants services. A task
    whose tests are to run on the system of the start is not graded on the agent's because of a process that was left.
    """
    wants_start = task.tests is not None and task.tests.toolchain == "pristine"
    return _declares_life(task) or (processes_left > 0 and agent_end != "timeout" and not wants_start)


def _declares_life(task: Task) -> bool:
    """Whether the task itself says that more than files counts."""
    wants_services = bool(task.environment.services or task.environment.compose)
    return wants_services or (task.tests is not None and task.tests.same_shell)


def under_policy(spec: SandboxSpec, policy: NetworkPolicy | None) -> SandboxSpec:
    """The spec with the network that a phase has of its own, if it has one."""
    if policy is None:
        return spec
    network = Network(mode=policy.mode, allowed_hosts=policy.allowed_hosts)
    return spec.model_copy(update={"network": network})


def under_limits(spec: SandboxSpec, options: RunOptions) -> SandboxSpec:
    """The spec with the processors and the memory that the run has set, if it has."""
    changed: dict[str, float | int] = {}
    if options.cpus is not None:
        changed["cpus"] = options.cpus
    if options.memory_mb is not None:
        changed["memory_bytes"] = options.memory_mb << 20
    return spec.model_copy(update={"limits": spec.limits.model_copy(update=changed)}) if changed else spec


def _without_agent(spec: SandboxSpec) -> SandboxSpec:
    """The spec of a sandbox in which an agent lived, without the agent and its way to a model."""
    return spec.model_copy(update={"network": spec.network.without_gateway(), "mounts": ()})


def _put_aside(case: Case, graded_in: GradedIn) -> None:
    """Keep what these tests wrote under a name that tells where they ran; what counts has the plain name."""
    for path in (case.output, case.logs):
        if path.exists():
            path.rename(_aside(path, graded_in))


def _take_back(case: Case, graded_in: GradedIn) -> None:
    for path in (case.output, case.logs):
        if _aside(path, graded_in).exists():
            _aside(path, graded_in).rename(path)


def _aside(path: Path, graded_in: GradedIn) -> Path:
    return path.with_name(f"{path.stem}-{graded_in}{path.suffix}")


async def _surely(grade: Callable[[Case], Awaitable[Verdict]], case: Case) -> Verdict:
    """The verdict, asked for once more where the sandbox failed, or the tests could not be run: a state that breaks
    sandboxes breaks the next too, and what the tests fetch may be there the next time."""
    verdict = await grade(case)
    has_broken = verdict.fault is not None and verdict.fault.reason in ("sandbox", "cannot_run")
    return await grade(case) if has_broken else verdict


async def _shadows(case: Case) -> tuple[Change, ...]:
    """The agent's modules that may stand before others and of which it is not yet known what hangs on them."""
    told = [finding.severity for finding in case.findings if finding.rule == MODULE.id]
    if not told or "critical" in told:
        return ()
    return shadowing(case.changes, case.task, around=await case.box.surroundings())


class Judge:
    """Grades cases for one run."""

    def __init__(
        self, driver: Driver, stage: StartStates, options: RunOptions, *, scrubber: Scrubber | None = None
    ) -> None:
        """The sandboxes of gradings come from the run's own driver; no secret that `scrubber` knows is written down."""
        self._driver = driver
        self._stage = stage
        self._options = options
        self._scrubber = scrubber
        self._grader = Grader()

    async def judge(self, case: Case) -> Verdict:
        """The verdict that counts, with the others in it. Raises what starting a sandbox raises."""
        verdict = await self._verdict(case)
        if not needs_control(verdict):
            return verdict
        return against_control(verdict, await self._control(case, verdict.toolchain))

    async def _verdict(self, case: Case) -> Verdict:
        if case.grading.mode == "separate":
            return await _surely(self._separate, case)
        if self._options.grading == "live":
            return await self._live(case, counts=True)
        sealed = await self._tried_without_shadows(case, await _surely(self._sealed, case))
        case = replace(case, findings=learnt(case.findings, sealed))
        live_counts = (
            not sealed.is_pass
            and self._options.grading != "sealed"
            and is_live_evidence(case.task, processes_left=case.processes_left, agent_end=case.agent_end)
        )
        if not live_counts and self._options.grading != "both":
            return sealed
        _put_aside(case, "sealed")
        live = await self._live(case, counts=live_counts)
        if live_counts and live.is_pass and not _declares_life(case.task):
            told = ONLY_LIVE.found("", f"of {case.processes_left} processes; the same tests do not pass without them")
            live = apply(live, (told,), integrity=self._options.integrity)
        counts, other = (live, sealed) if live_counts else (sealed, live)
        if counts is sealed:
            _put_aside(case, "live")
            _take_back(case, "sealed")
        return counts.model_copy(update={"others": (other,)})

    async def _control(self, case: Case, toolchain: Toolchain) -> Verdict:
        """The same tests on the state before the agent came, run by the same programs; what they write is not kept."""
        start = case.start or await self._prepared(case.task.environment, case.task)
        with staged("control") as folder:
            job = replace(self._job(case), output=folder / "output", logs=None)
            async with start.start(spec=self._for_tests(start.spec, case)) as fresh:
                if toolchain == "pristine":
                    return await self._on_pristine(fresh, job)
                if case.grading.mode != "separate":
                    return await self._grader.grade(fresh, job, graded_in="sealed")
                async with self._verifier(case) as own:
                    await collect(fresh, case.grading)
                    await carry_over(fresh, own, case.artifacts)
                    return await self._grader.grade(own, job, graded_in="separate")

    async def _on_pristine(self, fresh: Sandbox, job: GradingJob) -> Verdict:
        """A grading of a sandbox's state with its system read-only, as a sealed grading of an agent's state has it."""
        await fresh.seal()
        snapshot = await fresh.snapshot()
        try:
            spec = fresh.spec.model_copy(update={"pristine_system": True})
            async with self._driver.start(snapshot, spec=spec) as fork:
                return await self._grader.grade(fork, job, graded_in="sealed")
        finally:
            snapshot.close()

    async def _sealed(self, case: Case) -> Verdict:
        async with self._fork(case) as fork:
            verdict = await self._grade(case, fork, "sealed", self._job(case))
        return verdict.model_copy(update={"toolchain": self._toolchain(case)})

    @asynccontextmanager
    async def _fork(self, case: Case) -> AsyncIterator[Sandbox]:
        """A sandbox of the sealed state, as its tests have it."""
        if case.snapshot is None:
            raise ValueError("a sealed grading needs the snapshot of the state")
        spec = self._for_tests(_without_agent(case.snapshot.spec), case)
        spec = spec.model_copy(update={"pristine_system": self._toolchain(case) == "pristine"})
        async with self._driver.start(case.snapshot, spec=spec) as fork:
            yield fork

    async def _tried_without_shadows(self, case: Case, verdict: Verdict) -> Verdict:
        """The verdict of a sealed grading, with what the agent's modules that stand before others do to it."""
        shadows = await _shadows(case) if verdict.reward is not None and verdict.reward > 0 else ()
        if not shadows:
            return verdict
        control = partial(self._sealed_control, case, shadows)
        return await ask_sealed(Question(shadows, control, self._options.integrity), verdict)

    async def _sealed_control(self, case: Case, shadows: tuple[Change, ...]) -> Control:
        with staged("unshadowed") as folder:
            job = replace(self._job(case), output=folder / "output", logs=None)
            async with self._fork(case) as fork:
                laid = await StandIns.lay(fork, shadows, case.changes)
                verdict = await self._grader.grade(fork, job, graded_in="sealed", changes=case.changes)
                if verdict.fault is not None and verdict.fault.reason == "sandbox":
                    raise SandboxError(verdict.fault.message)
                return Control(verdict, await laid.were_met())

    async def _live_control(self, case: Case, shadows: tuple[Change, ...], *, counts: bool) -> Control:
        with staged("unshadowed") as folder:
            own = self._job(case) if counts else replace(self._job(case), output=folder / "output", logs=None)
            job = replace(own, is_last=False)  # others come after it, who must not find its reward
            laid = await StandIns.lay(case.box, shadows, case.changes)
            try:
                verdict = await self._grade(case, case.box, "live", job)
                return Control(verdict, await laid.were_met(), await laid.altered())
            finally:
                await laid.take_away()

    def _toolchain(self, case: Case) -> Toolchain:
        """Whose programs run the tests of a sealed grading: those of the start where the task allows it and the driver
        can bring them, else what the agent left."""
        if case.tests is None or case.tests.toolchain == "agents":
            return "agents"
        return "pristine" if Feature.PRISTINE_SYSTEM in self._driver.capabilities().features else "agents"

    async def _live(self, case: Case, *, counts: bool) -> Verdict:
        """Raises what a box that is gone raises, if this verdict is the one that counts; unless the kernel's counters
        say that the box was exhausted, which is the agent's doing. Raises `CapabilityMissing` where a recording
        cannot be had."""
        try:
            await case.box.thaw()
            async with self._recorded(case):
                shadows = await _shadows(case)
                if not shadows:
                    return await self._grade(case, case.box, "live", self._job(case))
                plain = partial(self._grade, case, case.box, "live", replace(self._job(case), is_last=False))
                first = partial(self._live_control, case, shadows, counts=True)
                control = partial(self._live_control, case, shadows, counts=False)
                question = Question(shadows, control, self._options.integrity, has_company=case.processes_left > 0)
                return await ask_live(question, first, plain)
        except (SandboxBroken, EngineError) as error:
            is_agents = has_exhausted_resources(await last_usage(case.box))
            if counts and not is_agents:
                raise
            fault = GradingFault(reason="toolchain_broken_by_agent" if is_agents else "sandbox", message=error.message)
            return Verdict(reward=None, graded_in="live", findings=case.findings, fault=fault)

    @asynccontextmanager
    async def _recorded(self, case: Case) -> AsyncIterator[None]:
        """The tests' way to a recording, where there is one; the agent's processes keep their own way."""
        fetches, box = self._for_tests(case.box.spec, case).fetches, case.box
        if fetches is None or box.spec.network.mode == "none":
            yield
            return
        if case.terminal is not None or not isinstance(box, _Recordable):
            raise CapabilityMissing("recorded fetches", driver=self._driver.name, why=NO_RECORDING)
        async with box.through(fetches):
            yield

    async def _separate(self, case: Case) -> Verdict:
        """In a sandbox of the grader's own, which gets the task's artifacts and nothing else of the agent's."""
        async with self._verifier(case) as own:
            if case.grading.collect:
                await self._collect(case)
            await carry_over(case.box, own, case.artifacts, changes=case.changes)
            return await self._grade(case, own, "separate", self._job(case))

    async def _collect(self, case: Case) -> None:
        """Only for as long as the commands take is the box alive; what ran on at a deadline does not run on here."""
        if not is_live_evidence(case.task, processes_left=case.processes_left, agent_end=case.agent_end):
            await case.box.kill_processes()
        await case.box.thaw()
        await collect(case.box, case.grading)
        await case.box.freeze()

    @asynccontextmanager
    async def _verifier(self, case: Case) -> AsyncIterator[Sandbox]:
        state = await self._prepared(case.grading.environment or case.task.environment, case.task)
        async with state.start(spec=self._for_tests(state.spec, case)) as own:
            yield own

    def _for_tests(self, spec: SandboxSpec, case: Case) -> SandboxSpec:
        """The spec with the network that the tests have, and its recording where there is one."""
        told = under_policy(spec, case.grading.network)
        plan = self._options.fetch_plan
        if plan is None:
            return told
        return told.model_copy(update={"fetches": plan.of(Path(case.task.provenance.path), case.task.id)})

    async def _prepared(self, environment: Environment, task: Task) -> StartState:
        return await self._stage.prepare(environment, folder=Path(task.provenance.path), task=task.id)

    async def _grade(self, case: Case, box: Sandbox, graded_in: GradedIn, job: GradingJob) -> Verdict:
        verdict = await self._grader.grade(
            box,
            job,
            graded_in=graded_in,
            changes=case.changes,
            terminal=case.terminal if graded_in == "live" else None,
        )
        # What the agent did to its own sandbox is told, and cannot reach a grader that has one of its own.
        integrity = "report" if graded_in == "separate" else self._options.integrity
        return apply(verdict, case.findings, integrity=integrity)

    def _job(self, case: Case) -> GradingJob:
        return GradingJob(
            task=case.task,
            tests=case.tests,
            grading=case.grading,
            output=case.output,
            logs=case.logs,
            scrubber=self._scrubber,
            timeout_multiplier=self._options.timeout_multiplier,
            is_last=case.is_last,
        )
