"""Trying again: when, and after how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.runs.engine import Job
from termarena.runs.plan import TrialKey, TrialPlan
from termarena.runs.result import TrialSummary
from termarena.runs.retry import LONGEST_WAIT_S, RetryPolicy

if TYPE_CHECKING:
    from termarena.runs.outcome import Fault, Outcome

JOB = Job(TrialPlan(TrialKey("one", 1), "digest", 1, 1), 0, retry=0, last_retry=2)
POLICY = RetryPolicy(wait_s=2.0, seed="run")


def _summary(outcome: Outcome, fault: Fault | None = None, *, is_retriable: bool = True) -> TrialSummary:
    return TrialSummary(
        task_id="one", attempt=1, outcome=outcome, fault=fault, failure_mode="NONE", is_retriable=is_retriable
    )


@pytest.mark.parametrize("fault", ["infra", "test"])
def test_unscored_trials_are_tried_again_up_to_the_cap(fault: Fault) -> None:
    first = POLICY.next(JOB, _summary("unscored", fault))
    assert first is not None
    assert first.retry == 1
    assert POLICY.next(JOB._replace(retry=2), _summary("unscored", fault)) is None


@pytest.mark.parametrize(
    "summary",
    [
        _summary("solved"),
        _summary("unsolved"),
        _summary("unscored", "task"),
        _summary("unscored", "infra", is_retriable=False),
    ],
)
def test_nothing_else_is(summary: TrialSummary) -> None:
    assert POLICY.next(JOB, summary) is None


def test_waits_double_with_chance_and_have_a_cap() -> None:
    waits = [POLICY.wait_before(JOB._replace(retry=retry)) for retry in range(1, 9)]
    for wait, whole in zip(waits, [2, 4, 8, 16, 32, 60, 60, 60], strict=True):
        assert whole / 2 <= wait <= whole <= LONGEST_WAIT_S
    assert POLICY.wait_before(JOB._replace(retry=10_000)) <= LONGEST_WAIT_S


def test_the_chance_is_the_seed_s() -> None:
    retry = JOB._replace(retry=1)
    assert POLICY.wait_before(retry) == RetryPolicy(2.0, "run").wait_before(retry)
    others = [RetryPolicy(2.0, "other").wait_before(retry), POLICY.wait_before(retry._replace(retry=2)) / 2]
    plan = retry.plan._replace(key=TrialKey("one", 2))
    others.append(POLICY.wait_before(retry._replace(plan=plan)))
    assert POLICY.wait_before(retry) not in others
