"""The stand: tries something on a task, the way a run does, and keeps what it showed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from termarena.agents.oracle import Oracle
from termarena.agents.recording import Recording
from termarena.core.errors import SandboxFileError
from termarena.core.run_folder import AttemptFolder
from termarena.grading.contract import Verdict
from termarena.proof.conditions import PLAIN, Condition
from termarena.proof.evidence import Evidence, Graded, same_state, state_of, undated
from termarena.proof.exported import Buried
from termarena.proof.further import UNREACHED, task_under, task_within
from termarena.runs.judging import Judge
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.setting import Setting
from termarena.runs.state import TrialState
from termarena.runs.trial import Trial
from termarena.sandbox.contract import Layered
from termarena.sandbox.fetches.index import read_index
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from termarena.agents.contract import Agent, AgentReport, Brief, Workspace
    from termarena.core.scrub import Scrubber
    from termarena.grading.contract import GradingMode
    from termarena.proof.evidence import Stage as ProofStage
    from termarena.proof.further import Patience
    from termarena.proof.ledger import Ledger
    from termarena.runs.judging import Case
    from termarena.runs.outcome import Fault
    from termarena.runs.result import TrialResult
    from termarena.sandbox import Capabilities, Driver, Sandbox, SandboxSpec
    from termarena.sandbox.contention import Contention
    from termarena.sandbox.staging import Stage, StartState
    from termarena.tasks.model import Environment, Task

__all__ = ["Act", "Bench", "Stand"]

OUTPUT_BYTES: Final = 2000
RUN_ID: Final = "proof"


@dataclass(frozen=True, slots=True)
class Act:
    """Something to try."""

    stage: ProofStage
    name: str
    content: str
    """What decides it beside the task: goes into its key, is never shown."""
    make_agent: Callable[[Task], Agent]
    condition: Condition = PLAIN
    grading: GradingMode = "auto"
    repeat: int = 0
    """Tells apart tries of the same."""
    patience: Patience | None = None
    """Where it may hang: how long it is waited for; None is as long as the task says."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all stands of a battery share."""

    driver: Driver
    stage: Stage
    scrubber: Scrubber
    turns: asyncio.Semaphore
    """As many trials at once."""
    on_trial: Callable[[Task, Evidence], None] = lambda _task, _evidence: None


