"""What one attempt came to: the record `result.json`, and the line of it that the journal keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from termarena.grading.contract import Verdict
from termarena.runs.outcome import AgentEnd, FailureMode, Fault, FaultDetail, Outcome, Phase

__all__ = ["AgentFacts", "Clock", "LimitsUsed", "SandboxFacts", "StateKept", "TrialResult", "TrialSummary"]

StateKept = Literal["kept", "too_large", "not_kept"]
"""Whether the final file state was captured."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Clock(_Frozen):
    """When a phase began (UTC, ISO 8601) and how long it took, by a clock that cannot be set."""

    started_at: str
    duration_s: float


class LimitsUsed(_Frozen):
    """The limits as they were applied, after the multiplier."""

    agent_timeout_s: float
    test_timeout_s: float
    timeout_multiplier: float = 1.0
    is_default_timeout: bool = False
    """The task sets the agent no limit; the run's own was used."""
    cpus: float | None = None
    memory_mb: int | None = None


class AgentFacts(_Frozen):
    """Who tried, and what it used; None is unknown."""

    name: str
    version: str
    model: str | None = None
    message: str = ""
    commands: int = 0
    steps: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class SandboxFacts(_Frozen):
    """Where it ran."""

    driver: str
    node: str | None = None
    """The name of the cluster's node; None on the machine that carried out the run."""
    environment_digest: str = ""
    image_digest: str | None = None
    is_host_root: bool = False
    """On this machine's own `/usr`: such runs are never ranked."""
    substitutes: tuple[str, ...] = ()
    """The names of images for which this site has set another one: not comparable with runs on the originals."""
    fetches: Literal["recorded", "replayed"] | None = None
    """Whether what was downloaded for building and testing was kept, or was what had been kept."""
    processes_left: int = 0
    """How many processes the agent had running when it was sealed."""
    state: StateKept = "not_kept"


class TrialResult(_Frozen):
    """One attempt, whole."""

    run_id: str
    task_id: str
    task_digest: str
    attempt: int
    retry: int = 0
    outcome: Outcome
    agent_end: AgentEnd | None = None
    """None where the agent never started."""
    fault: Fault | None = None
    failure_mode: FailureMode
    fault_detail: FaultDetail | None = None
    agent_error: FaultDetail | None = None
    """What the agent raised, where it did."""
    reward: float | None = None
    verdict: Verdict | None = None
    agent: AgentFacts
    sandbox: SandboxFacts
    limits: LimitsUsed
    clocks: Mapping[Phase, Clock] = Field(default_factory=dict)
    metrics: Mapping[str, Any] = Field(default_factory=dict)
    """As in `metrics.json`."""
    started_at: str
    finished_at: str
    regraded_at: str | None = None

    def summary(self) -> TrialSummary:
        """The part that reports are made of."""
        verdict = self.verdict
        tests = verdict.tests if verdict is not None else ()
        return TrialSummary(
            task_id=self.task_id,
            attempt=self.attempt,
            retry=self.retry,
            outcome=self.outcome,
            agent_end=self.agent_end,
            fault=self.fault,
            failure_mode=self.failure_mode,
            reward=self.reward,
            is_tampered=verdict is not None and verdict.is_tampered,
            graded_in=verdict.graded_in if verdict is not None else None,
            is_host_root=self.sandbox.is_host_root,
            is_substituted=bool(self.sandbox.substitutes),
            tests_passed=sum(test.state == "passed" for test in tests),
            tests_total=len(tests),
            duration_s=sum(clock.duration_s for clock in self.clocks.values()),
            work_s=self.clocks["work"].duration_s if "work" in self.clocks else None,
            commands=self.agent.commands,
            input_tokens=self.agent.input_tokens,
            output_tokens=self.agent.output_tokens,
            cost_usd=self.agent.cost_usd,
            message=self.fault_detail.message if self.fault_detail is not None else "",
            is_retriable=self.outcome == "unscored"
            and self.fault_detail is not None
            and self.fault_detail.is_retriable,
        )


class TrialSummary(_Frozen):
    """One trial in the journal's `trial_finished`: enough for every report, so that none opens every folder."""

    task_id: str
    attempt: int
    retry: int = 0
    outcome: Outcome
    agent_end: AgentEnd | None = None
    fault: Fault | None = None
    failure_mode: FailureMode
    reward: float | None = None
    is_tampered: bool = False
    graded_in: str | None = None
    is_host_root: bool = False
    is_substituted: bool = False
    tests_passed: int = 0
    tests_total: int = 0
    duration_s: float = 0.0
    work_s: float | None = None
    commands: int | None = 0
    """None is unknown: other harnesses do not count them."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    message: str = ""
    is_retriable: bool = False
    """Unscored for a reason that may be gone the next time."""
