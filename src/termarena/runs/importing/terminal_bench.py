"""Run folders of Terminal-Bench's `tb`: `results.json`, `run_metadata.json`, `tb.lock` and each trial's `results.json`.

A trial is scored where its tests came to a result, which `is_resolved` says. Where they did not, `tb` counts it as
unresolved; here it is unscored: a parse error is the tests' own (`tb` could not read their output), an unknown agent
error without a test result is how `tb` records whatever its own machinery ran into. A test timeout is unsolved, as in
our own runs: a solution may hang. An agent that could not be installed has not tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import NotFound
from termarena.runs.config_lock import LockedTask, Origin
from termarena.runs.importing.foreign import Ended, ForeignRun, Judged, Loose, Reader, duration_s, numbered, utc
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.runs.outcome import AgentEnd

__all__ = ["TerminalBenchTrial", "judge", "read_terminal_bench"]

RESULTS: Final = "results.json"
_NUMBER: Final = re.compile(r"\.(\d{1,6})-of-\d{1,6}(?:\.|$)")
_ENDS: Final[Mapping[str, AgentEnd]] = {
    "agent_timeout": "timeout",
    "unknown_agent_error": "error",
    "fatal_llm_parse_error": "parse_error",
    "context_length_exceeded": "resource_limit",
    "output_length_exceeded": "resource_limit",
}


class TerminalBenchTrial(Loose):
    """A row of the run's `results.json`, and the whole of a trial's."""

    task_id: str
    trial_name: str = ""
    is_resolved: bool | None = None
    failure_mode: str = "unset"
    parser_results: Mapping[str, str] | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    trial_started_at: datetime | None = None
    trial_ended_at: datetime | None = None
    agent_started_at: datetime | None = None
    agent_ended_at: datetime | None = None


class _Results(Loose):
    results: tuple[Mapping[str, Any], ...]


class _Metadata(Loose):
    run_id: str | None = None
    dataset_name: str | None = None
    dataset_version: str | None = None
    dataset_path: str | None = None
    agent_name: str | None = None
    model_name: str | None = None
    n_attempts: int = 1
    task_ids: tuple[str, ...] | None = None


class _Harness(Loose):
    version: str | None = None


class _LockedAgent(Loose):
    name: str | None = None
    model_name: str | None = None


class _RunConfig(Loose):
    n_attempts: int | None = None
    global_timeout_multiplier: float = 1.0
    global_agent_timeout_sec: float | None = None
    global_test_timeout_sec: float | None = None


class _LockedDataset(Loose):
    name: str | None = None
    version: str | None = None
    local_path: str | None = None
    task_ids: tuple[str, ...] | None = None


class _Lock(Loose):
    harness: _Harness = _Harness()
    agent: _LockedAgent = _LockedAgent()
    run_config: _RunConfig = _RunConfig()
    dataset: _LockedDataset = _LockedDataset()


@dataclass(slots=True)
class _Folder:
    """A run folder as far as it could be read."""

    path: Path
    metadata: _Metadata
    lock: _Lock
    trials: list[TerminalBenchTrial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def dataset(self) -> str:
        locked, told = self.lock.dataset, self.metadata
        name = locked.name or told.dataset_name
        version = locked.version or told.dataset_version
        if name:
            return f"{name}@{version}" if version else name
        place = locked.local_path or told.dataset_path
        return Path(place).name if place else "unknown"


def read_terminal_bench(path: Path) -> ForeignRun:
    """The run in a folder of `tb`, or in a `results.json` without one.

    Nothing is changed. Raises NotFound where there is no trial with a result.
    """
    folder = _read_folder(path)
    if not folder.trials:
        expected = "a folder that `tb run` wrote, with a results.json"
        raise NotFound(f"{path} holds no trial of Terminal-Bench with a result", hint=f"name {expected}")
    numbers = _attempts(folder.trials)
    ended = [
        Ended(_summary(trial, number), utc(trial.trial_ended_at))
        for trial, number in zip(folder.trials, numbers, strict=True)
    ]
    config, told = folder.lock.run_config, folder.metadata
    return ForeignRun(
        origin=_origin(folder),
        agent=folder.lock.agent.name or told.agent_name or "unknown",
        agent_version="unknown",
        model=folder.lock.agent.model_name or told.model_name,
        driver="docker",
        dataset=folder.dataset,
        attempts=max(config.n_attempts or told.n_attempts, *numbers),
        tasks=_tasks(folder),
        trials=tuple(ended),
        timeout_multiplier=config.global_timeout_multiplier,
    )


def _read_folder(path: Path) -> _Folder:
    reader = Reader()
    place = path if path.is_dir() else path.parent
    total = path / RESULTS if path.is_dir() else path
    metadata = lock = None
    if path.is_dir() or path.name == RESULTS:  # a file of another name stands for itself
        metadata = reader.read(place / "run_metadata.json", _Metadata)
        lock = reader.read(place / "tb.lock", _Lock)
    folder = _Folder(path, metadata or _Metadata(), lock or _Lock(), notes=reader.notes)
    found = reader.read(total, _Results)
    rows = [reader.check(row, TerminalBenchTrial, place=f"a row of {total}") for row in found.results] if found else []
    folder.trials = [row for row in rows if row is not None]
    if path.is_dir():
        _add_rest(folder, reader)
    return folder


def _add_rest(folder: _Folder, reader: Reader) -> None:
    """What has a file of its own and is not in the run's: that one is written last, and an interrupted run lacks it."""
    seen = {trial.trial_name for trial in folder.trials}
    found = [reader.read(file, TerminalBenchTrial) for file in sorted(folder.path.glob(f"*/*/{RESULTS}"))]
    rest = [trial for trial in found if trial is not None and trial.trial_name not in seen]
    if rest:
        folder.notes.append(f"{len(rest)} trials are not in the run's {RESULTS} and were read from their own folders")
    folder.trials += rest