@dataclass(slots=True)
class _Known:
    """States whose verdict is known: what was graded once need not be graded again."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    turns: dict[str, asyncio.Lock] = field(default_factory=dict)
    solved: Mapping[str, str] | None = None
    noise: frozenset[str] = frozenset()
    dated: frozenset[str] = frozenset()


@runtime_checkable
class _Exporting(Protocol):
    async def export(self, spec: SandboxSpec, consume: Callable[[int], Buried]) -> Buried: ...


class Stand:
    """Carries out acts on one task."""

    def __init__(self, task: Task, bench: Bench, ledger: Ledger) -> None:
        """`ledger` knows what was tried before: such an act is not tried again."""
        self.task = task
        self._bench = bench
        self.ledger = ledger
        self._known = _Known()
        self.started = 0
        """How many trials were really run."""

    @property
    def capabilities(self) -> Capabilities:
        """What the driver can do here."""
        return self._bench.driver.capabilities()

    def key_of(self, act: Act) -> str:
        """A digest of what decides the evidence of an act."""
        parts = (act.stage, act.name, act.content, act.condition.name, act.grading, str(act.repeat))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def knows_solved(self, state: Mapping[str, str], *, noise: frozenset[str], dated: frozenset[str]) -> None:
        """From here on, a state that is the same as this one but for `noise`, and for what the files `dated` hold, is
        not graded: it is the solution's."""
        self._known.solved, self._known.noise, self._known.dated = undated(state, dated), noise, dated

    async def attempt(self, act: Act) -> Evidence:
        """Try it, or tell what came of it before; whatever happens is evidence.

        Raises `CancelledError` once everything of the trial is gone, `OSError` from the host.
        """
        key = self.key_of(act)
        found = self.ledger.get(key)
        if found is None:
            async with self._bench.turns:
                found = await self._try(act, key)
            self.started += 1
            if found.outcome != "unscored":
                self.ledger.add(found)
        self._bench.on_trial(self.task, found)
        return found

    @asynccontextmanager
    async def start_state(self) -> AsyncIterator[Sandbox]:
        """A sandbox as the agent finds it. Entering raises what making the start state raises."""
        task, bench = self.task, self._bench
        async with bench.turns:
            start = await bench.stage.prepare(task.environment, folder=Path(task.provenance.path), task=task.id)
            async with start.start() as box:
                yield box

    async def image_layers(self) -> tuple[Path, ...]:
        """The layers of the start state's image as folders; none where there is no image, or they cannot be had. Raises
        what making the start state raises."""
        task, driver = self.task, self._bench.driver
        if not isinstance(driver, Layered):
            return ()
        start = await self._bench.stage.prepare(task.environment, folder=Path(task.provenance.path), task=task.id)
        return await driver.layers(start.spec)

    async def exported_image(self, read: Callable[[int], Buried]) -> Buried:
        """What `read` finds in the archive of the start state's image; nothing where the driver makes none. Raises what
        making the start state raises, and `EngineError`."""
        task, driver = self.task, self._bench.driver
        if not isinstance(driver, _Exporting):
            return Buried()
        start = await self._bench.stage.prepare(task.environment, folder=Path(task.provenance.path), task=task.id)
        return await driver.export(start.spec, read) if start.spec.root.kind == "image" else Buried()

    async def contents_after_solving(self, paths: tuple[str, ...]) -> dict[str, bytes]:
        """What the files at these paths hold once the solution has run; one that cannot be read is left out."""
        reading = _Reading(self.task, paths)
        act = Act("leaks", "oracle", "\n".join(paths), lambda _task: reading)
        async with self._bench.turns:
            await self._try(act, self.key_of(act), is_graded=False)
        return reading.contents

    async def fetches(self) -> dict[str, str] | None:
        """What the solution and its tests fetch from outside: each request, with what is answered; nothing where the
        task has no network. None where the try came to no end, as with a driver that cannot record."""
        if self.task.environment.network.mode == "none":
            return {}
        with staged("fetches") as folder:
            recorded = Condition("recorded", "what is fetched is kept", records=folder / "kept")
            act = Act("fetches", "oracle", "", Oracle, condition=recorded)
            async with self._bench.turns:
                tried = await self._try(act, self.key_of(act))
            entries = await asyncio.to_thread(read_index, folder / "kept")
        if tried.outcome == "unscored":
            return None
        return {f"{one.method} {one.url}": one.problem or f"{one.status} {one.digest[:19]}" for one in entries}

    async def attempt_all(self, acts: list[Act]) -> list[Evidence]:
        """All of them, as many at once as the bench allows, in their order."""
        return await self.attempt_until(lambda _: False, acts, ahead=len(acts))

    async def attempt_until(
        self, is_enough: Callable[[Sequence[Evidence]], bool], acts: Sequence[Act], *, ahead: int
    ) -> list[Evidence]:
        """In their order, until `is_enough` says so of the evidence that there is; no more than so many are begun ahead
        of what it was asked about. Which are tried does not depend on how many run at once."""
        tasks: list[asyncio.Task[Evidence]] = []
        known: list[Evidence] = []
        try:
            for number, act in enumerate(acts):
                if number >= ahead:
                    known.append(await tasks[number - ahead])
                if is_enough(known):
                    break
                tasks.append(asyncio.create_task(self.attempt(act)))
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _try(self, act: Act, key: str, *, is_graded: bool = True) -> Evidence:
        options = RunOptions(agent="oracle", grading=act.grading, keep_state=False)
        bench = self._bench
        states = _Conditioned(bench.stage, act.condition)
        sealed = options.model_copy(update={"grading": "sealed"})
        judge = _Sparing(
            Judge(bench.driver, states, options, scrubber=bench.scrubber),
            self._known,
            act,
            sealed=Judge(bench.driver, states, sealed, scrubber=bench.scrubber),
        )
        setting = Setting(options, bench.driver, states, judge if is_graded else _Silent(), act.make_agent)
        task = await asyncio.to_thread(task_under, self.task, act.condition)
        if act.patience is not None:
            task = await asyncio.to_thread(task_within, task, act.patience)
        state = TrialState(run_id=RUN_ID, options=options, task=task, key=TrialKey(task.id, 1))
        with staged("proof") as place:
            folder = AttemptFolder(place / "attempt")
            folder.path.mkdir()
            recording = Recording(folder, bench.scrubber)
            result = await Trial(lambda: setting, state, recording, scrubber=bench.scrubber).run()
            output = await asyncio.to_thread(_end_of, folder.path / "test_output.txt")
        evidence = _evidence(act, key, state, result)
        return evidence.model_copy(update={"output": bench.scrubber.scrub(output)})


class _Silent:
    """A judge of what is not to be judged."""

    async def judge(self, case: Case) -> Verdict:  # noqa: ARG002 - it does not look
        """See `Referee`."""
        return Verdict(reward=0.0, graded_in="sealed")


