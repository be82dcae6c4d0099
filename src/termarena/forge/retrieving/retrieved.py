"""What retrieving gives back, and whom it asks what may not come back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

__all__ = ["Blocked", "Retrieved"]


class Blocked(Protocol):
    """What may not come back."""

    def is_blocked(self, recording: str) -> bool:
        """By the digest of its bytes."""

    def is_blocked_source(self, address: str) -> bool:
        """By where it came from."""


@dataclass(slots=True)
class Retrieved:
    """What came of it; `problems` has one sentence for each recording or list that failed."""

    folder: str
    pages: int = 0
    listed: int = 0
    """New in the index."""
    fetched: int = 0
    known: int = 0
    """On the shelf already, and whole."""
    missing: int = 0
    refused: int = 0
    gone: int = 0
    blocked: int = 0
    failed: int = 0
    withdrawn: list[str] = field(default_factory=list)
    """Addresses of recordings that were on the shelf and are gone at their source."""
    problems: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        """How many recordings were looked at."""
        return self.fetched + self.known + self.missing + self.refused + self.gone + self.blocked + self.failed

    def count(
        self,
        what: Literal["listed", "fetched", "known", "missing", "refused", "gone", "blocked", "failed"],
        problem: str = "",
    ) -> None:
        """One more recording that ended so."""
        setattr(self, what, getattr(self, what) + 1)
        if problem:
            self.problems.append(problem)
