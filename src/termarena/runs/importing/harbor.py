"""Harbor's job folders: `jobs/<job>/{config,lock,result}.json` and `<trial>/result.json`, finished or not.

What counts is each trial's own `result.json`; the job's, which is rewritten in place, only says how many there were to
be. A trial is scored where its verifier gave a reward, whatever else went wrong; where there is none it is unscored,
also where Harbor's mean counts it as 0. The one exception is a verifier that ran out of time, which is unsolved here as
in our own runs: a solution may hang.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final, TypeVar

from termarena.core.errors import NotFound
from termarena.grading.rewards import primary_reward
from termarena.runs.config_lock import LockedTask, Origin
from termarena.runs.importing.foreign import Ended, ForeignRun, Judged, Reader, duration_s, numbered, shortened, utc
from termarena.runs.importing.harbor_records import HarborTrial, JobConfig, JobLock, JobResult
from termarena.runs.plan import TrialKey
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from termarena.runs.outcome import AgentEnd, Fault

__all__ = ["read_harbor"]

_Number = TypeVar("_Number", int, float)
ADHOC: Final = "adhoc"
"""Harbor's own name for tasks that come from no dataset."""
SOLVED_AT: Final = 1.0
TEST_TIMEOUT: Final = "VerifierTimeoutError"
CANCELLED: Final = "CancelledError"
_ENDS: Final[Mapping[str, AgentEnd]] = {
    "AgentTimeoutError": "timeout",
    "AgentSafetyRefusalError": "refused",
    "ContextWindowExceededError": "resource_limit",
    "OutputTokenExceededError": "resource_limit",
    "ContextLengthExceededError": "resource_limit",
    "OutputLengthExceededError": "resource_limit",
    "MemoryLimitExceededError": "resource_limit",
    "SandboxLikelyOutOfMemoryError": "resource_limit",
}
_OF_VERIFIER: Final = frozenset(
    {
        "AddTestsDirError",
        "DownloadVerifierDirError",
        "RewardFileEmptyError",
        "RewardFileNotFoundError",
        "VerifierOutputParseError",
        TEST_TIMEOUT,
    }
)


@dataclass(slots=True)
class _Job:
    """A job folder as far as it could be read."""

    path: Path
    lock: JobLock
    result: JobResult
    attempts: int
    trials: list[HarborTrial] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    """Names of trial folders without a result."""
    notes: list[str] = field(default_factory=list)


def read_harbor(path: Path) -> list[ForeignRun]:
    """The runs in a job folder: one for each agent, model and dataset that it holds trials of.

    Nothing in the folder is changed. Raises NotFound where it is no job folder or no trial in it has a result.
    """
    job = _read_job(path)
    groups: dict[tuple[str, str | None, str], list[HarborTrial]] = defaultdict(list)
    for trial in job.trials:
        groups[trial.agent_info.name, trial.agent_info.model, trial.source or ADHOC].append(trial)
    if not groups:
        expected = "a folder that `harbor run` wrote, with a result.json in the folder of each trial"
        raise NotFound(f"{path} holds no trial of Harbor with a result", hint=f"name {expected}")
    return [_run(job, trials, is_alone=len(groups) == 1) for trials in groups.values()]


def _read_job(path: Path) -> _Job:
    if not path.is_dir():
        raise NotFound(f"{path} is no folder", hint="name a job's folder, such as jobs/2026-11-15__10-00-00")
    reader = Reader()
    lock = reader.read(path / "lock.json", JobLock) or JobLock()
    result = reader.read(path / "result.json", JobResult) or JobResult()
    config = reader.read(path / "config.json", JobConfig) or JobConfig()
    job = _Job(path, lock, result, config.n_attempts, notes=reader.notes)
    for folder in sorted(entry for entry in path.iterdir() if entry.is_dir()):
        trial = reader.read(folder / "result.json", HarborTrial)
        if trial is not None:
            job.trials.append(trial)
        elif (folder / "config.json").exists():
            job.begun.append(folder.name)
    # Trials have no number: the order in which they began is theirs.
    job.trials.sort(key=lambda trial: (utc(trial.started_at) or "", trial.trial_name))
    _note_rest(job)
    return job


def _note_rest(job: _Job) -> None:
    if job.begun:
        job.notes.append(f"{len(job.begun)} trials were begun and have no result: {', '.join(job.begun[:5])}")
    if job.result.stats.n_retries:
        retries = job.result.stats.n_retries
        job.notes.append(f"{retries} failed trials were run again; Harbor keeps nothing of the failed ones")
    total = job.result.n_total_trials
    if total is not None and total > len(job.trials):
        job.notes.append(f"{len(job.trials)} of {total} trials have a result")


def _run(job: _Job, trials: Sequence[HarborTrial], *, is_alone: bool) -> ForeignRun:
    first = trials[0]
    notes = [*job.notes, *_changes(trials)]
    ended, stopped = [], []
    for trial, attempt in zip(trials, numbered(trial.task_name for trial in trials), strict=True):
        judged = _judge(trial)
        if judged is None:
            stopped.append(TrialKey(trial.task_name, attempt))
        else:
            ended.append(Ended(_summary(trial, judged, attempt), utc(trial.finished_at)))
    planned = _planned(job, first, is_alone=is_alone)
    tasks = _tasks(trials, planned)
    most = max(numbered(trial.task_name for trial in trials))
    return ForeignRun(
        origin=_origin(job, trials, notes),
        agent=first.agent_info.name,
        agent_version=first.agent_info.version,
        model=first.agent_info.model,
        driver=first.config.environment.type or first.config.environment.import_path or "unknown",
        dataset=first.source or ADHOC,
        attempts=max(job.attempts, most),
        tasks=tasks,
        trials=tuple(ended),
        stopped=tuple(stopped),
        timeout_multiplier=first.config.timeout_multiplier,
    )


