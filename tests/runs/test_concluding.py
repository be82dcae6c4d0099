"""Outcome, agent_end and fault are three things, and none stands in for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import (
    BuildError,
    CapabilityMissing,
    EngineError,
    SandboxBroken,
    SandboxFileError,
    SandboxStartError,
    TaskError,
    TerminalEnded,
)
from termarena.grading.contract import GradingFault, Verdict
from termarena.runs.concluding import Conclusion, conclude
from termarena.runs.faults import blame, describe, is_machinery

if TYPE_CHECKING:
    from termarena.runs.outcome import AgentEnd, FailureMode, Fault, Outcome, Phase

SOLVED = Verdict(reward=1.0, graded_in="sealed")
FAILED = Verdict(reward=0.0, graded_in="sealed")
PARTIAL = Verdict(reward=0.99, graded_in="sealed")
TAMPERED = Verdict(reward=0.0, raw_reward=1.0, is_tampered=True, graded_in="live")
HANGING = Verdict(reward=0.0, timed_out=True, graded_in="sealed")


def faulty(reason: str) -> Verdict:
    return Verdict.model_validate(
        {"reward": None, "graded_in": "sealed", "fault": {"reason": reason, "message": "the tests wrote nothing"}}
    )


@pytest.mark.parametrize(
    ("end", "verdict", "outcome", "mode"),
    [
        ("submitted", SOLVED, "solved", "NONE"),
        ("timeout", SOLVED, "solved", "NONE"),
        ("error", SOLVED, "solved", "NONE"),
        ("submitted", FAILED, "unsolved", "TEST_FAILED"),
        ("submitted", PARTIAL, "unsolved", "TEST_FAILED"),
        ("timeout", FAILED, "unsolved", "AGENT_TIMEOUT"),
        ("error", FAILED, "unsolved", "AGENT_ERROR"),
        ("parse_error", FAILED, "unsolved", "PARSE_ERROR"),
        ("refused", FAILED, "unsolved", "REFUSED"),
        ("resource_limit", FAILED, "unsolved", "RESOURCE_LIMIT"),
        ("submitted", TAMPERED, "unsolved", "TAMPERED"),
        ("timeout", TAMPERED, "unsolved", "TAMPERED"),
        ("submitted", HANGING, "unsolved", "TEST_TIMEOUT"),
    ],
)
def test_a_verdict_decides_and_the_agents_end_only_explains(
    end: AgentEnd, verdict: Verdict, outcome: Outcome, mode: FailureMode
) -> None:
    assert conclude(end, verdict, None) == Conclusion(outcome, end, None, mode, None)


@pytest.mark.parametrize("reason", ["no_reward", "bad_reward", "nothing_parsed", "cannot_run", "sandbox", "no_tests"])
def test_a_grader_that_gives_no_number_is_never_a_zero(reason: str) -> None:
    found = conclude("submitted", faulty(reason), None)
    assert (found.outcome, found.fault, found.failure_mode) == ("unscored", "test", "TEST_FAULT")
    assert found.detail is not None
    assert found.detail.kind == reason


def test_an_agent_is_not_given_a_second_chance_because_the_tests_wrote_nonsense() -> None:
    retriable = {reason: conclude("submitted", faulty(reason), None).detail for reason in ("bad_reward", "cannot_run")}
    assert [reason for reason, detail in retriable.items() if detail is not None and detail.is_retriable] == [
        "cannot_run"
    ]


def test_a_toolchain_that_the_agent_broke_is_its_own_failure() -> None:
    found = conclude("submitted", faulty("toolchain_broken_by_agent"), None)
    assert (found.outcome, found.fault, found.failure_mode) == ("unsolved", None, "TEST_FAILED")


@pytest.mark.parametrize(
    ("error", "fault", "is_retriable"),
    [
        (TaskError("the setup failed"), "task", False),
        (BuildError("Dockerfile", "RUN false", step="Step 2/2", log_tail="", cause="task"), "task", False),
        (BuildError("Dockerfile", "no route", step="Step 1/2", log_tail="", cause="infra"), "infra", True),
        (SandboxStartError("no memory"), "infra", True),
        (SandboxBroken("ta-1", "its process 1 ended"), "infra", True),
        (EngineError("unix:///x", "does not answer"), "infra", True),
        (CapabilityMissing("an image", driver="namespace", why="it has none"), "infra", False),
        (RuntimeError("a defect of ours"), "infra", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_ends_a_trial_before_its_verdict_leaves_it_unscored(
    error: Exception, fault: Fault, *, is_retriable: bool
) -> None:
    found = conclude(None, None, blame(error, "prepare"))
    assert (found.outcome, found.agent_end, found.fault) == ("unscored", None, fault)
    assert found.detail is not None
    assert (found.detail.phase, found.detail.kind, found.detail.is_retriable) == (
        "prepare",
        type(error).__name__,
        is_retriable,
    )


def test_a_defect_of_ours_keeps_its_traceback_and_a_foreseen_error_has_none() -> None:
    assert "RuntimeError: here" in blame(RuntimeError("here"), "seal").detail.traceback
    assert blame(TaskError("bad"), "prepare").detail.traceback == ""


def test_an_error_that_cannot_say_what_it_is_has_its_name() -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    found = describe(Speechless(), "work")
    assert (found.kind, found.message) == ("Speechless", "Speechless")


def test_an_agent_that_exhausts_its_sandbox_is_unsolved_and_not_an_infra_fault() -> None:
    found = conclude("resource_limit", None, blame(SandboxBroken("ta-1", "out of memory"), "work"))
    assert (found.outcome, found.fault, found.failure_mode) == ("unsolved", None, "RESOURCE_LIMIT")


@pytest.mark.parametrize("phase", ["seal", "grade"])
def test_what_breaks_after_the_work_is_not_put_on_an_agent_that_met_its_limit(phase: Phase) -> None:
    found = conclude("resource_limit", None, blame(EngineError("unix:///x", "gone"), phase))
    assert (found.outcome, found.agent_end, found.fault) == ("unscored", "resource_limit", "infra")


@pytest.mark.parametrize(
    ("error", "is_ours"),
    [
        (SandboxBroken("ta-1", "gone"), True),
        (EngineError("unix:///x", "gone"), True),
        (SandboxFileError("read", "/x", problem="no such file"), False),
        (TerminalEnded(0), False),
        (ValueError("the agent's own"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_missing_file_is_the_agents_problem_and_a_missing_sandbox_is_ours(error: Exception, *, is_ours: bool) -> None:
    assert is_machinery(error) is is_ours


def test_a_fault_of_grading_is_named_in_the_detail() -> None:
    fault = GradingFault(reason="no_reward", message="no reward was written")
    found = conclude("submitted", Verdict(reward=None, graded_in="live", fault=fault), None)
    assert found.detail is not None
    assert found.detail.message == "no reward was written"
