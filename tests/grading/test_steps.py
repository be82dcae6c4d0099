"""Tasks of several steps: gates, and what the steps come to."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from termarena.grading import GradingFault, TestResult, Verdict
from termarena.grading.control import against_control, needs_control
from termarena.grading.steps import combine, goes_on

if TYPE_CHECKING:
    from grading.bench import Bench
    from termarena.tasks import Task


def _verdict(reward: float | None, *, rewards: dict[str, float] | None = None, **more: Any) -> Verdict:  # noqa: ANN401 - fields of Verdict
    named = rewards if rewards is not None else {} if reward is None else {"reward": reward}
    return Verdict(reward=reward, raw_reward=reward, rewards=named, graded_in="sealed", **more)


def _task(bench: Bench, *, strategy: str = "mean", gates: tuple[str, ...] = ("", "", "")) -> Task:
    steps = "".join(f'[[steps]]\nname = "step{number}"\n{gate}\n' for number, gate in enumerate(gates))
    texts = {f"steps__step{number}__instruction_md": "Do it.\n" for number in range(len(gates))}
    task = bench.harbor(more=steps, **texts)
    return task.model_copy(update={"reward_strategy": strategy})


@pytest.mark.parametrize(
    ("gate", "verdict", "expected"),
    [
        ("", _verdict(0.0), True),
        ("", _verdict(None, fault=GradingFault(reason="no_reward", message="x")), False),
        ("min_reward = 0.5", _verdict(0.5), True),
        ("min_reward = 0.5", _verdict(0.49), False),
        ("min_reward = 0.5", _verdict(0.7, rewards={"accuracy": 0.7}), True),
        ("min_reward = { speed = 2.0 }", _verdict(1.0, rewards={"reward": 1.0, "speed": 2.0}), True),
        ("min_reward = { speed = 2.0 }", _verdict(1.0, rewards={"reward": 1.0, "speed": 1.9}), False),
        ("min_reward = { speed = 2.0 }", _verdict(1.0), False),
        ("min_reward = { speed = 2.0 }", _verdict(0.0, rewards={"speed": 9.0}, is_tampered=True), False),
    ],
)
def test_a_gate_lets_through_what_reaches_it(bench: Bench, gate: str, verdict: Verdict, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert goes_on(_task(bench, gates=(gate,)).steps[0], verdict) is expected


def test_the_mean_is_over_all_steps_those_not_reached_too(bench: Bench) -> None:
    task = _task(bench)
    done = {"step0": _verdict(1.0), "step1": _verdict(0.5), "step2": _verdict(0.0)}
    assert combine(task, done).reward == 0.5
    assert combine(task, {"step0": _verdict(0.9)}).reward == pytest.approx(0.3)
    assert combine(task, dict.fromkeys(("step0", "step1", "step2"), _verdict(1.0))).is_pass


def test_a_trial_that_stopped_at_a_gate_is_no_pass(bench: Bench) -> None:
    stopped = {"step0": _verdict(1.0, rewards={"reward": 1.0, "speed": 0.1})}
    assert not combine(_task(bench), stopped).is_pass
    assert not combine(_task(bench, strategy="final"), stopped).is_pass


def test_the_final_strategy_takes_the_last_step(bench: Bench) -> None:
    task = _task(bench, strategy="final")
    done = {"step0": _verdict(0.0), "step1": _verdict(0.0), "step2": _verdict(1.0, rewards={"reward": 1.0, "x": 2.0})}
    assert (combine(task, done).reward, combine(task, done).rewards) == (1.0, {"reward": 1.0, "x": 2.0})


def test_named_rewards_are_averaged_by_name(bench: Bench) -> None:
    done = {"step0": _verdict(1.0, rewards={"a": 3.0}), "step1": _verdict(0.0, rewards={"a": 0.0, "b": 6.0})}
    assert combine(_task(bench), done).rewards == {"a": 1.0, "b": 2.0}


def test_a_step_without_a_verdict_leaves_the_whole_without_one(bench: Bench) -> None:
    fault = GradingFault(reason="no_reward", message="x")
    whole = combine(_task(bench), {"step0": _verdict(1.0), "step1": _verdict(None, fault=fault)})
    assert (whole.reward, whole.fault, whole.rewards) == (None, fault, {})


def test_tampering_in_one_step_is_told_of_the_whole_and_tests_keep_their_step(bench: Bench) -> None:
    tests = (TestResult(name="a", state="passed"),)
    done = {"step0": _verdict(1.0, tests=tests), "step1": _verdict(0.0, is_tampered=True, tests=tests)}
    whole = combine(_task(bench), done)
    assert (whole.is_tampered, whole.is_pass) == (True, False)
    assert [one.name for one in whole.tests] == ["step0: a", "step1: a"]
    assert set(whole.steps) == {"step0", "step1"}


def test_a_task_of_one_piece_is_its_only_verdict(bench: Bench) -> None:
    verdict = _verdict(0.5)
    assert combine(bench.harbor(), MappingProxyType({"": verdict})) is verdict
    with pytest.raises(ValueError, match="no verdict"):
        combine(bench.harbor(), {})


def test_a_counter_trial_decides_only_what_is_open() -> None:
    lost = _verdict(None, fault=GradingFault(reason="no_reward", message="x"))
    fine, slow = _verdict(0.0), _verdict(0.0, timed_out=True)
    assert needs_control(lost)
    assert not needs_control(fine)
    assert not needs_control(_verdict(None, fault=GradingFault(reason="tests_changed", message="x")))
    assert against_control(fine, fine) is fine
    assert against_control(lost, lost) is lost
    assert against_control(lost, slow) is lost
    settled = against_control(lost, fine)
    assert settled.fault is not None
    assert settled.fault.reason == "toolchain_broken_by_agent"
