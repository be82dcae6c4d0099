"""What the numbers of a report mean: accuracy, its bounds, breakdowns, sums of which parts are unknown."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from support.reported import trial, view
from termarena.reports import MOST_TRIAL_ROWS, build_report


def test_accuracy_is_the_mean_over_tasks_whatever_their_numbers_of_trials() -> None:
    trials = [trial("a", "solved"), trial("b", "unsolved", 1), trial("b", "solved", 2), trial("b", "unsolved", 3)]
    report = build_report(view(["a", "b"], trials, attempts=3))
    assert report.accuracy == report.pass_at_1 == pytest.approx((1 + 1 / 3) / 2)
    assert (report.solved, report.unsolved, report.unscored, report.pending, report.total) == (2, 2, 0, 2, 6)
    assert report.accuracy_low == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert report.accuracy_high == pytest.approx((1 + 1 / 3) / 2)


def test_infrastructure_faults_are_never_scored_as_zero() -> None:
    """One task whose environment does not build, beside a good one, is no half of the accuracy."""
    report = build_report(view(["good", "bad"], [trial("good", "solved"), trial("bad", "unscored", fault="task")]))
    assert (report.accuracy, report.accuracy_low, report.accuracy_high) == (1.0, 0.5, 1.0)
    assert (report.tasks, report.tasks_scored, report.unscored) == (2, 1, 1)
    assert report.by_fault == {"none": 1, "task": 1}
    assert [(one.task_id, one.fault) for one in report.unscored_trials] == [("bad", "task")]


def test_nothing_scored_has_no_accuracy_and_the_widest_bounds() -> None:
    report = build_report(view(["a", "b"], [trial("a", "unscored")]))
    assert (report.accuracy, report.pass_at_1, report.mean_reward) == (None, None, None)
    assert (report.accuracy_low, report.accuracy_high) == (0.0, 1.0)
    assert (report.pending, report.is_complete) == (1, False)


def test_bounds_hold_the_accuracy_and_meet_when_everything_is_scored() -> None:
    chance = random.Random(7)  # noqa: S311 - a choice of examples
    for _ in range(200):
        names = [f"t{number}" for number in range(chance.randint(1, 6))]
        ends = [
            (name, k, chance.choice(["solved", "unsolved", "unscored", "pending"])) for name in names for k in (1, 2)
        ]
        ended = [trial(name, end, k) for name, k, end in ends if end != "pending"]
        report = build_report(view([*names], ended, attempts=2))
        assert report.accuracy_low is not None
        assert report.accuracy_high is not None
        if report.accuracy is not None:
            assert report.accuracy_low <= report.accuracy + 1e-12
            assert report.accuracy <= report.accuracy_high + 1e-12
        is_known = all(end in {"solved", "unsolved"} for *_, end in ends)
        assert (report.accuracy_low == report.accuracy_high) == is_known


def test_the_order_of_the_trials_does_not_matter() -> None:
    trials = [
        trial("a", "solved", 1, cost_usd=0.1, duration_s=0.1),
        trial("a", "unsolved", 2, cost_usd=0.2, duration_s=0.2),
        trial("b", "unscored", 1, duration_s=0.7),
        trial("c", "unsolved", 1, is_tampered=True, failure_mode="TAMPERED", cost_usd=0.7, duration_s=1e9),
    ]
    reports = {build_report(view(["a", "b", "c"], order)).model_dump_json() for order in itertools.permutations(trials)}
    assert len(reports) == 1


def test_breakdowns() -> None:
    trials = [
        trial("a1", "solved"),
        trial("a2", "unsolved", agent_end="timeout", failure_mode="AGENT_TIMEOUT"),
        trial("b1", "unsolved", is_tampered=True, failure_mode="TAMPERED"),
        trial("b2", "unscored", fault="test", failure_mode="TEST_FAULT"),
    ]
    report = build_report(view(["a1", "a2", "b1", "b2"], trials))
    assert {name: (one.accuracy, one.tasks) for name, one in report.by_category.items()} == {
        "a": (0.5, 2),
        "b": (0.0, 2),
    }
    assert report.by_category["b"].accuracy_high == 0.5
    assert [*report.by_difficulty] == ["unknown"]
    assert report.by_failure_mode == {"AGENT_TIMEOUT": 1, "NONE": 1, "TAMPERED": 1, "TEST_FAULT": 1}
    assert report.by_agent_end == {"submitted": 2, "not_started": 1, "timeout": 1}
    assert report.by_graded_in == {"sealed": 3, "not_graded": 1}
    assert (report.tampered, report.tampered_trials) == (1, ("b1/1",))


def test_unknown_tokens_and_cost_are_not_zero() -> None:
    unknown = build_report(view(["a"], [trial("a", "solved")])).totals
    assert (unknown.input_tokens, unknown.output_tokens, unknown.cost_usd) == (None, None, None)
    priced = trial("a", "solved", input_tokens=10, output_tokens=0, cost_usd=0.25)
    mixed = build_report(view(["a", "b"], [priced, trial("b", "solved")])).totals
    assert (mixed.input_tokens, mixed.output_tokens, mixed.cost_usd) == (10, 0, 0.25)
    assert (mixed.trials_without_tokens, mixed.trials_without_cost) == (1, 1)
    assert (mixed.commands, mixed.duration_s, mixed.work_s) == (6, 4.0, 2.0)


def test_partial_rewards_show_in_the_mean_reward_alone() -> None:
    report = build_report(view(["a", "b"], [trial("a", "unsolved", reward=0.5), trial("b", "solved")]))
    assert (report.accuracy, report.mean_reward) == (0.5, 0.75)


def test_rows_of_tasks() -> None:
    trials = [
        trial("a", "unsolved", 2, tests_passed=3, tests_total=4),
        trial("a", "solved", 1, tests_passed=4, tests_total=4),
        trial("a", "unscored", 3),
    ]
    (row,) = build_report(view(["a"], trials, attempts=3)).per_task
    assert (row.solved, row.unsolved, row.unscored, row.total, row.accuracy) == (1, 1, 1, 3, 0.5)
    assert row.failure_modes == {"INFRA_FAULT": 1, "TEST_FAILED": 1}
    assert (row.category, row.difficulty, row.commands) == ("a", "unknown", 9)


def test_a_trial_that_no_plan_knows_still_counts() -> None:
    report = build_report(view(["a"], [trial("a", "solved"), trial("z", "unsolved")]))
    assert (report.accuracy, report.total) == (0.5, 2)
    assert report.per_task[1].category == "unknown"


@pytest.mark.parametrize(
    ("options", "more", "reason"),
    [
        ({}, {"is_host_root": True}, "host_root"),
        ({"timeout_multiplier": 2}, {}, "timeout_multiplier"),
        ({"default_timeout_s": 60}, {}, "changed_limits"),
        ({"agent": "random:7"}, {}, "baseline"),
        ({"agent": "oracle"}, {}, "baseline"),
        ({"integrity": "report"}, {}, "integrity_not_enforced"),
    ],
)
def test_what_is_not_ranked_says_why(options: dict[str, Any], more: dict[str, Any], reason: str) -> None:
    assert build_report(view(["a"], [trial("a", "solved")])).not_ranked == ()
    found = build_report(view(["a"], [trial("a", "solved", **more)], **options)).not_ranked
    assert [one.reason for one in found] == [reason]


def test_many_trials_have_no_row_each() -> None:
    attempts = MOST_TRIAL_ROWS + 1
    few = build_report(view(["a"], (trial("a", "solved", k) for k in range(1, attempts)), attempts=attempts))
    assert few.trials is not None
    assert [row.attempt for row in few.trials] == [*range(1, attempts)]
    many = build_report(view(["a"], (trial("a", "solved", k) for k in range(1, attempts + 1)), attempts=attempts))
    assert (many.trials, many.solved) == (None, attempts)
