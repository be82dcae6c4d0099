"""From a run as its journal tells it to a `Report`."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import fsum
from typing import TYPE_CHECKING, Final

from termarena.reports.measures import pass_rates_of, per_solved_of
from termarena.reports.report import NotRanked, Report, Score, Unscored
from termarena.reports.tally import Sums, TaskTally, score_of
from termarena.reports.telling import count
from termarena.runs.plan import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from termarena.runs.config_lock import ConfigLock, LockedTask
    from termarena.runs.reading import RunView
    from termarena.runs.result import TrialSummary

__all__ = ["BASELINES", "MOST_NAMED_TRIALS", "MOST_TRIAL_ROWS", "build_report"]

MOST_TRIAL_ROWS: Final = 5_000
"""A run of more trials has no row for each in its report; about 600 bytes of `report.json` each."""
MOST_NAMED_TRIALS: Final = 1_000
"""How many unscored and how many tampered trials a report names."""
BASELINES: Final = ("always-right", "always-wrong", "random", "oracle", "nop")
"""Agents that measure the harness or the tasks, and no agent."""
UNKNOWN: Final = "unknown"


class _Seen:
    """What is counted over all trials of a run."""

    def __init__(self) -> None:
        self.sums = Sums()
        self.modes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.graded_in: Counter[str] = Counter()
        self.tampered = self.count = self.on_host = self.substituted = 0
        self.unscored_trials: list[Unscored] = []
        self.tampered_trials: list[str] = []
        self.rows: list[TrialSummary] = []

    def add(self, trial: TrialSummary) -> None:
        self.count += 1
        self.sums.add(trial)
        self.modes[trial.failure_mode] += 1
        self.faults[trial.fault or "none"] += 1
        self.ends[trial.agent_end or "not_started"] += 1
        self.graded_in[trial.graded_in or "not_graded"] += 1
        self.tampered += trial.is_tampered
        self.on_host += trial.is_host_root
        self.substituted += trial.is_substituted
        if self.count <= MOST_TRIAL_ROWS:
            self.rows.append(trial)
        if trial.outcome == "unscored" and len(self.unscored_trials) < MOST_NAMED_TRIALS:
            self.unscored_trials.append(_unscored(trial))
        if trial.is_tampered and len(self.tampered_trials) < MOST_NAMED_TRIALS:
            self.tampered_trials.append(f"{trial.task_id}/{trial.attempt}")


def build_report(view: RunView) -> Report:
    """The report of a run, complete or not: the same for the same journal. See `report` for what its numbers mean.

    What is kept grows with the tasks of the run, not with its trials. A trial of a task that the plan does not know
    counts all the same.
    """
    lock, history = view.lock, view.history
    seen = _Seen()
    tallies = {task.id: _tally(task, lock.options.attempts) for task in lock.tasks}
    for trial in history.summaries():
        seen.add(trial)
        if trial.task_id not in tallies:
            tallies[trial.task_id] = TaskTally(trial.task_id, category=UNKNOWN, difficulty=UNKNOWN, planned=0)
        tallies[trial.task_id].add(trial)
    ordered = [tallies[name] for name in sorted(tallies)]
    score, totals = score_of(ordered), seen.sums.totals()
    return Report(
        **score.model_dump(),
        run_id=view.folder.id,
        agent=lock.options.agent,
        agent_version=lock.versions.agent,
        model=lock.options.model,
        dataset=lock.dataset.name,
        dataset_digest=lock.dataset.digest,
        driver=lock.driver,
        imported_from=None if lock.origin is None else lock.origin.tool,
        started_at=history.started_at,
        finished_at=None if score.pending else history.finished_at,
        attempts=lock.options.attempts,
        retries=history.retries,
        tampered=seen.tampered,
        pass_at_1=score.accuracy,
        mean_reward=_mean_reward(ordered),
        pass_rates=pass_rates_of([(tally.solved, tally.scored) for tally in ordered], lock.options.attempts),
        per_solved=per_solved_of(totals, score.solved),
        not_ranked=_not_ranked(lock, seen),
        totals=totals,
        by_category=_grouped(ordered, lambda tally: tally.category),
        by_difficulty=_grouped(ordered, lambda tally: tally.difficulty),
        by_failure_mode=_sorted(seen.modes),
        by_fault=_sorted(seen.faults),
        by_agent_end=_sorted(seen.ends),
        by_graded_in=_sorted(seen.graded_in),
        per_task=tuple(tally.row() for tally in ordered),
        unscored_trials=tuple(sorted(seen.unscored_trials, key=lambda one: (one.task_id, one.attempt))),
        tampered_trials=tuple(sorted(seen.tampered_trials)),
        trials=_rows(seen),
    )


def _tally(task: LockedTask, planned: int) -> TaskTally:
    return TaskTally(task.id, category=task.category, difficulty=task.difficulty, planned=planned)


def _unscored(trial: TrialSummary) -> Unscored:
    return Unscored(
        task_id=trial.task_id,
        attempt=trial.attempt,
        fault=trial.fault,
        failure_mode=trial.failure_mode,
        message=trial.message,
    )


def _rows(seen: _Seen) -> tuple[TrialSummary, ...] | None:
    if seen.count > MOST_TRIAL_ROWS:
        return None
    return tuple(sorted(seen.rows, key=lambda trial: (trial.task_id, trial.attempt)))


def _sorted(counts: Counter[str]) -> dict[str, int]:
    """The most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _grouped(tallies: list[TaskTally], key: Callable[[TaskTally], str]) -> dict[str, Score]:
    groups: dict[str, list[TaskTally]] = defaultdict(list)
    for tally in tallies:
        groups[key(tally)].append(tally)
    return {name: score_of(groups[name]) for name in sorted(groups)}


