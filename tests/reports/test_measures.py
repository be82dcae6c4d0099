"""What a report adds to its counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.made_runs import Made, made_run
from termarena.reports import Report, Totals, as_markdown, build_report
from termarena.reports.measures import per_solved_of
from termarena.runs.config_lock import Origin
from termarena.stats import accuracy_of, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def report_of(folder: Path, outcomes: Mapping[str, str], **made: object) -> Report:
    return build_report(made_run(folder / "run", outcomes, Made(**made)))  # type: ignore[arg-type]  # its fields


def test_an_accuracy_comes_with_its_interval_and_both_errors(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"a": "110", "b": "000", "c": "111", "d": "0?1"})
    known = accuracy_of([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1]])
    assert known is not None
    assert known.wilson is not None
    assert report.spread is not None
    assert (report.spread.low, report.spread.high) == (known.wilson.low, known.wilson.high)
    assert report.spread.standard_error == pytest.approx(known.standard_error)
    assert report.spread.rerun_error == pytest.approx(known.rerun_error)
    assert "95 % interval" in as_markdown(report)


def test_a_perfect_run_is_not_certain(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"a": "1", "b": "1"})
    assert report.spread is not None
    assert (report.spread.low, report.spread.high) == (wilson(2, 2).low, 1.0)


def test_a_run_without_a_score_has_no_interval_and_divides_by_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"a": "??", "b": "--"})
    assert (report.spread, report.per_solved) == (None, None)
    assert [(rate.k, rate.any_solved, rate.tasks, rate.too_few) for rate in report.pass_rates] == [
        (1, None, 0, 2),
        (2, None, 0, 2),
    ]
    assert as_markdown(report)


def test_pass_rates_say_which_tasks_they_leave_out(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"a": "110", "b": "000", "c": "1?1"})
    rates = {rate.k: rate for rate in report.pass_rates}
    assert rates[1].any_solved == report.accuracy == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert rates[2].any_solved == pytest.approx(2 / 3)
    assert rates[2].all_solved == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert (rates[3].any_solved, rates[3].all_solved, rates[3].tasks, rates[3].too_few) == (0.5, 0.0, 2, 1)
    assert "| 3 | 50.0 % | 0.0 % | 2 | 1 |" in as_markdown(report)


def test_groups_have_intervals_of_their_own(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"a": "11", "b": "00"})
    assert report.by_category["unknown"].spread == report.spread


def test_what_a_solved_trial_took_counts_the_failed_ones_too(tmp_path: Path) -> None:
    each = report_of(tmp_path, {"a": "10", "b": "00"}).per_solved
    assert each is not None
    assert (each.duration_s, each.work_s, each.commands) == (4.0, 2.0, 12.0)
    assert (each.input_tokens, each.cost_usd) == (None, None)


def test_a_part_of_a_sum_is_no_sum() -> None:
    whole = Totals(commands=6, input_tokens=100, output_tokens=10, cost_usd=3.0)
    each = per_solved_of(whole, 2)
    assert each is not None
    assert (each.input_tokens, each.output_tokens, each.cost_usd) == (50, 5, 1.5)
    part = per_solved_of(whole.model_copy(update={"trials_without_tokens": 1, "trials_without_cost": 1}), 2)
    assert part is not None
    assert (part.commands, part.input_tokens, part.output_tokens, part.cost_usd) == (3, None, None, None)


def test_imported_results_say_so(tmp_path: Path) -> None:
    origin = Origin(tool="harbor", version=None, name="j", path="/j", changed_limits={"timeout_multiplier": "2"})
    report = report_of(tmp_path, {"a": "1-"}, origin=origin)
    assert report.imported_from == "harbor"
    assert {"imported", "changed_limits"} <= {one.reason for one in report.not_ranked}
    text = as_markdown(report)
    assert "not complete when it was imported from harbor" in text
    assert "termarena resume" not in text
