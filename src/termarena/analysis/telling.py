"""A reading of trajectories for people, as Markdown, and for programs, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from termarena.analysis.flaws import FLAWS
from termarena.core.markdown import code, plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.analysis.acts import Act, Turn
    from termarena.analysis.diverging import Divergence
    from termarena.analysis.reading import Patterns, Reading, TrialReading
    from termarena.runs.outcome import Outcome

__all__ = ["OUTCOMES", "Table", "act_end", "as_data", "as_markdown", "headline", "phases_told", "tables"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("solved", "unsolved", "unscored")
MOST_LISTED: Final = 50
SHOWN_COMMAND: Final = 160
SHOWN_WORDS: Final = 200


@dataclass(frozen=True, slots=True)
class Table:
    """A table, whatever it is drawn in; its cells are plain text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    said: str = ""


def headline(reading: Reading) -> str:
    """One line: how many trials were read, and in how many something shows."""
    counts = ", ".join(f"{reading.patterns.trials[one]} {one}" for one in OUTCOMES if one in reading.patterns.trials)
    flawed = sum(bool(trial.flaws) for trial in reading.trials)
    unread = sum(trial.problem is not None for trial in reading.trials)
    number = len(reading.trials)
    told = f"{number} trial{'' if number == 1 else 's'} read ({counts or 'none'}); a flaw shows in {flawed}"
    return f"{told}; {unread} have no trajectory to read" if unread else told


def as_markdown(reading: Reading, *, timelines: Sequence[TrialReading] = (), prose: str = "") -> str:
    """The whole page, ending in a newline; `prose` is a model's, and is marked as such."""
    sections = [
        f"# What the agent did in {plain(', '.join(reading.runs))}\n\n**{headline(reading)}**",
        f"## In a model's words\n\n{_quoted(prose)}" if prose else "",
        *map(_in_markdown, tables(reading)),
        _trials(reading.trials),
        *(_timeline(trial) for trial in timelines),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _quoted(text: str) -> str:
    """Foreign prose, line by line, as a quotation."""
    return "\n".join(f"> {plain(line)}".rstrip() for line in text.strip().splitlines())


def tables(reading: Reading) -> Iterator[Table]:
    """What the trials have in common, and where they part."""
    patterns = reading.patterns
    yield Table("Flaws", ("flaw", "what it means", "of solved", "of unsolved"), tuple(_flaws(patterns)))
    phase_columns = ("outcome", "phase", "acts", "thinking", "acting", "tokens in", "tokens out")
    said = "Medians. A trial explores until its first change, builds until its last, and checks after that."
    yield Table("Phases", phase_columns, tuple(_phases(patterns)), said)
    yield Table("Errors", ("kind", "times"), tuple((name, f"{n:,}") for name, n in patterns.errors.items()))
    yield Table("Programs", ("program", "times"), tuple((name, f"{n:,}") for name, n in patterns.programs.items()))
    columns = ("unsolved", "most like, and solved", "changes alike", "then did", "where the other did")
    rows = tuple(_divergence(one) for one in reading.divergences[:MOST_LISTED])
    yield Table("Where paths part", columns, rows, _rest(len(reading.divergences)))


def _flaws(patterns: Patterns) -> Iterator[tuple[str, ...]]:
    for name, counts in patterns.flaws.items():
        shares = (f"{counts.get(one, 0)} of {patterns.trials.get(one, 0)}" for one in OUTCOMES[:2])
        yield (name, FLAWS[name][0], *shares)


def _phases(patterns: Patterns) -> Iterator[tuple[str, ...]]:
    for outcome in (one for one in OUTCOMES if one in patterns.medians):
        for phase, use in patterns.medians[outcome].items():
            spent = (f"{use.thinking_s:.1f} s", f"{use.acting_s:.1f} s")
            yield outcome, phase, str(use.acts), *spent, f"{use.input_tokens:,}", f"{use.output_tokens:,}"


def _divergence(one: Divergence) -> tuple[str, ...]:
    here = "ended" if one.unsolved_next is None else f"step {one.unsolved_step}: {_short(one.unsolved_next)}"
    there = "ended" if one.solved_next is None else f"step {one.solved_step}: {_short(one.solved_next)}"
    return one.unsolved, one.solved, str(one.shared), here, there


def _in_markdown(made: Table) -> str:
    if not made.rows:
        return ""
    body = table(made.columns, ([plain(cell) for cell in row] for row in made.rows))
    return "\n\n".join(part for part in (f"## {made.title}", made.said, body) if part)


def _trials(trials: Sequence[TrialReading]) -> str:
    """Those with flaws first: a reader comes for them."""
    chosen = sorted(trials, key=lambda one: (not one.flaws, one.name))[:MOST_LISTED]
    rows = [
        [plain(one.name), one.trial.outcome, str(len(one.turns)), str(len(one.acts)), "; ".join(_told(one))]
        for one in chosen
    ]
    if not rows:
        return ""
    body = table(["trial", "outcome", "turns", "acts", "flaws"], rows)
    return "\n\n".join(part for part in ("## Trials", _rest(len(trials)), body) if part)


def _told(trial: TrialReading) -> Iterator[str]:
    if trial.problem is not None:
        yield plain(trial.problem)
    for flaw in trial.flaws:
        yield f"**{flaw.name}**: {plain(flaw.sentence)} ({_steps(flaw.steps)})"


def _steps(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:8]))
    return f"step{'s' if len(steps) != 1 else ''} {shown}{' …' if len(steps) > len(steps[:8]) else ''}"


