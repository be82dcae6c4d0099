"""What a run tells whoever watches it, while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from termarena.runs.engine import Job
    from termarena.runs.result import TrialSummary

__all__ = ["Listener", "Progress", "Quiet"]


class Progress(NamedTuple):
    """How far a run has come, what it came to before it was resumed included."""

    total: int
    solved: int
    unsolved: int
    unscored: int
    """Of those that will not be tried again."""
    running: int
    retrying: int
    """Unscored, and waiting to be tried again."""
    retries: int
    """Tries so far that followed an unscored one, in this session."""
    finished_here: int
    """Trials that came to their end in this session."""
    elapsed_s: float
    """Of this session."""

    @property
    def done(self) -> int:
        """Trials that have come to their end."""
        return self.solved + self.unsolved + self.unscored

    @property
    def left(self) -> int:
        """Trials that have not."""
        return self.total - self.done

    @property
    def eta_s(self) -> float | None:
        """Until the end, at the pace of this session; None while that is unknown."""
        if not self.finished_here:
            return None
        return self.elapsed_s / self.finished_here * self.left


class Listener(Protocol):
    """Is called as things happen, in order, in the event loop: it must not block."""

    def run_opened(self, progress: Progress) -> None:
        """Before the first trial."""

    def trial_started(self, job: Job, progress: Progress) -> None:
        """A try begins."""

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        """A trial has come to its outcome, and the journal has it; unscored ones too, if they are not tried again."""

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        """A try could not be scored; the next follows in so many seconds."""

    def trial_interrupted(self, job: Job, progress: Progress) -> None:
        """A try was stopped; it has no outcome and will be run again on resume."""

    def notice(self, text: str) -> None:
        """Something that a person should know, in one sentence."""


class Quiet:
    """A `Listener` to whom nothing matters; others may build on it."""

    def run_opened(self, progress: Progress) -> None:
        """Nothing."""

    def trial_started(self, job: Job, progress: Progress) -> None:
        """Nothing."""

    def trial_finished(self, summary: TrialSummary, progress: Progress) -> None:
        """Nothing."""

    def trial_retrying(self, summary: TrialSummary, progress: Progress, *, wait_s: float) -> None:
        """Nothing."""

    def trial_interrupted(self, job: Job, progress: Progress) -> None:
        """Nothing."""

    def notice(self, text: str) -> None:
        """Nothing."""
