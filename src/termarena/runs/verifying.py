"""What can be checked of a packed run, and is: its files, its journal, every try, and what the score comes to."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from termarena.core.errors import JournalDamaged, TaskFormatError, UsageError
from termarena.runs.bundle import chain_of, table_of
from termarena.runs.changed_paths import read_changes
from termarena.runs.concluding import conclude
from termarena.runs.journal import JournalReader
from termarena.runs.plan import TrialKey
from termarena.runs.reading import read_run
from termarena.runs.recording import read_result
from termarena.runs.steps import legs_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from termarena.core.run_folder import AttemptFolder, RunFolder
    from termarena.runs.config_lock import ConfigLock
    from termarena.runs.journal import Event
    from termarena.runs.plan import RunOptions
    from termarena.runs.reading import RunView
    from termarena.runs.result import TrialResult
    from termarena.runs.unpacking import Unpacked
    from termarena.tasks.model import Task

__all__ = ["Finding", "Verification", "verify_run"]

Severity = Literal["broken", "unranked", "note"]
"""broken: not what was run, or not whole. unranked: true, and not to be compared. note: worth knowing."""
CLOCK_ROOM: Final = 1.5
CLOCK_ROOM_S: Final = 60.0
"""A trial may end so much after its limit: sealing takes time, and machines are busy."""
HIDDEN_PLACES: Final = ("/tests", "/solution", "/oracle", "/logs/verifier")
"""Nothing of these is there before the work is sealed."""
_HOSTILE: Final = (
    *(JournalDamaged, TaskFormatError, UsageError, OSError),
    *(KeyError, TypeError, ValueError, AttributeError, RecursionError),
)
"""What reading a file raises that anybody may have written."""


class Finding(NamedTuple):
    """One thing that was found."""

    severity: Severity
    rule: str
    """Stable id; docs/bundles.md explains each."""
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a packed run is worth."""

    run_id: str
    chain: str
    view: RunView | None
    """None where not even the journal can be read."""
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Nothing in it contradicts anything else."""
        return all(finding.severity != "broken" for finding in self.findings)

    @property
    def is_rankable(self) -> bool:
        """Sound, complete, and with the tasks' own limits."""
        return all(finding.severity == "note" for finding in self.findings)


def verify_run(folder: RunFolder, unpacked: Unpacked, tasks: Mapping[str, Task] | None = None) -> Verification:
    """Check a run that was unpacked into `folder`; `tasks` by id, where the verifier has them too.

    Nothing of it is run, and no file of it is trusted to be what it should.
    """
    manifest = unpacked.manifest
    findings = [Finding("broken", "changed-file", "", problem) for problem in unpacked.problems]
    try:
        events, chain = chain_of(folder, table_of(folder.path, with_states=manifest.has_states))
        view = read_run(folder)
        findings += _of_run(folder, view, tasks)
    except _HOSTILE as error:
        findings.append(Finding("broken", "unreadable", "", str(error)))
        return Verification(manifest.run_id, manifest.chain, None, tuple(findings))
    if (events, chain) != (manifest.events, manifest.chain):
        findings.append(Finding("broken", "chain", "", "the hash chain comes to another end than was packed"))
    if tasks is None:
        told = "the tasks were not at hand: that their digests and limits are the public ones was not checked"
        findings.append(Finding("note", "tasks-not-checked", "", told))
    return Verification(manifest.run_id, manifest.chain, view, tuple(findings))


# The run as a whole.


def _of_run(folder: RunFolder, view: RunView, tasks: Mapping[str, Task] | None) -> Iterator[Finding]:
    yield from _of_lock(view.lock)
    yield from _of_journal(folder, view.lock)
    yield from _of_plan(view)
    regraded = {_key_of(event) for event in JournalReader(folder.journal) if event.name == "trial_regraded"}
    for key in view.lock.trial_keys():
        yield from _of_trial(view, key, (tasks or {}).get(key.task_id), regraded)
    foreign = sorted({key.task_id for key in view.lock.trial_keys()} - (tasks or {}).keys())
    if tasks is not None and foreign:
        told = f"{len(foreign)} tasks of it are none of the verifier's, {foreign[0]} for one"
        yield Finding("unranked", "task-differs", "", told)


def _of_lock(lock: ConfigLock) -> Iterator[Finding]:
    options = lock.options
    if lock.origin is not None:
        yield Finding("unranked", "imported", "", f"the results were imported from {lock.origin.tool}")
    if options.timeout_multiplier != 1:
        yield Finding("unranked", "limits", "", f"time limits were multiplied by {options.timeout_multiplier:g}")
    if options.changed_resources:
        yield Finding(
            "unranked", "limits", "", f"sandboxes had {options.changed_resources}, whatever the tasks ask for"
        )
    if options.integrity != "enforce":
        yield Finding("unranked", "integrity", "", "tampering was only reported, and took no pass away")
    broken = [task.id for task in lock.tasks if task.problem is not None]
    if broken:
        yield Finding("unranked", "tasks-broken", "", f"{len(broken)} tasks did not load, {broken[0]} for one")


