"""What a report adds to its counts: how far to trust the accuracy, pass@k and pass^k, and what a solved trial took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from termarena.stats import CONFIDENCE, accuracy_of, pass_all, pass_any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.reports.report import Totals
    from termarena.stats import Tally

__all__ = ["PassRate", "PerSolved", "Spread", "pass_rates_of", "per_solved_of", "spread_of"]

EVERY_K_UP_TO: Final = 10


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spread(_Frozen):
    """How far an accuracy can be trusted; `docs/statistics.md` says what each number answers."""

    low: float
    """Of the 95 % interval for other tasks like these: Wilson's, with the task as the unit."""
    high: float
    confidence: float = CONFIDENCE
    standard_error: float | None
    """On other tasks like these; None with one task."""
    rerun_error: float | None
    """On these very tasks again; None where no task was tried twice."""


class PassRate(_Frozen):
    """pass@k and pass^k: the chance that of k attempts at a task one is solved, and that all are."""

    k: int
    any_solved: float | None
    all_solved: float | None
    tasks: int
    """With k scored attempts or more, which the rates are over."""
    too_few: int
    """Tasks with fewer, which they leave out."""


class PerSolved(_Frozen):
    """What all trials took together, failed ones too, for each that was solved. None is unknown."""

    duration_s: float
    work_s: float
    commands: float | None
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None


def spread_of(tallies: Sequence[Tally]) -> Spread | None:
    """From successes and scored attempts at each task; None where nothing is scored."""
    found = accuracy_of([[1.0] * solved + [0.0] * (scored - solved) for solved, scored in tallies])
    if found is None or found.interval is None:
        return None
    return Spread(
        low=found.interval.low,
        high=found.interval.high,
        standard_error=found.standard_error,
        rerun_error=found.rerun_error,
    )


def pass_rates_of(tallies: Sequence[Tally], attempts: int) -> tuple[PassRate, ...]:
    """For every k up to ten, and for as many as were planned."""
    numbers = sorted({*range(1, min(attempts, EVERY_K_UP_TO) + 1), attempts})
    return tuple(_rate(tallies, k) for k in numbers)


def _rate(tallies: Sequence[Tally], k: int) -> PassRate:
    either, every = pass_any(tallies, k), pass_all(tallies, k)
    return PassRate(
        k=k,
        any_solved=either.value,
        all_solved=every.value,
        tasks=len(tallies) - len(either.too_few),
        too_few=len(either.too_few),
    )


def per_solved_of(totals: Totals, solved: int) -> PerSolved | None:
    """None where nothing was solved. What only some trials told is unknown: a part of a sum is no sum."""
    if not solved:
        return None
    has_tokens, has_cost = not totals.trials_without_tokens, not totals.trials_without_cost
    return PerSolved(
        duration_s=totals.duration_s / solved,
        work_s=totals.work_s / solved,
        commands=_share(totals.commands, solved),
        input_tokens=_share(totals.input_tokens, solved) if has_tokens else None,
        output_tokens=_share(totals.output_tokens, solved) if has_tokens else None,
        cost_usd=_share(totals.cost_usd, solved) if has_cost else None,
    )


def _share(total: float | None, number: int) -> float | None:
    return None if total is None else total / number
