"""How a trial ended: three things that are never mixed, and the word that people use for them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from termarena.agents.contract import AgentEnd

__all__ = ["AgentEnd", "FailureMode", "Fault", "FaultDetail", "Outcome", "Phase", "failure_mode_of"]

Outcome = Literal["solved", "unsolved", "unscored"]
Fault = Literal["task", "infra", "test"]
Phase = Literal["prepare", "work", "seal", "grade", "record"]
FailureMode = Literal[
    "NONE",
    "AGENT_TIMEOUT",
    "AGENT_ERROR",
    "PARSE_ERROR",
    "REFUSED",
    "RESOURCE_LIMIT",
    "CANCELLED",
    "TEST_FAILED",
    "TEST_TIMEOUT",
    "TAMPERED",
    "TASK_FAULT",
    "INFRA_FAULT",
    "TEST_FAULT",
]

_OF_END: dict[AgentEnd, FailureMode] = {
    "timeout": "AGENT_TIMEOUT",
    "error": "AGENT_ERROR",
    "parse_error": "PARSE_ERROR",
    "refused": "REFUSED",
    "resource_limit": "RESOURCE_LIMIT",
    "cancelled": "CANCELLED",
}
_OF_FAULT: dict[Fault, FailureMode] = {"task": "TASK_FAULT", "infra": "INFRA_FAULT", "test": "TEST_FAULT"}


class FaultDetail(BaseModel):
    """The evidence for a fault: where it happened and what was seen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Phase
    kind: str
    """The error's class, such as `BuildError`, or the grading fault's reason."""
    message: str
    hint: str | None = None
    log_tail: str = ""
    traceback: str = ""
    is_retriable: bool = True
    """Whether the same trial could end otherwise: a missing capability or a bad task will not."""


def failure_mode_of(
    outcome: Outcome, end: AgentEnd | None, fault: Fault | None, *, is_tampered: bool, tests_timed_out: bool
) -> FailureMode:
    """The one word for people; solved is NONE even if the agent then ran out of time."""
    if outcome == "solved":
        return "NONE"
    if fault is not None:
        return _OF_FAULT[fault]
    if is_tampered:
        return "TAMPERED"
    if end in _OF_END:
        return _OF_END[end]
    return "TEST_TIMEOUT" if tests_timed_out else "TEST_FAILED"
