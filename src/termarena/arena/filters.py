"""What of many is asked for, as addresses say it. An empty word is no filter: forms send one for each field."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from termarena.runs.outcome import Outcome
from termarena.runs.reading import RunState

__all__ = ["MatrixFilter", "RunFilter", "TrialFilter", "Window"]

LONGEST_WORD = 200
MOST_ROWS = 1_000
MOST_OFFSET = 10_000_000
MOST_PAGES = 1_000_000


def _none_where_empty(value: object) -> object:
    return None if value == "" else value


_Maybe = BeforeValidator(_none_where_empty)
_Word = Annotated[Annotated[str, Field(max_length=LONGEST_WORD)] | None, _Maybe]
_Limit = Annotated[int, Field(ge=1, le=MOST_ROWS)]
_Offset = Annotated[int, Field(ge=0, le=MOST_OFFSET)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Window(_Frozen):
    """Which part of a list."""

    limit: _Limit = 100
    offset: _Offset = 0


class RunFilter(_Frozen):
    """Which runs."""

    dataset: _Word = None
    """The digest of a set of tasks."""
    agent: _Word = None
    entrant: _Word = None
    """The id of an agent in one setup."""
    state: Annotated[RunState | None, _Maybe] = None
    limit: _Limit = 100
    offset: _Offset = 0


class TrialFilter(_Frozen):
    """Which trials of a run."""

    outcome: Annotated[Outcome | None, _Maybe] = None
    failure_mode: _Word = None
    task: _Word = None
    """A task, as addresses name it."""
    limit: _Limit = 100
    offset: _Offset = 0


class MatrixFilter(_Frozen):
    """Which tasks of a run: with a trial of this outcome or failure class, of this kind, with this in the name."""

    outcome: Annotated[Outcome | None, _Maybe] = None
    failure_mode: _Word = None
    category: _Word = None
    difficulty: _Word = None
    text: _Word = None
    page: Annotated[int, Field(ge=1, le=MOST_PAGES)] = 1
