"""The files of an attempt. `result.json` is written last: where it is, the attempt is whole.

It alone waits for the disk. The others are in the kernel's hands before it: they survive whatever ends the harness, and
only a machine that loses its power within seconds can take them. Ten waits for a disk made up most of a short trial's
end.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal

from termarena.core.records import read_record_as, write_record
from termarena.core.trajectory import TrajectoryAgent
from termarena.runs.changed_paths import write_changes
from termarena.runs.concluding import conclude
from termarena.runs.journal import now
from termarena.runs.result import AgentFacts, LimitsUsed, SandboxFacts, StateKept, TrialResult
from termarena.runs.steps import legs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.agents.recording import WorkspaceRecord
    from termarena.core.run_folder import AttemptFolder
    from termarena.core.scrub import Scrubber
    from termarena.runs.plan import RunOptions
    from termarena.runs.result import TrialSummary
    from termarena.runs.state import TrialState
    from termarena.sandbox import FileChanges, Snapshot

__all__ = ["keep_state", "read_result", "sayable", "write_attempt", "write_result"]

RESULT_KIND: Final = "trial-result"
LONGEST_MESSAGE: Final = 500


async def keep_state(snapshot: Snapshot, changes: FileChanges, folder: AttemptFolder, options: RunOptions) -> StateKept:
    """Save the final file state for later gradings, unless that is not wanted or it is too large.

    Raises `OSError` when the run folder takes no more.
    """
    if not options.keep_state:
        return "not_kept"
    if sum(change.size or 0 for change in changes.changes) > options.state_limit_bytes:
        return "too_large"
    await snapshot.save(folder.state)
    return "kept"


def write_attempt(folder: AttemptFolder, state: TrialState, record: WorkspaceRecord, scrubber: Scrubber) -> TrialResult:
    """Write all that the tests did not, secrets scrubbed, and return the result; raises `OSError` from the folder."""
    metrics = _metrics(state, record)
    result = _result(state, record, metrics)
    agent = TrajectoryAgent(name=result.agent.name, version=result.agent.version, model_name=result.agent.model)
    record.save(folder, agent, usage=state.report.usage)
    write_record(folder.metrics, "trial-metrics", metrics, is_durable=False)
    if state.changes is not None:
        write_changes(folder, state.changes, scrubber)
    write_result(folder, result, scrubber)
    return result


def write_result(folder: AttemptFolder, result: TrialResult, scrubber: Scrubber) -> None:
    """Write or replace `result.json`."""
    payload = scrubber.scrub_json(result.model_dump(mode="json"))
    if not isinstance(payload, dict):
        raise TypeError("a result is an object")
    write_record(folder.result, RESULT_KIND, payload)


def sayable(summary: TrialSummary, scrubber: Scrubber) -> TrialSummary:
    """Without secrets, and short: it goes into the journal and on the screen."""
    message = scrubber.scrub(summary.message)[:LONGEST_MESSAGE]
    return summary if message == summary.message else summary.model_copy(update={"message": message})


def read_result(folder: AttemptFolder) -> TrialResult:
    """Read it back; raises `TaskFormatError` for a file that is none."""
    return read_record_as(TrialResult, folder.result, RESULT_KIND)


def _result(state: TrialState, record: WorkspaceRecord, metrics: Mapping[str, Any]) -> TrialResult:
    found = conclude(state.end, state.verdict, state.blame)
    task = state.task
    return TrialResult(
        run_id=state.run_id,
        task_id=task.id,
        task_digest=task.digest,
        attempt=state.key.attempt,
        retry=state.retry,
        outcome=found.outcome,
        agent_end=found.agent_end,
        fault=found.fault,
        failure_mode=found.failure_mode,
        fault_detail=found.detail,
        agent_error=state.agent_error,
        reward=state.verdict.reward if state.verdict is not None else None,
        verdict=state.verdict,
        agent=_agent(state, record),
        sandbox=_sandbox(state),
        limits=_limits(state),
        clocks=state.clocks,
        metrics=metrics,
        started_at=state.started_at,
        finished_at=now(),
    )


def _agent(state: TrialState, record: WorkspaceRecord) -> AgentFacts:
    usage = state.report.usage
    return AgentFacts(
        name=state.agent.name if state.agent else state.options.agent,
        version=state.agent.version if state.agent else "",
        model=state.report.model or state.options.model,
        message=state.report.message,
        commands=record.commands,
        steps=len(record.steps),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
    )


def _sandbox(state: TrialState) -> SandboxFacts:
    start = state.start
    return SandboxFacts(
        driver=state.setting.driver.name if state.setting else state.options.driver,
        environment_digest=start.digest if start else "",
        image_digest=start.image_digest if start else None,
        is_host_root=start.is_host_root if start else False,
        substitutes=start.substitutes if start else (),
        fetches=_fetches(state.options),
        processes_left=state.processes_left,
        state=state.state_kept,
    )


def _fetches(options: RunOptions) -> Literal["recorded", "replayed"] | None:
    plan = options.fetch_plan
    if plan is None:
        return None
    return "recorded" if plan.mode == "record" else "replayed"


def _limits(state: TrialState) -> LimitsUsed:
    legs = list(legs_of(state.task, state.options))
    environment = state.task.environment
    return LimitsUsed(
        agent_timeout_s=sum(leg.timeout_s for leg in legs),
        test_timeout_s=sum(leg.grading.timeout_s for leg in legs) * state.options.timeout_multiplier,
        timeout_multiplier=state.options.timeout_multiplier,
        is_default_timeout=any(leg.is_default_timeout for leg in legs),
        cpus=state.options.cpus or environment.cpus,
        memory_mb=state.options.memory_mb or environment.memory_mb,
    )


def _metrics(state: TrialState, record: WorkspaceRecord) -> dict[str, Any]:
    usage = state.report.usage
    return {
        "commands": record.commands,
        "calls": dict(record.counts),
        "steps": len(record.steps),
        "tokens": {"input": usage.input_tokens, "output": usage.output_tokens, "cached": usage.cached_tokens},
        "cost_usd": usage.cost_usd,
        "phases_s": {name: round(clock.duration_s, 6) for name, clock in state.clocks.items()},
        "build_s": state.start.build_s if state.start else None,
        "sandbox": dataclasses.asdict(state.usage) if state.usage else None,
        "contention": dataclasses.asdict(state.contention) if state.contention else None,
        "problems": list(record.problems),
    }