def _mean_reward(tallies: list[TaskTally]) -> float | None:
    means = [tally.mean_reward for tally in tallies if tally.mean_reward is not None]
    return fsum(means) / len(means) if means else None


def _not_ranked(lock: ConfigLock, seen: _Seen) -> tuple[NotRanked, ...]:
    options, found = lock.options, {}
    if lock.origin is not None:
        found["imported"] = f"the results are those of {lock.origin.tool}, which graded them in its own way"
    if seen.substituted:
        told = f"{count(seen.substituted, 'trial')} ran on an image that this site put in the place of the task's own"
        found["substitutes"] = f"{told}: not comparable with runs on the original"
    if seen.on_host:
        found["host_root"] = f"{count(seen.on_host, 'trial')} ran on this machine's own /usr, not in the task's image"
    if options.timeout_multiplier != 1:
        found["timeout_multiplier"] = f"the tasks' time limits were multiplied by {options.timeout_multiplier:g}"
    if limits := "; ".join(_changed_limits(lock)):
        found["changed_limits"] = limits
    if options.agent.partition(":")[0] in BASELINES:
        found["baseline"] = f"{options.agent} measures the harness or the tasks, not an agent"
    if options.replay_fetches is not None:
        found["replayed_fetches"] = "what builds and tests downloaded came from a recording, not from its servers"
    if options.integrity != "enforce":
        found["integrity_not_enforced"] = "critical integrity findings were only reported"
    return tuple(NotRanked(reason=reason, message=message) for reason, message in found.items())


def _changed_limits(lock: ConfigLock) -> Iterator[str]:
    options, usual_s = lock.options, RunOptions.model_fields["default_timeout_s"].default
    if options.default_timeout_s != usual_s:
        yield f"tasks without a limit were given {options.default_timeout_s:g} s, not {usual_s:g} s"
    if options.changed_resources:
        yield f"sandboxes had {options.changed_resources}, whatever the tasks ask for"
    if lock.origin is not None and lock.origin.changed_limits:
        told = ", ".join(f"{name} = {value}" for name, value in lock.origin.changed_limits.items())
        yield f"limits were not those of the tasks: {told}"
