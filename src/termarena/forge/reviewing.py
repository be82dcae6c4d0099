"""Review by people: two look at each task without seeing what the other said; where they differ, a third decides.

A verdict is about one content of a task: when the forge makes it differently, it is looked at anew.
"""

from __future__ import annotations

import time
from collections import defaultdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from termarena.core.errors import NotFound, UsageError
from termarena.tasks.manifest import harbor_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.ledger import Ledger, Outcome

__all__ = ["NEEDED", "Flaw", "Review", "Reviewed", "Reviews", "Standing"]

NEEDED: Final = 2
LONGEST_NOTE: Final = 2000
LONGEST_NAME: Final = 100
Standing = Literal["waiting", "accepted", "rejected", "disputed"]


class Flaw(StrEnum):
    """Why a task is not to be kept."""

    UNCLEAR = "unclear"  # the instruction does not say what the tests ask for
    GIVEN_AWAY = "given-away"  # it says how, or shows the result where it should be worked out
    UNFAIR = "unfair"  # the tests fail work that is right
    WEAK = "weak"  # the tests pass work that is wrong
    TRIVIAL = "trivial"
    PRIVATE = "private"  # something in it is nobody's business
    HARMFUL = "harmful"


class Review(NamedTuple):
    """What one person said about one task."""

    annotator: str
    accepts: bool
    flaws: tuple[str, ...]
    note: str
    at: str
    resolves: bool
    """Whether it decides between two others."""


class Reviewed(NamedTuple):
    """A task and what was said about it."""

    task: str
    recording: str
    folder: str | None
    standing: Standing
    reviews: tuple[Review, ...]

    @property
    def accepted_by(self) -> tuple[str, ...]:
        """Who accepted it."""
        return tuple(sorted(one.annotator for one in self.reviews if one.accepts))


class Reviews:
    """The reviews in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        """The ledger stays its opener's."""
        self._ledger = ledger

    def all(self) -> list[Reviewed]:
        """Every admitted task, in the order of their ids."""
        said = defaultdict(list)
        for recording, content, *row in self._ledger.rows("select * from reviews order by at, rowid"):
            annotator, accepts, flaws, note, at, resolves = row
            review = Review(annotator, bool(accepts), tuple(flaws.split()), note, at, bool(resolves))
            said[recording, content].append(review)
        admitted = [one for one in self._ledger.latest() if one.state == "admitted" and one.task_id]
        found = [self._reviewed(one, said[one.recording, _content(one)]) for one in admitted]
        return sorted(found, key=lambda one: one.task)

    @staticmethod
    def _reviewed(outcome: Outcome, reviews: Sequence[Review]) -> Reviewed:
        names = (outcome.task_id or "", outcome.recording, outcome.folder)
        return Reviewed(*names, _standing(reviews), tuple(reviews))

    def queue(self, annotator: str) -> list[Reviewed]:
        """What waits for this person: others' half-reviewed tasks first, so that pairs become whole."""
        waiting = [
            one
            for one in self.all()
            if one.standing == "waiting" and annotator not in (review.annotator for review in one.reviews)
        ]
        return sorted(waiting, key=lambda one: (-len(one.reviews), one.task))

    def judge(
        self, task: str, annotator: str, *, accepts: bool, flaws: Sequence[Flaw] = (), note: str = ""
    ) -> Reviewed:
        """Say what one person thinks of a task; said again, it takes the place of what was said before.

        Raises `NotFound`, and `UsageError` for a task that has its two already, or a rejection without a reason.
        """
        reviewed = self._find(task)
        others = [one for one in reviewed.reviews if one.annotator != annotator and not one.resolves]
        if len(others) >= NEEDED:
            hint = f"two have: settle it with termarena forge review resolve {task}"
            raise UsageError(f"{task} needs no further review", hint=hint if reviewed.standing == "disputed" else None)
        if any(one.resolves for one in reviewed.reviews):
            raise UsageError(f"{task} is settled: a third has decided between its two reviews")
        if not accepts and not flaws:
            raise UsageError("a rejection needs a reason", hint=f"give --flaw: {', '.join(Flaw)}")
        self._write(reviewed, annotator, (accepts, flaws, note), resolves=False)
        return self._find(task)

    def resolve(self, task: str, who: str, *, accepts: bool, note: str = "") -> Reviewed:
        """Decide between two who differ; not by one of them. Raises `NotFound`, `UsageError`."""
        reviewed = self._find(task)
        if reviewed.standing != "disputed":
            raise UsageError(f"{task} is {reviewed.standing}: there is nothing to decide")
        if who in (one.annotator for one in reviewed.reviews):
            raise UsageError(f"{who} is one of the two who differ", hint="somebody else has to decide")
        self._write(reviewed, who, (accepts, (), note), resolves=True)
        return self._find(task)

    def pairs(self) -> list[tuple[bool, bool]]:
        """What the first and the second said about each task that has both."""
        firsts = [[one for one in reviewed.reviews if not one.resolves] for reviewed in self.all()]
        return [(two[0].accepts, two[1].accepts) for two in firsts if len(two) == NEEDED]

    def _find(self, task: str) -> Reviewed:
        every = self.all()
        found = next((one for one in every if one.task == task), None)
        if found is None:
            raise NotFound(f"no admitted task is called {task}", known=tuple(one.task for one in every))
        return found

    def _write(self, reviewed: Reviewed, who: str, said: tuple[bool, Sequence[Flaw], str], *, resolves: bool) -> None:
        if not who.strip() or len(who) > LONGEST_NAME:
            raise UsageError("a review needs a name", hint="give --as NAME")
        content = next(_content(one) for one in self._ledger.latest() if one.recording == reviewed.recording)
        accepts, flaws, note = said
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        values = (reviewed.recording, content, who, accepts, " ".join(flaws), note[:LONGEST_NOTE], at, resolves)
        self._ledger.rows("insert or replace into reviews values (?, ?, ?, ?, ?, ?, ?, ?)", *values)


def _content(outcome: Outcome) -> str:
    """What a review is about: the files of the task."""
    if outcome.folder is None or not Path(outcome.folder).is_dir():
        return ""
    return harbor_digest(outcome.folder) or ""


def _standing(reviews: Sequence[Review]) -> Standing:
    decided = [one for one in reviews if one.resolves]
    said = {one.accepts for one in (decided or reviews)}
    if not decided and len(reviews) < NEEDED:
        return "waiting"
    if len(said) > 1:
        return "disputed"
    return "accepted" if said == {True} else "rejected"
