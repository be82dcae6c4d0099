"""Where a path that failed leaves one that led to the goal."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.analysis.acts import Act

__all__ = ["Divergence", "Path", "divergence_of"]

MOST_COMPARED: Final = 300
"""Of the changes of a path, in measuring how like another it is."""


@dataclass(frozen=True, slots=True)
class Path:
    """The acts of one trial; `name` says which trial."""

    name: str
    acts: Sequence[Act]

    @property
    def moves(self) -> list[Act]:
        """What it did to the state; looking around in another order is no other path."""
        return [act for act in self.acts if act.effect == "change"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first thing that an unsolved path did otherwise than the solved one that it is most like."""

    unsolved: str
    solved: str
    shared: int
    """So many changes to the state they have in common at the beginning."""
    unsolved_next: str | None
    """None: it ended there."""
    unsolved_step: int | None
    solved_next: str | None
    solved_step: int | None


def divergence_of(unsolved: Path, solved: Sequence[Path]) -> Divergence | None:
    """None where no path was solved. Of solved ones that share equally much, the most similar, then the first."""
    if not solved:
        return None
    mine = unsolved.moves
    keys = [act.move for act in mine]
    best = max(solved, key=lambda path: _likeness(keys, [act.move for act in path.moves]))
    theirs = best.moves
    shared = _shared(keys, [act.move for act in theirs])
    here = mine[shared] if shared < len(mine) else None
    there = theirs[shared] if shared < len(theirs) else None
    return Divergence(
        unsolved.name,
        best.name,
        shared,
        unsolved_next=here.text if here is not None else None,
        unsolved_step=here.step_id if here is not None else None,
        solved_next=there.text if there is not None else None,
        solved_step=there.step_id if there is not None else None,
    )


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def _likeness(first: Sequence[str], second: Sequence[str]) -> tuple[int, float]:
    start = slice(MOST_COMPARED)
    return _shared(first, second), SequenceMatcher(None, first[start], second[start], autojunk=False).ratio()