def _planned(job: _Job, first: HarborTrial, *, is_alone: bool) -> list[str]:
    """The tasks that this agent was to try, as the job's lock has them; none where it does not say whose they are."""
    for_dataset = [entry for entry in job.lock.trials if (entry.task.source or ADHOC) == (first.source or ADHOC)]
    if is_alone:
        return [entry.task.name for entry in for_dataset]
    info = first.agent_info
    models = {None} if info.model_info is None else {info.model, info.model_info.name}
    return [
        entry.task.name
        for entry in for_dataset
        if entry.agent.name == info.name and entry.agent.import_path is None and entry.agent.model_name in models
    ]


def _tasks(trials: Iterable[HarborTrial], planned: Iterable[str]) -> tuple[LockedTask, ...]:
    known = {trial.task_name: trial for trial in reversed([*trials])}
    return tuple(_task(name, known.get(name)) for name in sorted({*known, *planned}))


def _task(name: str, trial: HarborTrial | None) -> LockedTask:
    path = trial.task_id.get("path") if trial is not None else None
    checksum = trial.task_checksum if trial is not None else ""
    digest = f"harbor-checksum:{checksum}" if checksum else ""
    return LockedTask(id=name, digest=digest, path=path if isinstance(path, str) else "", format="harbor")


def _changes(trials: Sequence[HarborTrial]) -> Iterator[str]:
    """What differs among the trials of a run and should not."""
    checksums: dict[str, set[str]] = defaultdict(set)
    for trial in trials:
        checksums[trial.task_name].add(trial.task_checksum)
    changed = sorted(name for name, found in checksums.items() if len(found) > 1)
    if changed:
        yield f"tasks that changed while the job ran: {', '.join(changed[:10])}"
    if len({tuple(trial.config.changed_limits().items()) for trial in trials}) > 1:
        yield "not all trials ran with the same limits"
    versions = sorted({trial.agent_info.version for trial in trials})
    if len(versions) > 1:
        yield f"several versions of the agent: {', '.join(versions)}"


def _origin(job: _Job, trials: Sequence[HarborTrial], notes: Iterable[str]) -> Origin:
    limits: dict[str, str] = {}
    for trial in trials:
        limits |= trial.config.changed_limits()
    ends = [utc(trial.finished_at) for trial in trials]
    known = sorted(end for end in ends if end is not None)
    starts = sorted(start for start in (utc(trial.started_at) for trial in trials) if start is not None)
    return Origin(
        tool="harbor",
        version=job.lock.harbor.version,
        name=job.path.absolute().name,
        path=str(job.path.absolute()),
        started_at=starts[0] if starts else None,
        finished_at=known[-1] if known else None,
        changed_limits=limits,
        notes=tuple(notes),
    )


def _judge(trial: HarborTrial) -> Judged | None:
    """How the trial ended; None where it did not: it was cancelled, or is still going on."""
    end, error = _end(trial), trial.error
    reward = _reward(trial)
    if reward is not None:
        return Judged("solved" if reward >= SOLVED_AT else "unsolved", end=end, reward=reward)
    if error == CANCELLED or (error is None and trial.finished_at is None):
        return None
    if error == TEST_TIMEOUT:
        return Judged("unsolved", end=end, reward=0.0, tests_timed_out=True)
    fault: Fault = "test" if error is None or error in _OF_VERIFIER else "infra"
    return Judged("unscored", end=end, fault=fault, message=_message(trial))


def _reward(trial: HarborTrial) -> float | None:
    """The one number of the verifier's; None where it gave none, or what is no finite number."""
    rewards = trial.verifier_result.rewards if trial.verifier_result is not None else None
    if not rewards or not all(map(_is_number, rewards.values())):
        return None
    return primary_reward(rewards)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _end(trial: HarborTrial) -> AgentEnd | None:
    """How the agent ended; None where it never began."""
    error = trial.error
    if not trial.executions:
        return None
    if error is not None and error in _ENDS:
        return _ENDS[error]
    if error is None or error in _OF_VERIFIER:
        return "submitted"
    # What is left is an exception that ended the agent's work, of the agent or of what it stands on.
    return "cancelled" if error == CANCELLED else "error"


def _message(trial: HarborTrial) -> str:
    if trial.exception_info is not None:
        return shortened(f"{trial.exception_info.exception_type}: {trial.exception_info.exception_message}")
    if trial.config.install_only:
        return "the agent was only installed"
    if trial.config.verifier.disable:
        return "the verifier was switched off"
    rewards = trial.verifier_result.rewards if trial.verifier_result is not None else None
    return shortened(f"rewards that are no finite numbers: {rewards}") if rewards else "the verifier gave no reward"


def _summary(trial: HarborTrial, judged: Judged, attempt: int) -> TrialSummary:
    mode = trial.verifier_environment_mode
    work = [one.seconds for one in trial.executions]
    return TrialSummary(
        task_id=trial.task_name,
        attempt=attempt,
        outcome=judged.outcome,
        agent_end=judged.end,
        fault=judged.fault,
        failure_mode=judged.failure_mode,
        reward=judged.reward,
        graded_in=None if judged.reward is None else "separate" if mode == "separate" else "live",
        duration_s=duration_s(trial.started_at, trial.finished_at) or 0.0,
        work_s=_sum(work),
        commands=None,
        input_tokens=_sum([one.n_input_tokens for one in trial.usages]),
        output_tokens=_sum([one.n_output_tokens for one in trial.usages]),
        cost_usd=_sum([one.cost_usd for one in trial.usages]),
        message=judged.message,
    )


def _sum(values: Iterable[_Number | None]) -> _Number | None:
    """Of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return reduce(add, known) if known else None
