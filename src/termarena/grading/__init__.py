"""Grading: tests that enter when the agent can no longer act, and the verdict they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.grading.contract import (
        GradedIn,
        GradingFault,
        GradingMode,
        IntegrityFinding,
        TestResult,
        TestState,
        Verdict,
    )
    from termarena.grading.grader import Grader
    from termarena.grading.job import GradingJob
else:
    from termarena.core.doors import door

    __getattr__ = door(
        __name__,
        contract="GradedIn GradingFault GradingMode IntegrityFinding TestResult TestState Verdict",
        grader="Grader",
        job="GradingJob",
    )

__all__ = [
    "GradedIn",
    "Grader",
    "GradingFault",
    "GradingJob",
    "GradingMode",
    "IntegrityFinding",
    "TestResult",
    "TestState",
    "Verdict",
]
