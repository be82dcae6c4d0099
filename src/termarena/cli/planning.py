"""`--dry-run`: what would run, where and why, what is missing, and how long it can take at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from termarena.cli.output import Column, print_json, print_line, print_table
from termarena.core.errors import CapabilityMissing
from termarena.core.settings import resolve_settings
from termarena.reports.telling import count, duration
from termarena.runs.machine import budget_here
from termarena.runs.opening import plan_of
from termarena.sandbox.drivers import choose_driver
from termarena.tasks import needs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from termarena.cli.meaning import Meant
    from termarena.runs.plan import RunOptions
    from termarena.tasks import Task

__all__ = ["print_plan"]


@dataclass(frozen=True, slots=True)
class _Row:
    """One task of the plan."""

    task_id: str
    driver: str | None
    """None: nothing here can run it."""
    why: str
    at_most_s: float
    """One trial, set-up aside."""
    expert_min: float | None
    needs: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "task_id": self.task_id,
            "driver": self.driver,
            "why": self.why,
            "time_at_most_s": self.at_most_s,
            "expert_time_min": self.expert_min,
            "needs": list(self.needs),
        }


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run would be."""

    options: RunOptions
    dataset: str
    rows: tuple[_Row, ...]
    broken: Mapping[str, str]
    """Folders that do not load, with what is wrong."""
    at_once: int
    """How many trials surely run side by side."""

    @property
    def trials(self) -> int:
        return (len(self.rows) + len(self.broken)) * self.options.attempts

    @property
    def at_most_s(self) -> float:
        """However the trials fall: their sum shared out, and the longest of them last."""
        whole_s = sum(row.at_most_s for row in self.rows) * self.options.attempts
        longest_s = max(row.at_most_s for row in self.rows)
        return round(whole_s / self.at_once + longest_s * (1 - 1 / self.at_once), 1)

    @property
    def expert_min(self) -> float | None:
        told = [row.expert_min for row in self.rows if row.expert_min is not None]
        return round(sum(told), 1) if told else None

    @property
    def cannot_run(self) -> list[str]:
        return [row.task_id for row in self.rows if row.driver is None]

    def as_json(self) -> dict[str, object]:
        return {
            "agent": self.options.agent,
            "dataset": self.dataset,
            "tasks": len(self.rows),
            "attempts": self.options.attempts,
            "trials": self.trials,
            "at_once": self.at_once,
            "time_at_most_s": self.at_most_s,
            "expert_time_min": self.expert_min,
            "cost_usd": None,
            "cannot_run": self.cannot_run,
            "broken": dict(self.broken),
            "per_task": [row.as_json() for row in self.rows],
        }


def print_plan(options: RunOptions, meant: Meant, *, dataset: str, json: bool) -> None:
    """Say what a run of these tasks would be. Writes nothing, and starts nothing but a probe of the drivers."""
    home = resolve_settings().settings.paths.home
    rows = tuple(_row(task, options, home) for task in meant.tasks)
    broken = {name: one.error.message for name, one in meant.broken.items()}
    plan = _Plan(options, dataset, rows, broken, _at_once(options, meant.tasks))
    if json:
        print_json(plan.as_json())
        return
    _print_rows(rows)
    print_line()
    for line in (*_reasons(rows), *_words(plan)):
        print_line(line)


def _row(task: Task, options: RunOptions, home: Path) -> _Row:
    driver, why = None, ""
    try:
        driver, why = choose_driver(options.driver, task.environment, home=home)
    except CapabilityMissing as error:
        why = error.message + (f" ({error.hint})" if error.hint else "")
    needs = tuple(need.capability for need in needs_of(task))
    return _Row(task.id, driver, why, _limit_s(task, options), task.metadata.expert_time_min, needs)


def _limit_s(task: Task, options: RunOptions) -> float:
    """The agent's and the tests' time of one trial, step by step where there are steps."""
    legs = [(step.agent, step.grading) for step in task.steps] or [(task.agent, task.grading)]
    whole = sum((agent.timeout_s or options.default_timeout_s) + grading.timeout_s for agent, grading in legs)
    return whole * options.timeout_multiplier


def _at_once(options: RunOptions, tasks: Sequence[Task]) -> int:
    """How many trials surely run side by side: as many as fit here of the largest."""
    plans = [plan_of(task, 1, concurrency=options.concurrency) for task in tasks]
    budget = budget_here()
    cpus, memory_mb = max(plan.cpus for plan in plans), max(plan.memory_mb for plan in plans)
    fitting = min(len(plans) * options.attempts, budget.memory_mb // memory_mb)
    if cpus:
        fitting = min(fitting, int(budget.cpus // cpus))
    return max(1, min(fitting, options.concurrency or fitting))


def _print_rows(rows: Sequence[_Row]) -> None:
    print_table(
        ["task", "driver", Column("at most", "right"), "needs"],
        [[row.task_id, row.driver or "none", duration(row.at_most_s), ", ".join(row.needs)] for row in rows],
    )


def _reasons(rows: Sequence[_Row]) -> Iterator[str]:
    """Why each driver, once for all tasks with the same reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.driver or "no driver", row.why), []).append(row.task_id)
    for (driver, why), tasks in groups.items():
        shown = count(len(tasks), "task") if len(tasks) > 1 else tasks[0]
        yield f"{driver} for {shown}: {why}"


def _words(plan: _Plan) -> Iterator[str]:
    tasks = count(len(plan.rows), "task")
    yield f"{plan.options.agent} on {tasks} of {plan.dataset}: {count(plan.trials, 'trial')}, {plan.at_once} at once"
    yield f"time: at most {duration(plan.at_most_s)}, if every trial uses its whole limit; making images comes on top"
    if plan.expert_min is not None:
        estimated = sum(row.expert_min is not None for row in plan.rows)
        told = f"by their authors' estimate, which {estimated} of {len(plan.rows)} have"
        yield f"the tasks would take an expert {duration(plan.expert_min * 60)} ({told})"
    yield "cost: unknown; no model is metered"
    if plan.cannot_run:
        yield f"cannot run here, and would be unscored: {', '.join(plan.cannot_run)}"
    yield "nothing was started and nothing was written"
