"""Tasks of several steps: which step follows, and what all of them come to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from termarena.grading.contract import TestResult, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.tasks.model import Step, Task

__all__ = ["combine", "goes_on"]


def goes_on(step: Step, verdict: Verdict) -> bool:
    """Whether the steps after this one are run: it has a verdict, and every reward that `min_reward` names is reached.

    A single number is asked of the reward itself, a table of the rewards by these names; one that is missing is not
    reached, and a tampered one is worth nothing.
    """
    if verdict.reward is None:
        return False
    if step.min_reward is None:
        return True
    if isinstance(step.min_reward, (int, float)):
        return verdict.reward >= step.min_reward
    worth = dict.fromkeys(verdict.rewards, 0.0) if verdict.is_tampered else verdict.rewards
    return all(worth.get(name, -math.inf) >= least for name, least in step.min_reward.items())


def combine(task: Task, verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on the whole task, from those of its steps by name, in order; of a task of one piece, the only one.

    `mean` is over all steps of the task and `final` is the last one's: a step that was not reached has earned nothing.
    (Harbor leaves such steps out, so that a trial that ends early can score higher than one that goes on.) Without a
    verdict on one step there is none on the whole. Raises `ValueError` for no verdict at all.
    """
    if not verdicts:
        raise ValueError("there is no verdict to combine")
    if not task.steps:
        return next(iter(verdicts.values()))
    graded = list(verdicts.values())
    fault = next((verdict.fault for verdict in graded if verdict.fault is not None), None)
    last = verdicts.get(task.steps[-1].name)
    is_final = task.reward_strategy == "final"
    counted = ([last] if last else []) if is_final else graded
    number = 1 if is_final else len(task.steps)
    return Verdict(
        reward=None if fault else _mean([verdict.reward for verdict in counted], number),
        raw_reward=None if fault else _mean([verdict.raw_reward for verdict in counted], number),
        rewards={} if fault else _named(counted, number),
        graded_in=graded[-1].graded_in,
        tests=tuple(_named_test(name, test) for name, verdict in verdicts.items() for test in verdict.tests),
        findings=tuple(dict.fromkeys(finding for verdict in graded for finding in verdict.findings)),
        is_tampered=any(verdict.is_tampered for verdict in graded),
        timed_out=any(verdict.timed_out for verdict in graded),
        exit_status=graded[-1].exit_status,
        oom_killed=any(verdict.oom_killed for verdict in graded),
        fault=fault,
        output_bytes=sum(verdict.output_bytes for verdict in graded),
        duration_s=sum(verdict.duration_s for verdict in graded),
        steps=dict(verdicts),
    )


def _mean(values: Sequence[float | None], number: int) -> float:
    return math.fsum(value for value in values if value is not None) / number


def _named(verdicts: Sequence[Verdict], number: int) -> dict[str, float]:
    names = dict.fromkeys(name for verdict in verdicts for name in verdict.rewards)
    return {name: _mean([verdict.rewards.get(name) for verdict in verdicts], number) for name in names}


def _named_test(step: str, test: TestResult) -> TestResult:
    return test.model_copy(update={"name": f"{step}: {test.name}"})