def _rest(total: int) -> str:
    return "" if total <= MOST_LISTED else f"The first {MOST_LISTED} of {total}; `--json` has all."


def _timeline(trial: TrialReading) -> str:
    lines = [f"## {plain(trial.name)}: {trial.trial.outcome}", ""]
    lines += [f"- {told}" for told in _told(trial)]
    lines += [f"- {phases}"] if (phases := phases_told(trial)) else []
    lines += [""] if trial.flaws or trial.problem or phases else []
    lines += [f"{number}. {line}" for number, line in enumerate(_lines(trial), 1)]
    return "\n".join(lines)


def phases_told(trial: TrialReading) -> str:
    """Where one trial's acts, time and tokens went, on one line; empty where it did nothing."""
    return "; ".join(
        f"{name}: {use.acts} act{'' if use.acts == 1 else 's'}, {use.thinking_s:.1f} s thinking, "
        f"{use.acting_s:.1f} s acting, {use.input_tokens:,} + {use.output_tokens:,} tokens"
        for name, use in trial.phases.items()
        if use.acts or use.input_tokens
    )


def _lines(trial: TrialReading) -> Iterator[str]:
    """What was said and done, a line each, in Markdown."""
    for turn in trial.turns:
        if turn.said or turn.input_tokens or not turn.acts:
            yield f"{_at(turn.at_s)}step {turn.step_id} {_said(turn)}"
        for act in turn.acts:
            yield f"{_at(act.at_s)}step {act.step_id} {_code(act.text)} → {act_end(act)}"


def _said(turn: Turn) -> str:
    words = plain(turn.said[:SHOWN_WORDS] + ("…" if len(turn.said) > SHOWN_WORDS else "")) or "(no words)"
    used = f" ({turn.input_tokens:,} + {turn.output_tokens:,} tokens)" if turn.input_tokens else ""
    return f"says: {words}{used}"


def act_end(act: Act) -> str:
    """How an act ended, in a few words."""
    end = act.status if act.exit_status is None else f"exit {act.exit_status}"
    end = "time limit" if act.status == "timeout" else end
    kind = f" ({act.error})" if act.error else ""
    return f"{end}{kind}, {act.duration_s:.1f} s"


def _at(at_s: float | None) -> str:
    return "" if at_s is None else f"+{at_s:.1f} s "


def _code(text: str) -> str:
    return f"`{code(_short(text)).strip()}`"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_COMMAND else text[:SHOWN_COMMAND] + "…"


def as_data(reading: Reading, *, prose: str = "") -> dict[str, Any]:
    """Everything, as JSON holds it."""
    return {
        "schema_version": 1,
        "kind": "analysis",
        "runs": list(reading.runs),
        "patterns": asdict(reading.patterns),
        "divergences": [asdict(one) for one in reading.divergences],
        "trials": [_trial_data(trial) for trial in reading.trials],
        **({"prose": prose} if prose else {}),
    }


def _trial_data(trial: TrialReading) -> dict[str, Any]:
    return {
        "run": trial.run,
        "task_id": trial.trial.task_id,
        "attempt": trial.trial.attempt,
        "retry": trial.trial.retry,
        "outcome": trial.trial.outcome,
        "agent_end": trial.trial.agent_end,
        "problem": trial.problem,
        "flaws": [asdict(flaw) for flaw in trial.flaws],
        "phases": {name: asdict(use) for name, use in trial.phases.items()},
        "turns": [_turn_data(turn) for turn in trial.turns],
    }


def _turn_data(turn: Turn) -> dict[str, Any]:
    return {
        "step_id": turn.step_id,
        "at_s": turn.at_s,
        "said": turn.said,
        "thinking_s": turn.thinking_s,
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "cost_usd": turn.cost_usd,
        "acts": [_act_data(act) for act in turn.acts],
    }


def _act_data(act: Act) -> dict[str, Any]:
    return {
        "step_id": act.step_id,
        "at_s": act.at_s,
        "kind": act.kind,
        "text": act.text,
        "effect": act.effect,
        "status": act.status,
        "exit_status": act.exit_status,
        "error": act.error,
        "duration_s": act.duration_s,
        "output": act.output,
    }
