"""From everything that a trial saw to its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from termarena.runs.outcome import FaultDetail, failure_mode_of

if TYPE_CHECKING:
    from termarena.grading.contract import GradingFault, Verdict
    from termarena.runs.faults import Blame
    from termarena.runs.outcome import AgentEnd, FailureMode, Fault, Outcome

__all__ = ["Conclusion", "conclude"]


class Conclusion(NamedTuple):
    """The three things that are never mixed, and what people call them."""

    outcome: Outcome
    agent_end: AgentEnd | None
    fault: Fault | None
    failure_mode: FailureMode
    detail: FaultDetail | None


def conclude(end: AgentEnd | None, verdict: Verdict | None, blame: Blame | None) -> Conclusion:
    """The outcome. Unknown is never success: without a verdict a trial is unscored, whoever was to blame.

    The one exception: a sandbox that ended at work because the agent exhausted it is the agent's own failure.
    """
    if blame is not None and verdict is None and (end != "resource_limit" or blame.detail.phase != "work"):
        return _made("unscored", end, blame.fault, blame.detail)
    if verdict is None:
        return _made("unsolved", end, None, blame.detail if blame else None)
    if verdict.fault is not None and verdict.fault.reason != "toolchain_broken_by_agent":
        return _made("unscored", end, "test", _detail(verdict.fault))
    outcome: Outcome = "solved" if verdict.is_pass else "unsolved"
    mode = failure_mode_of(outcome, end, None, is_tampered=verdict.is_tampered, tests_timed_out=verdict.timed_out)
    return Conclusion(outcome, end, None, mode, None)


def _made(outcome: Outcome, end: AgentEnd | None, fault: Fault | None, detail: FaultDetail | None) -> Conclusion:
    mode = failure_mode_of(outcome, end, fault, is_tampered=False, tests_timed_out=False)
    return Conclusion(outcome, end, fault, mode, detail)


def _detail(fault: GradingFault) -> FaultDetail:
    # A grader that gives no number gives none again, and a second chance would be one for the agent, not for the tests.
    return FaultDetail(
        phase="grade", kind=fault.reason, message=fault.message, is_retriable=fault.reason in ("sandbox", "cannot_run")
    )