def _attempts(trials: Sequence[TerminalBenchTrial]) -> list[int]:
    """As the names say (`task.2-of-5.run`), or, where two say the same or one says nothing, in their order."""
    named = [_NUMBER.search(trial.trial_name.removeprefix(trial.task_id)) for trial in trials]
    numbers = [int(found[1]) if found else 0 for found in named]
    keys = {(trial.task_id, number) for trial, number in zip(trials, numbers, strict=True) if number}
    return numbers if len(keys) == len(trials) else numbered(trial.task_id for trial in trials)


def _tasks(folder: _Folder) -> tuple[LockedTask, ...]:
    planned = folder.lock.dataset.task_ids or folder.metadata.task_ids or ()
    names = sorted({*planned, *(trial.task_id for trial in folder.trials)})
    return tuple(LockedTask(id=name, digest="", path="", format="terminal-bench-1") for name in names)


def _origin(folder: _Folder) -> Origin:
    config = folder.lock.run_config
    limits = {
        "global_timeout_multiplier": config.global_timeout_multiplier
        if config.global_timeout_multiplier != 1
        else None,
        "global_agent_timeout_sec": config.global_agent_timeout_sec,
        "global_test_timeout_sec": config.global_test_timeout_sec,
    }
    return Origin(
        tool="terminal-bench",
        version=folder.lock.harness.version,
        name=folder.metadata.run_id or folder.path.absolute().name.removesuffix(".json"),
        path=str(folder.path.absolute()),
        started_at=min(_times(trial.trial_started_at for trial in folder.trials), default=None),
        finished_at=max(_times(trial.trial_ended_at for trial in folder.trials), default=None),
        changed_limits={name: f"{value:g}" for name, value in limits.items() if value is not None},
        notes=tuple(folder.notes),
    )


def _times(moments: Iterable[datetime | None]) -> list[str]:
    return [told for told in map(utc, moments) if told is not None]


def judge(trial: TerminalBenchTrial) -> Judged:
    """How the trial ended, in our words."""
    mode, resolved = trial.failure_mode, trial.is_resolved
    if mode == "agent_installation_failed":
        return Judged("unscored", fault="infra", message="the agent could not be installed")
    end = _ENDS.get(mode, "submitted")
    if resolved is not None:
        return Judged("solved" if resolved else "unsolved", end=end, reward=float(resolved))
    if mode == "test_timeout":
        return Judged("unsolved", end=end, reward=0.0, tests_timed_out=True)
    if mode == "unknown_agent_error":
        began = trial.agent_started_at is not None
        return Judged("unscored", end="error" if began else None, fault="infra", message=UNKNOWN_ERROR)
    return Judged("unscored", end=end, fault="test", message=f"the tests came to no result ({mode})")


UNKNOWN_ERROR: Final = "unknown_agent_error, and no test result: tb records faults of its own machinery so"


def _summary(trial: TerminalBenchTrial, attempt: int) -> TrialSummary:
    judged = judge(trial)
    tests = trial.parser_results or {}
    # 0 and 0 is what every agent leaves behind that does not count: nothing is known then.
    has_tokens = bool(trial.total_input_tokens or trial.total_output_tokens)
    return TrialSummary(
        task_id=trial.task_id,
        attempt=attempt,
        outcome=judged.outcome,
        agent_end=judged.end,
        fault=judged.fault,
        failure_mode=judged.failure_mode,
        reward=judged.reward,
        graded_in=None if judged.reward is None else "live",
        tests_passed=sum(state == "passed" for state in tests.values()),
        tests_total=len(tests),
        duration_s=duration_s(trial.trial_started_at, trial.trial_ended_at) or 0.0,
        work_s=duration_s(trial.agent_started_at, trial.agent_ended_at),
        commands=None,
        input_tokens=trial.total_input_tokens if has_tokens else None,
        output_tokens=trial.total_output_tokens if has_tokens else None,
        message=judged.message,
    )
