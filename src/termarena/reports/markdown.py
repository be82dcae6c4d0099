"""`report.md`: a report for a person to read.

Names and messages come from tasks and agents, so they can be nothing but text: no markup, no HTML, no cell and no line
of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.core.markdown import code, plain, table
from termarena.reports.telling import (
    UNKNOWN,
    count,
    duration,
    headline,
    money,
    outcome_words,
    percent,
    score_words,
    spread_words,
    tests_words,
    tokens,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from termarena.reports.measures import PerSolved
    from termarena.reports.report import Report, Score, TaskRow

__all__ = ["MOST_TASK_ROWS", "as_markdown"]

MOST_TASK_ROWS: Final = 1_000
"""A longer table is of no use to a reader; `report.json` has every task."""
MOST_LISTED: Final = 50


def as_markdown(report: Report) -> str:
    """The whole page, ending in a newline."""
    sections = [
        _head(report),
        _pass_rates(report),
        _scores("Categories", report.by_category),
        _scores("Difficulties", report.by_difficulty),
        _ends(report),
        _tasks(report),
        _unscored(report),
        _tampered(report),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(report: Report) -> str:
    lines = [f"# {plain(report.agent)} on {plain(report.dataset)}", "", f"**{headline(report)}**", ""]
    lines += [f"- {name}: {plain(value)}" for name, value in _facts(report)]
    if not report.is_complete and report.imported_from:
        lines += ["", f"The run was not complete when it was imported from {plain(report.imported_from)}."]
    elif not report.is_complete:
        lines += ["", f"The run is not complete: go on with `termarena resume {code(report.run_id)}`."]
    if report.not_ranked:
        lines += ["", "Not to be ranked:", "", *(f"- {plain(one.message)}" for one in report.not_ranked)]
    return "\n".join(lines)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    totals = report.totals
    yield "run", report.run_id
    if report.model:
        yield "model", report.model
    yield "plan", f"{count(report.tasks, 'task')}, {count(report.attempts, 'attempt')} each, driver {report.driver}"
    if report.started_at:
        yield "time", f"{report.started_at} to {report.finished_at or 'now'}"
    if report.spread is not None:
        yield "accuracy", spread_words(report.spread)
    yield "mean reward", UNKNOWN if report.mean_reward is None else f"{report.mean_reward:.3f}"
    yield "trials took", f"{duration(totals.duration_s)} together, of which the agent {duration(totals.work_s)}"
    yield "commands", tokens(totals.commands)
    if report.model is None and (totals.input_tokens, totals.output_tokens, totals.cost_usd) == (None, None, None):
        yield "tokens, cost", "not told by the agent, which was given no model"
    else:
        yield "tokens", f"{tokens(totals.input_tokens)} in, {tokens(totals.output_tokens)} out"
        yield "cost", money(totals.cost_usd)
    if totals.cost_usd is not None and totals.trials_without_cost:
        yield "cost is a lower bound", f"{count(totals.trials_without_cost, 'trial')} told none"
    if report.retries:
        yield "retries", f"{report.retries:,}"
    if live := report.by_graded_in.get("live"):
        yield "graded live", f"{count(live, 'trial')}, beside what the agent had left running"
    if report.per_solved is not None:
        yield "for each solved trial", _per_solved(report.per_solved)


def _per_solved(each: PerSolved) -> str:
    """What is known of it."""
    known = [duration(each.duration_s)]
    if each.commands is not None:
        known.append(f"{each.commands:,.1f} commands")
    if (each.input_tokens, each.output_tokens) != (None, None):
        known.append(f"{tokens(_whole(each.input_tokens))} tokens in, {tokens(_whole(each.output_tokens))} out")
    if each.cost_usd is not None:
        known.append(f"cost {money(each.cost_usd)}")
    return ", ".join(known)


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def _pass_rates(report: Report) -> str:
    if report.attempts == 1:
        return ""
    rows = [
        [str(one.k), percent(one.any_solved), percent(one.all_solved), str(one.tasks), str(one.too_few or "")]
        for one in report.pass_rates
    ]
    return _table("Several attempts", ["k", "pass@k", "pass^k", "tasks", "too few attempts"], rows)


def _scores(title: str, scores: Mapping[str, Score]) -> str:
    if len(scores) < 2:  # noqa: PLR2004 - one group is the whole
        return ""
    rows = [
        [plain(name), str(one.tasks), score_words(one), str(one.solved), str(one.unsolved), str(one.unscored)]
        for name, one in scores.items()
    ]
    return _table(title, [title[:-3] + "y", "tasks", "accuracy", "solved", "unsolved", "unscored"], rows)


def _ends(report: Report) -> str:
    modes = {mode: number for mode, number in report.by_failure_mode.items() if mode != "NONE"}
    if not modes:
        return ""
    return _table("What went wrong", ["failure", "trials"], [[plain(k), str(v)] for k, v in modes.items()])


def _tasks(report: Report) -> str:
    shown = report.per_task[:MOST_TASK_ROWS]
    columns = ["task", "category", "difficulty", "accuracy", "outcomes", "tests", "time", "failures"]
    table = _table("Tasks", columns, [_task(row) for row in shown])
    hidden = len(report.per_task) - len(shown)
    return f"{table}\n\n{count(hidden, 'more task')}: see `per_task` in `report.json`." if hidden else table


def _task(row: TaskRow) -> list[str]:
    return [
        plain(row.task_id),
        plain(row.category),
        plain(row.difficulty),
        percent(row.accuracy),
        outcome_words(row),
        tests_words(row.tests_passed, row.tests_total),
        duration(row.duration_s),
        ", ".join(mode if number == 1 else f"{number} {mode}" for mode, number in row.failure_modes.items()),
    ]


def _unscored(report: Report) -> str:
    if not report.unscored:
        return ""
    lines = [
        f"- {plain(one.task_id)}, attempt {one.attempt}: {one.failure_mode}: {plain(one.message or 'no message')}"
        for one in report.unscored_trials[:MOST_LISTED]
    ]
    lines += _more(report.unscored, MOST_LISTED)
    told = "These count neither as solved nor as unsolved; the bounds of the accuracy tell what they could change."
    return "\n".join(["## Unscored", "", told, "", *lines])


def _tampered(report: Report) -> str:
    if not report.tampered:
        return ""
    lines = [f"- {plain(name)}" for name in report.tampered_trials[:MOST_LISTED]]
    lines += _more(report.tampered, MOST_LISTED)
    told = "The agent changed what the grading stands on; `result.json` of each has the findings."
    return "\n".join(["## Tampered", "", told, "", *lines])


def _more(total: int, shown: int) -> Iterable[str]:
    return [f"- and {total - shown:,} more"] if total > shown else []


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f"## {title}\n\n{table(columns, rows)}"
