"""Where two trials at one task part: the first thing that one agent did and the other did not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from termarena.arena import queries
from termarena.arena.attempt import read_attempt
from termarena.core.run_folder import RunFolder

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from termarena.arena.attempt import CallShown
    from termarena.arena.views import RunRow, TrialRow

__all__ = ["Parting", "Way", "parting_of"]

SHOWN_CALLS: Final = 8
_Did = tuple[int, "CallShown"]


@dataclass(frozen=True, slots=True)
class Way:
    """What one of them did from there on."""

    run: RunRow
    trial: TrialRow
    calls: tuple[_Did, ...]
    """Each with the number of its step; the first ones."""
    has_files: bool


@dataclass(frozen=True, slots=True)
class Parting:
    """The two ways, and how many calls they had in common before."""

    task: str
    slug: str
    common: int
    first: Way
    second: Way


def parting_of(session: Session, runs: tuple[str, str], task: str, *, attempt: int = 1) -> Parting:
    """Compare what was done in this attempt of two runs, as far as a page shows steps. Raises NotFound.

    Calls are the same when they ask for the same: how long one took, or what came of it, makes no difference.
    """
    sides = [_side(session, run, task, attempt) for run in runs]
    pairs = zip(*(way.calls for way in sides), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: _asked(pair[0]) == _asked(pair[1]), pairs))
    first, second = (
        Way(way.run, way.trial, way.calls[common : common + SHOWN_CALLS], has_files=way.has_files) for way in sides
    )
    return Parting(first.trial.task, task, common, first, second)


def _side(session: Session, run: str, task: str, attempt: int) -> Way:
    detail = queries.run_detail(session, run)
    trial = next(one for one in queries.tries(session, run, task, attempt) if one.is_counted)
    folder = RunFolder(queries.folder_of(session, run)).attempt_in(trial.task_slug, attempt, retry=trial.retry)
    seen = read_attempt(folder)
    calls = tuple((step.number, call) for step in seen.steps for call in step.calls)
    return Way(detail.run, trial, calls, has_files=seen.has_ended)


def _asked(did: _Did) -> tuple[str, str]:
    return did[1].name, did[1].told.strip()
