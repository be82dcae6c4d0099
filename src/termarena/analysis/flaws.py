"""What went wrong on the way, by rules: each looks at one trial's turns and names the steps that show it.

A rule is silent unless the steps themselves show the flaw; whether the trial was solved is asked only where it matters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from termarena.analysis.acts import Act, Turn
    from termarena.runs.result import TrialSummary

__all__ = ["FLAWS", "Evidence", "Flaw", "flaws_of"]

LOOP_REPEATS: Final = 3
WAITING_REPEATS: Final = 6
"""Asking again after a pause is waiting, for a while."""
LONGEST_PERIOD: Final = 4
WASTED_ACTS: Final = 3
WASTED_SHARE: Final = 0.25
SILENT_TURNS: Final = 3
TIMEOUTS: Final = 2
STUCK_SHARE: Final = 0.5
_GIVES_UP: Final = re.compile(
    r"\b(?:i (?:can ?not|can't|could ?n[o']t|am unable|was unable|am not able)|it(?:'s| is) (?:not possible|impossible)"
    r"|giv(?:e|ing) up|unable to (?:complete|solve|finish)|i(?:'m| am) (?:stuck|sorry)|beyond my)\b",
    re.IGNORECASE,
)
_MISSING_PROGRAM: Final = re.compile(r"(?:^|[:\s])([\w.+-]+): (?:command )?not found", re.MULTILINE)
_NAMED_FILE: Final = re.compile(r"(?<![\w.~+/-])([\w.~+/-]++)['\"\u2019]?: No such file|No module named ['\"]?([\w.]+)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One trial, as the rules see it."""

    turns: Sequence[Turn]
    acts: Sequence[Act]
    trial: TrialSummary

    @property
    def work_s(self) -> float:
        """How long the agent worked, as far as the steps tell."""
        return self.trial.work_s or sum(turn.seconds for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw, and where it shows."""

    name: str
    sentence: str
    steps: tuple[int, ...]
    """Ids of steps in the trajectory."""


def flaws_of(evidence: Evidence) -> tuple[Flaw, ...]:
    """Every flaw that the rules find, in the order of `FLAWS`."""
    return tuple(flaw for _, rule in FLAWS.values() for flaw in rule(evidence))


def _loops(evidence: Evidence) -> Iterator[Flaw]:
    """The same few acts with the same results, again and again."""
    acts = evidence.acts
    keys = [(act.move, act.status, act.output_digest) for act in acts]
    at = 0
    while at < len(acts):
        period, repeats = _longest_repeat(keys, at)
        part = acts[at : at + period]
        enough = WAITING_REPEATS if any(act.is_pause for act in part) else LOOP_REPEATS
        if repeats >= enough:
            what = _quoted(part[0]) if period == 1 else f"the same {period} acts, beginning with {_quoted(part[0])},"
            steps = tuple(act.step_id for act in acts[at : at + period * repeats])
            yield Flaw("loop", f"{what} {repeats} times in a row, each time with the same result", steps)
            at += period * repeats
        else:
            at += 1


def _longest_repeat(keys: Sequence[object], at: int) -> tuple[int, int]:
    """The period, of the allowed ones, that covers most from here on, and how often it is repeated."""
    best = (1, 1)
    for period in range(1, LONGEST_PERIOD + 1):
        part = keys[at : at + period]
        repeats = 1
        while len(part) == period and keys[at + period * repeats : at + period * (repeats + 1)] == part:
            repeats += 1
        if repeats > 1 and period * repeats > best[0] * best[1]:
            best = (period, repeats)
    return best


def _ignored_errors(evidence: Evidence) -> Iterator[Flaw]:
    """Something that was to change the state failed, and nothing that was done later has to do with it."""
    acts = evidence.acts
    ignored = [
        act
        for place, act in enumerate(acts)
        if act.is_error and act.effect == "change" and not _is_addressed(act, acts[place + 1 :])
    ]
    if ignored:
        first = ignored[0]
        count = "an error" if len(ignored) == 1 else f"{len(ignored)} errors"
        kind = first.error or ("timeout" if first.status == "timeout" else "other")
        yield Flaw(
            "ignored_error",
            f"{count} that nothing later has to do with; the first is {_quoted(first)} ({kind})",
            tuple(act.step_id for act in ignored),
        )


def _is_addressed(failed: Act, later: Sequence[Act]) -> bool:
    named = _named_in_error(failed)
    return any(_addresses(act, failed, named) for act in later)


def _addresses(later: Act, failed: Act, named: frozenset[str]) -> bool:
    """Whether it does, and not in vain, the same again or something to what the failure is about."""
    if later.is_error:
        return False
    same_program = set(later.line.programs) & set(failed.line.programs)
    about = failed.line.objects
    if same_program and (later.effect == "change" or not about) and (not about or later.line.objects & about):
        return True
    if later.effect != "change":
        return False
    return bool(later.line.objects & (about | named)) or bool(set(later.line.programs) & named)


def _named_in_error(failed: Act) -> frozenset[str]:
    found = {name for match in _NAMED_FILE.findall(failed.output) for name in match if name}
    found |= set(_MISSING_PROGRAM.findall(failed.output))
    return frozenset(found | {name.rsplit("/", 1)[-1] for name in found})


def _wasted(evidence: Evidence) -> Iterator[Flaw]:
    """Acts that neither changed anything nor told anything new; loops are told by themselves."""
    looped = {step for flaw in _loops(evidence) for step in flaw.steps}
    seen: set[tuple[str, bytes]] = set()
    wasted: list[Act] = []
    for act in evidence.acts:
        key = (act.move, act.output_digest)
        is_news = key not in seen or (act.effect == "change" and not act.is_error)
        is_waste = not act.is_pause and (not is_news or act.effect == "idle")
        if act.step_id not in looped and is_waste:
            wasted.append(act)
        elif act.effect == "change" and not act.is_error:
            seen.clear()
        seen.add(key)
    share = len(wasted) / len(evidence.acts) if evidence.acts else 0.0
    if len(wasted) >= WASTED_ACTS and share >= WASTED_SHARE:
        yield Flaw(
            "wasted_commands",
            f"{len(wasted)} of {len(evidence.acts)} acts changed nothing and told nothing new",
            tuple(act.step_id for act in wasted),
        )


def _gives_up(evidence: Evidence) -> Iterator[Flaw]:
    """The agent ended by itself, unsolved, with nothing done, or saying that it gives up."""
    trial, acts = evidence.trial, evidence.acts
    if trial.outcome != "unsolved" or trial.agent_end not in ("submitted", "refused"):
        return
    last = evidence.turns[-1] if evidence.turns else None
    steps = (last.step_id,) if last is not None else ()
    has_done = any(act.effect == "change" and not act.is_error for act in acts)
    if last is not None and _GIVES_UP.search(last.said.replace("\u2019", "'")):
        yield Flaw("gave_up", f"it ended with the words “{_first_words(last.said)}”", steps)
    elif trial.agent_end == "refused":
        yield Flaw("gave_up", "it refused to go on", steps)
    elif not has_done:
        yield Flaw("gave_up", f"it ended after {_acts(len(acts))}, none of which changed anything", steps)


def _speaks_only(evidence: Evidence) -> Iterator[Flaw]:
    """Replies that held nothing to do."""
    silent = [turn.step_id for turn in evidence.turns[:-1] if not turn.acts]
    if len(silent) >= SILENT_TURNS:
        yield Flaw(
            "talk_without_acts", f"{len(silent)} of {len(evidence.turns)} replies held nothing to do", tuple(silent)
        )


def _times_out(evidence: Evidence) -> Iterator[Flaw]:
    """Commands that were cut off, or one that took the agent's time."""
    cut = [act for act in evidence.acts if act.status == "timeout"]
    if len(cut) >= TIMEOUTS:
        sentence = f"{len(cut)} commands ran into their time limit; the first is {_quoted(cut[0])}"
        yield Flaw("timeouts", sentence, tuple(act.step_id for act in cut))
    if evidence.trial.agent_end != "timeout" or not evidence.acts:
        return
    longest = max(evidence.acts, key=lambda act: act.duration_s)
    share = longest.duration_s / evidence.work_s if evidence.work_s else 0.0
    if share >= STUCK_SHARE:
        yield Flaw("timeouts", f"{_quoted(longest)} took {100 * share:.0f} % of the agent's time", (longest.step_id,))


FLAWS: Final[dict[str, tuple[str, Callable[[Evidence], Iterator[Flaw]]]]] = {
    "loop": ("the same acts with the same results, three times in a row or more", _loops),
    "ignored_error": ("something failed, and nothing later has to do with it", _ignored_errors),
    "gave_up": ("ended by itself with nothing done, or saying that it gives up", _gives_up),
    "wasted_commands": ("a quarter of the acts or more changed nothing and told nothing new", _wasted),
    "talk_without_acts": ("three replies or more held nothing to do", _speaks_only),
    "timeouts": ("commands ran into their time limit, or one took half of the agent's time", _times_out),
}
"""By name: what it means, and the rule."""


def _quoted(act: Act) -> str:
    return f"`{_first_words(act.text)}`"


def _first_words(text: str, most: int = 80) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _acts(number: int) -> str:
    return "one act" if number == 1 else f"{number} acts"
