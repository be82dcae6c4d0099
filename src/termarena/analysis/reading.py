"""Reading the trajectories of runs: each trial's timeline, phases and flaws, where paths part, and what they share."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from termarena.analysis.acts import durations_of, turns_of
from termarena.analysis.diverging import Path, divergence_of
from termarena.analysis.flaws import FLAWS, Evidence, flaws_of
from termarena.core.errors import TaskFormatError
from termarena.core.trajectory import read_trajectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.analysis.acts import Act, Turn
    from termarena.analysis.diverging import Divergence
    from termarena.analysis.flaws import Flaw
    from termarena.runs.outcome import Outcome
    from termarena.runs.reading import RunView
    from termarena.runs.result import TrialSummary

__all__ = ["PHASES", "Patterns", "PhaseUse", "Reading", "TrialReading", "read_runs"]

PhaseName = Literal["explore", "build", "check"]
PHASES: Final[tuple[PhaseName, ...]] = ("explore", "build", "check")
"""Until the first change; from it to the last; after that."""
MOST_PROGRAMS: Final = 15


@dataclass(frozen=True, slots=True)
class PhaseUse:
    """What one phase of a trial took."""

    acts: int = 0
    thinking_s: float = 0.0
    acting_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TrialReading:
    """One trial, read."""

    run: str
    trial: TrialSummary
    turns: Sequence[Turn]
    phases: dict[PhaseName, PhaseUse]
    flaws: tuple[Flaw, ...]
    problem: str | None = None
    """Why there is nothing to read, where there is not."""

    @property
    def name(self) -> str:
        """Which trial of which run."""
        return f"{self.run}/{self.trial.task_id}/{self.trial.attempt}"

    @property
    def acts(self) -> list[Act]:
        """Everything that was done."""
        return [act for turn in self.turns for act in turn.acts]


@dataclass(frozen=True, slots=True)
class Patterns:
    """What many trials have in common."""

    trials: dict[Outcome, int]
    flaws: dict[str, dict[Outcome, int]]
    """Trials with each flaw, by outcome."""
    errors: dict[str, int]
    """Failed acts by kind."""
    programs: dict[str, int]
    """The most used ones."""
    medians: dict[Outcome, dict[PhaseName, PhaseUse]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One run or several, read."""

    runs: tuple[str, ...]
    trials: tuple[TrialReading, ...]
    divergences: tuple[Divergence, ...]
    patterns: Patterns


def read_runs(views: Sequence[RunView]) -> Reading:
    """Read every trial that has an outcome. The same runs give the same reading, whoever reads them and when."""
    trials = tuple(reading for view in views for reading in _trials_of(view))
    return Reading(tuple(view.folder.id for view in views), trials, tuple(_divergences(trials)), _patterns_of(trials))


def _trials_of(view: RunView) -> Iterator[TrialReading]:
    summaries = sorted(view.history.summaries(), key=lambda one: (one.task_id, one.attempt))
    for trial in summaries:
        folder = view.folder.attempt(trial.task_id, trial.attempt, retry=trial.retry)
        problem = None
        turns: list[Turn] = []
        if folder.trajectory.is_file():
            try:
                turns = turns_of(read_trajectory(folder.trajectory), durations_of(folder.tool_calls))
            except TaskFormatError as error:
                problem = str(error)
        elif view.lock.origin is not None:
            problem = f"it was imported from {view.lock.origin.tool}, without what the agent did"
        elif trial.outcome == "unscored" or trial.commands:
            problem = "no trajectory was kept"
        yield _read(view.folder.id, trial, turns, problem)


def _read(run: str, trial: TrialSummary, turns: list[Turn], problem: str | None) -> TrialReading:
    acts = [act for turn in turns for act in turn.acts]
    flaws = () if problem is not None else flaws_of(Evidence(turns, acts, trial))
    return TrialReading(run, trial, turns, _phases_of(turns), flaws, problem)


def _phases_of(turns: Sequence[Turn]) -> dict[PhaseName, PhaseUse]:
    """What was said counts where its first act does; where it had none, where the one before counted."""
    changing = [act.step_id for turn in turns for act in turn.acts if act.effect == "change"]
    found = dict.fromkeys(PHASES, PhaseUse())
    now: PhaseName = "explore"
    for turn in turns:
        of_turn = _phase_at(turn.acts[0].step_id, changing) if turn.acts else now
        said = PhaseUse(0, turn.thinking_s, 0.0, turn.input_tokens, turn.output_tokens)
        found[of_turn] = _more(found[of_turn], said)
        for act in turn.acts:
            now = _phase_at(act.step_id, changing)
            found[now] = _more(found[now], PhaseUse(1, 0.0, act.duration_s))
    return found


def _phase_at(step_id: int, changing: Sequence[int]) -> PhaseName:
    if not changing or step_id < changing[0]:
        return "explore"
    return "build" if step_id <= changing[-1] else "check"


def _more(use: PhaseUse, more: PhaseUse) -> PhaseUse:
    return PhaseUse(
        use.acts + more.acts,
        use.thinking_s + more.thinking_s,
        use.acting_s + more.acting_s,
        use.input_tokens + more.input_tokens,
        use.output_tokens + more.output_tokens,
    )


def _divergences(trials: Sequence[TrialReading]) -> Iterator[Divergence]:
    by_task: dict[str, list[TrialReading]] = defaultdict(list)
    for reading in trials:
        by_task[reading.trial.task_id].append(reading)
    for readings in by_task.values():
        solved = [Path(one.name, one.acts) for one in readings if one.trial.outcome == "solved" and one.turns]
        for one in readings:
            found = divergence_of(Path(one.name, one.acts), solved) if one.trial.outcome == "unsolved" else None
            if found is not None:
                yield found


def _patterns_of(trials: Sequence[TrialReading]) -> Patterns:
    by_outcome: dict[Outcome, list[TrialReading]] = defaultdict(list)
    flaws: dict[str, Counter[Outcome]] = {name: Counter() for name in FLAWS}
    errors: Counter[str] = Counter()
    programs: Counter[str] = Counter()
    for reading in trials:
        by_outcome[reading.trial.outcome].append(reading)
        for name in {flaw.name for flaw in reading.flaws}:
            flaws[name][reading.trial.outcome] += 1
        for act in reading.acts:
            programs.update(act.line.programs)
            errors.update([act.error] if act.error else ["timeout"] if act.status == "timeout" else [])
    return Patterns(
        trials={outcome: len(readings) for outcome, readings in by_outcome.items()},
        flaws={name: dict(counts) for name, counts in flaws.items() if counts},
        errors=dict(errors.most_common()),
        programs=dict(programs.most_common(MOST_PROGRAMS)),
        medians={outcome: _medians(readings) for outcome, readings in by_outcome.items()},
    )


def _medians(readings: Sequence[TrialReading]) -> dict[PhaseName, PhaseUse]:
    return {name: _median([reading.phases[name] for reading in readings]) for name in PHASES}


def _median(uses: Sequence[PhaseUse]) -> PhaseUse:
    return PhaseUse(
        round(median(use.acts for use in uses)),
        median(use.thinking_s for use in uses),
        median(use.acting_s for use in uses),
        round(median(use.input_tokens for use in uses)),
        round(median(use.output_tokens for use in uses)),
    )