class _Reading:
    """See `Agent`: the solution, and then a look at what it wrote."""

    name = "oracle"

    def __init__(self, task: Task, paths: tuple[str, ...]) -> None:
        self._oracle = Oracle(task)
        self._paths = paths
        self.version = self._oracle.version
        self.contents: dict[str, bytes] = {}

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Solve, then read."""
        report = await self._oracle.solve(brief, workspace)
        for path in self._paths:
            with contextlib.suppress(SandboxFileError):
                self.contents[path] = await workspace.read(path)
        return report


class _Conditioned:
    """Start states under a condition."""

    def __init__(self, stage: Stage, under: Condition) -> None:
        self._stage = stage
        self._under = under

    async def prepare(self, environment: Environment, *, folder: Path, task: str) -> StartState:
        """See `StartStates`."""
        start = await self._stage.prepare(environment, folder=folder, task=task)
        return replace(start, spec=self._under.applied(start.spec))

    async def aclose(self) -> None:
        """The stage is the battery's."""


class _Sparing:
    """A judge that grades no state twice: one that is known has the verdict that it had."""

    def __init__(self, judge: Judge, known: _Known, act: Act, *, sealed: Judge) -> None:
        self._judge = judge
        self._sealed = sealed
        self._known = known
        self._act = act

    async def judge(self, case: Case) -> Verdict:
        """See `Referee`. Only mutants are spared: what is repeated to see whether it holds is graded each time.

        An exploit that left no process is graded sealed alone, unless that brings programs of its own: a live grading
        would find the same files.
        """
        brings_programs = case.tests is not None and case.tests.toolchain == "pristine"
        if self._act.stage == "hackable" and not case.processes_left and not brings_programs:
            return await self._sealed.judge(case)
        if self._act.stage != "discriminating" or case.processes_left or case.task.steps:
            return await self._judge.judge(case)
        known = self._known
        state = undated(state_of(case.changes), known.dated)
        if known.solved is not None and same_state(state, known.solved, noise=known.noise):
            return Verdict(reward=1.0, graded_in="sealed")
        name = "\n".join(f"{path} {held}" for path, held in sorted(state.items()))
        async with known.turns.setdefault(name, asyncio.Lock()):
            if name not in known.verdicts:
                known.verdicts[name] = await self._judge.judge(case)
            return known.verdicts[name]


def _end_of(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError:
        return ""
    return content[-OUTPUT_BYTES:].decode("utf-8", "replace")


def _evidence(act: Act, key: str, state: TrialState, result: TrialResult) -> Evidence:
    verdict, usage = result.verdict, state.usage
    clocks = {name: clock.duration_s for name, clock in result.clocks.items()}
    problem = result.fault_detail or result.agent_error
    said = result.agent.message  # where a condition was not reached, whatever else went wrong is of no account
    return Evidence(
        stage=act.stage,
        name=act.name,
        key=key,
        condition=act.condition.name,
        outcome=result.outcome,
        fault=_fault(result),
        gradings=tuple(_graded(one) for one in (verdict, *verdict.others)) if verdict else (),
        tests={test.name: test.state for test in verdict.tests} if verdict else {},
        findings=tuple(sorted({one.rule for one in verdict.findings if one.severity == "critical"})) if verdict else (),
        state=state_of(state.changes) if state.changes else {},
        processes_left=state.processes_left,
        timed_out=result.agent_end == "timeout" or (verdict is not None and verdict.timed_out),
        work_s=round(clocks.get("work", 0.0), 3),
        grade_s=round(clocks.get("grade", 0.0), 3),
        cpu_s=usage.cpu_s if usage else None,
        memory_peak_bytes=usage.memory_peak_bytes if usage else None,
        disk_bytes=usage.disk_bytes if usage else None,
        load=_load(state.contention),
        message=problem.message if problem and UNREACHED not in said else said,
    )


def _fault(result: TrialResult) -> Fault | None:
    """Whose fault; a sandbox that fails under the tests, twice, is none of the tests' own."""
    verdict = result.verdict
    has_broken = verdict is not None and verdict.fault is not None and verdict.fault.reason == "sandbox"
    return "infra" if has_broken and result.fault == "test" else result.fault


def _load(contention: Contention | None) -> float | None:
    if contention is None or contention.load_1m is None:
        return None
    return round(contention.load_1m / contention.cpu_count, 2)


def _graded(verdict: Verdict) -> Graded:
    raw = verdict.raw_reward if verdict.raw_reward is not None else verdict.reward
    fault = f"{verdict.fault.reason}: {verdict.fault.message}" if verdict.fault else None
    return Graded(
        graded_in=verdict.graded_in,
        reward=verdict.reward,
        raw_reward=raw,
        is_tampered=verdict.is_tampered,
        fault=fault,
    )