@dataclass(slots=True)
class _Seen:
    """What the journal has told so far."""

    began: Counter[tuple[TrialKey, int]] = field(default_factory=Counter)
    ended: set[tuple[TrialKey, int]] = field(default_factory=set)
    scored: set[TrialKey] = field(default_factory=set)


def _of_journal(folder: RunFolder, lock: ConfigLock) -> Iterator[Finding]:
    """Whether the events could have happened in this order."""
    planned, seen = set(lock.trial_keys()), _Seen()
    for event in JournalReader(folder.journal):
        for rule, message in _impossible(event, planned, seen):
            yield Finding("broken", rule, f"event {event.seq}", message)


def _impossible(event: Event, planned: set[TrialKey], seen: _Seen) -> Iterator[tuple[str, str]]:
    if event.seq == 1 and event.name != "run_started":
        yield "journal", "the journal does not begin with the start of the run"
    if event.name not in ("trial_started", "trial_finished", "trial_regraded", "trial_interrupted"):
        return
    key, retry = _key_of(event), event.fields.get("retry", 0)
    name = f"{key.task_id}, attempt {key.attempt}"
    if key not in planned:
        yield "journal", f"{name} is no trial of this run"
    if event.name == "trial_started":
        if key in seen.scored:
            yield "second-chance", f"{name} had a score and was tried again"
        seen.began[key, retry] += 1
    elif event.name == "trial_finished":
        if (key, retry) in seen.ended:
            yield "second-chance", f"{name} came to an outcome twice"
        if not seen.began[key, retry]:
            yield "journal", f"{name} ended and never began"
        seen.ended.add((key, retry))
        if event.fields.get("outcome") != "unscored":
            seen.scored.add(key)


def _of_plan(view: RunView) -> Iterator[Finding]:
    missing = [key for key in view.lock.trial_keys() if key not in view.history]
    if missing:
        first = missing[0]
        told = f"{len(missing)} of {view.lock.trials} trials have no outcome, {first.task_id}/{first.attempt} for one"
        yield Finding("unranked", "missing-attempts", "", told)
    unscored = view.counts.unscored
    if unscored:
        yield Finding("note", "unscored", "", f"{unscored} trials could not be scored; the score has bounds")
    if view.history.changed:
        yield Finding("unranked", "tasks-changed", "", f"{len(view.history.changed)} tasks were changed on the way")
    if view.history.interruptions:
        told = f"{view.history.interruptions} trials were stopped before their end and ran again"
        yield Finding("note", "interruptions", "", told)


# One trial.


def _key_of(event: Event) -> TrialKey:
    return TrialKey(event.fields["task_id"], event.fields["attempt"])


def _of_trial(view: RunView, key: TrialKey, task: Task | None, regraded: Collection[TrialKey]) -> Iterator[Finding]:
    for told in view.history.tries(key):
        attempt = view.folder.attempt(key.task_id, key.attempt, retry=told.retry)
        where = attempt.path.relative_to(view.folder.path).as_posix()
        if not attempt.result.is_file():
            if view.lock.origin is None and told.fault != "task":
                yield Finding("broken", "no-result", where, "the journal tells an outcome, and there is no result.json")
            continue
        try:
            result = read_result(attempt)
            rules = [
                *_of_digest(view, result, task, is_told=key in regraded),
                *_of_result(view, attempt, result),
                *_of_work(attempt, result),
                *_of_task(result, task, view.lock.options),
            ]
        except _HOSTILE as error:
            yield Finding("broken", "unreadable", where, str(error))
            continue
        if result.summary().model_copy(update={"message": told.message}) != told:
            yield Finding("broken", "result-differs", where, "result.json and the journal tell different things")
        yield from (Finding(severity, rule, where, message) for severity, rule, message in rules)


def _of_digest(
    view: RunView, result: TrialResult, task: Task | None, *, is_told: bool
) -> Iterator[tuple[Severity, str, str]]:
    """Whether it was graded by a task that is known: the run's own, one whose change was accepted, the verifier's.

    `is_told`: whether the journal has it that it was graded again.
    """
    locked = {one.id: one.digest for one in view.lock.tasks}
    if result.task_digest == locked.get(result.task_id):
        return
    is_accepted = view.history.changed.get(result.task_id) == result.task_digest
    if result.regraded_at is None:
        yield ("unranked" if is_accepted else "broken"), "task-digest", "it was graded by another task than the run's"
    elif not is_told:
        yield "broken", "task-digest", "it says that it was graded again, and the journal knows nothing of that"
    elif not is_accepted and (task is None or task.digest != result.task_digest):
        yield "unranked", "task-digest", "it was graded again by tests that are not known here"


