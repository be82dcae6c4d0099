"""Evidence: what one trial of the battery showed, and the state of files that it left."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from termarena.grading.contract import GradedIn, TestState
from termarena.proof.conditions import PLACE
from termarena.runs.outcome import Fault, Outcome

if TYPE_CHECKING:
    from termarena.sandbox import Change, FileChanges

__all__ = ["Evidence", "Frozen", "Graded", "Stage", "dated_in", "differences", "same_state", "state_of", "undated"]

Stage = Literal["solvable", "trivial", "discriminating", "equivalent", "hackable", "leaks", "fetches"]
MOST_PATHS: Final = 2000
"""Of a state; what lies beyond is kept as one digest."""
OUTSIDE: Final = ("/logs", "/solution", "/oracle", "/tests", PLACE, "/tmp/agent-script", "/proc", "/sys", "/dev")  # noqa: S108 - inside
BYTECODE: Final = "__pycache__"
EMPTY: Final = " " + hashlib.blake2b(b"", digest_size=32).hexdigest()[:32]
"""How the entry of a file ends that holds nothing."""


class Frozen(BaseModel):
    """What a proof is made of: immutable, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Graded(Frozen):
    """One grading of a trial's state."""

    graded_in: GradedIn
    reward: float | None
    """After the integrity findings."""
    raw_reward: float | None
    """What the tests themselves gave."""
    is_tampered: bool = False
    fault: str | None = None
    """Why there is no reward."""

    def earns(self, more_than: float) -> bool:
        """Whether it is worth more than this, as the harness grades; a part of a reward is one too."""
        return self.reward is not None and self.reward > more_than

    def fools_the_tests(self, more_than: float) -> bool:
        """Whether the tests alone would have given more than this."""
        return max(self.raw_reward or 0.0, self.reward or 0.0) > more_than


class Evidence(Frozen):
    """One trial: what was tried, under which condition, and what came of it."""

    stage: Stage
    name: str
    key: str
    """A digest of what was done, how, and to which task: equal for a trial that need not be run again."""
    condition: str = "plain"
    outcome: Outcome
    fault: Fault | None = None
    """Whose it is that there is no outcome: `infra` is ours, and says nothing of the task."""
    gradings: tuple[Graded, ...] = ()
    """The one that counts first."""
    tests: Mapping[str, TestState] = Field(default_factory=dict)
    findings: tuple[str, ...] = ()
    """Rules that found something critical."""
    state: Mapping[str, str] = Field(default_factory=dict)
    """Path → what it came to be; see `state_of`."""
    processes_left: int = 0
    timed_out: bool = False
    """Whether the solution or the tests were ended because they took too long."""
    work_s: float = 0.0
    grade_s: float = 0.0
    cpu_s: float | None = None
    memory_peak_bytes: int | None = None
    disk_bytes: int | None = None
    load: float | None = None
    """Programs per processor that ran or wanted to, over the trial's last minute; None where that is unknown."""
    message: str = ""
    """How the script ended, or why there is no verdict."""
    output: str = ""
    """The end of what the tests wrote."""

    @property
    def passes(self) -> bool:
        """Whether it counts as solved."""
        return self.outcome == "solved"

    def graded(self, where: GradedIn) -> Graded | None:
        """The grading in one place, if there was one."""
        return next((one for one in self.gradings if one.graded_in == where), None)


def state_of(changes: FileChanges) -> dict[str, str]:
    """What a trial made of the files: each changed path with its kind, mode, owner and content; times do not count.

    Bytecode is left out, and so are the grading's own places. Beyond 2,000 paths the rest is one entry, `…`.
    """
    paths = {one.path: _signature(one) for one in changes.changes if _counts(one)}
    if len(paths) <= MOST_PATHS:
        return paths
    first = dict(sorted(paths.items())[:MOST_PATHS])
    rest = "\n".join(f"{path} {held}" for path, held in sorted(paths.items())[MOST_PATHS:])
    return {**first, "…": hashlib.sha256(rest.encode("utf-8", "surrogateescape")).hexdigest()}


def _counts(change: Change) -> bool:
    if change.change == "metadata" and change.kind == "folder":
        return False
    is_outside = any(change.path == place or change.path.startswith(f"{place}/") for place in OUTSIDE)
    return not is_outside and BYTECODE not in change.path


def _signature(change: Change) -> str:
    if change.change == "removed":
        return "removed"
    content = change.digest if change.kind == "file" else change.target
    held = (content or "")[:32] if change.change != "metadata" else "as it was"
    return f"{change.kind} {change.mode or 0:o} {change.uid}:{change.gid} {held}".rstrip()


def dated_in(states: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """The files that are in every state, never empty, and differ in nothing but what they hold: a time, a number."""
    first, *others = states
    files = {path for path, held in first.items() if held.startswith("file ") and not held.endswith(EMPTY)}
    return frozenset(
        path
        for path in files
        if any(other.get(path) != first[path] for other in others)
        and all(_without_content(other.get(path, "")) == _without_content(first[path]) for other in others)
    )


def undated(state: Mapping[str, str], dated: frozenset[str]) -> dict[str, str]:
    """The state without what these files hold, but whether they hold anything."""
    return {path: _without_content(held) if path in dated else held for path, held in state.items()}


def _without_content(held: str) -> str:
    is_full = held.startswith("file ") and not held.endswith(EMPTY)
    return f"{held.rpartition(' ')[0]} …" if is_full else held


def same_state(one: Mapping[str, str], other: Mapping[str, str], *, noise: frozenset[str] = frozenset()) -> bool:
    """Whether two states are the same but for paths that are never twice the same."""
    return not differences(one, other, noise=noise)


def differences(
    one: Mapping[str, str], other: Mapping[str, str], *, noise: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The paths in which two states differ, sorted."""
    return tuple(sorted(path for path in {*one, *other} - noise if one.get(path) != other.get(path)))