def _of_result(view: RunView, attempt: AttemptFolder, result: TrialResult) -> Iterator[tuple[Severity, str, str]]:
    """Whether the result follows from what was seen."""
    verdict = result.verdict
    if verdict is None and view.lock.origin is None and (result.outcome == "solved" or result.reward is not None):
        yield "broken", "outcome", f"there is no verdict, and it says {result.outcome} with a reward of {result.reward}"
    if verdict is not None:
        found = conclude(result.agent_end, verdict, None)
        if (found.outcome, verdict.reward) != (result.outcome, result.reward):
            yield "broken", "outcome", f"the verdict comes to {found.outcome}, and it says {result.outcome}"
        if verdict.reward is not None and not verdict.is_tampered and not _agrees(attempt, verdict.reward):
            yield "broken", "reward", f"the tests left another reward than {verdict.reward:g} in logs"
    if result.sandbox.is_host_root:
        yield "unranked", "host-root", "it ran on the machine's own /usr, not in the task's image"
    if result.sandbox.substitutes:
        yield "unranked", "substitutes", f"another image stood for {result.sandbox.substitutes[0]}"
    if result.sandbox.fetches == "replayed":
        yield "unranked", "replayed-fetches", "what its build and its tests downloaded came from a recording"


def _agrees(attempt: AttemptFolder, reward: float) -> bool:
    """Whether the reward that the tests left behind, where it was kept, is the verdict's."""
    kept = attempt.logs / "verifier" / "reward.txt"
    try:
        return not kept.is_file() or float(kept.read_bytes()[:100]) == reward
    except ValueError:
        return True  # no number: the grader has read it in another way, and says so in its verdict


def _of_work(attempt: AttemptFolder, result: TrialResult) -> Iterator[tuple[Severity, str, str]]:
    """Whether what is kept of the work fits what is told of it."""
    limits, work = result.limits, result.clocks.get("work")
    if work is not None and work.duration_s > limits.agent_timeout_s * CLOCK_ROOM + CLOCK_ROOM_S:
        yield (
            "broken",
            "clock",
            f"the agent worked {work.duration_s:.0f} s where {limits.agent_timeout_s:.0f} s were allowed",
        )
    if limits.timeout_multiplier != 1:
        yield "unranked", "limits", f"its time limits were multiplied by {limits.timeout_multiplier:g}"
    if result.agent.commands and not attempt.trajectory.is_file():
        yield "broken", "no-trajectory", f"it tells of {result.agent.commands} commands, and no trajectory is there"
    counted = _calls_of(attempt)
    if counted is not None and counted != result.metrics.get("calls"):
        yield "broken", "calls", "tool_calls.json and the result count different calls"
    early = [change.path for change in read_changes(attempt).changes if _is_hidden(change.path)]
    if early:
        yield (
            "broken" if result.outcome == "solved" else "note",
            "tests-in-tree",
            (f"{early[0]} was in the agent's file system before the tests were laid"),
        )


def _calls_of(attempt: AttemptFolder) -> dict[str, int] | None:
    if not attempt.tool_calls.is_file():
        return None
    document = json.loads(attempt.tool_calls.read_bytes())
    return dict(Counter(str(call["name"]) for call in document["calls"]))


def _is_hidden(path: str) -> bool:
    whole = "/" + path.lstrip("/")
    return any(whole.startswith(f"{place}/") for place in HIDDEN_PLACES)


def _of_task(result: TrialResult, task: Task | None, options: RunOptions) -> Iterator[tuple[Severity, str, str]]:
    """Whether task and limits are those that the verifier has."""
    if task is None:
        return
    if result.task_digest != task.digest:
        yield "unranked", "task-differs", "the task is another than the verifier's: its digest differs"
        return
    legs = list(legs_of(task, options.model_copy(update={"timeout_multiplier": 1.0})))
    own = sum(leg.timeout_s for leg in legs) * result.limits.timeout_multiplier
    if result.limits.agent_timeout_s > own:
        given = result.limits.agent_timeout_s
        yield "broken", "limits", f"the agent was given {given:g} s, and the task allows {own:g} s"
    wanted, used = task.environment, result.limits
    asked_for = (options.cpus or wanted.cpus, options.memory_mb or wanted.memory_mb)
    if (used.cpus, used.memory_mb) != asked_for:
        yield "broken", "limits", "processors or memory are others than the task's"
