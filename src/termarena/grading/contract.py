"""The verdict: what a grader found, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from termarena.tasks.model import Toolchain

__all__ = [
    "FaultReason",
    "GradedIn",
    "GradingFault",
    "GradingMode",
    "IntegrityFinding",
    "TestResult",
    "TestState",
    "Verdict",
]

GradingMode = Literal["auto", "sealed", "live", "both"]
"""What a run asks for; `Verdict.graded_in` says what happened."""
GradedIn = Literal["sealed", "live", "separate", "baseline"]
TestState = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "unknown"]
FaultReason = Literal[
    "no_tests",
    "tests_changed",
    "cannot_run",
    "no_reward",
    "bad_reward",
    "nothing_parsed",
    "sandbox",
    "toolchain_broken_by_agent",
]
SOLVED_AT = 1.0


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TestResult(_Frozen):
    """One test by its name; a skipped one is not a pass."""

    __test__ = False  # pytest looks for classes of this name

    name: str
    state: TestState
    message: str = ""
    duration_s: float | None = None


class IntegrityFinding(_Frozen):
    """A change of the file system that could bend the grading."""

    rule: str
    """Stable id, such as `interpreter-replaced`; `docs/grading.md` explains each."""
    severity: Literal["critical", "warning", "info"]
    path: str
    message: str


class GradingFault(_Frozen):
    """Why there is no reward; never the agent's zero."""

    reason: FaultReason
    """`toolchain_broken_by_agent` alone counts against the agent: the diff shows that it did it, or the same tests give
    a verdict in the start state. `tests_changed`: the files on the host are not those of the task's digest."""
    message: str


class Verdict(_Frozen):
    """What one grading found. `reward` is None exactly when there is a fault."""

    reward: float | None
    rewards: Mapping[str, float] = Field(default_factory=dict)
    """Every named reward, as the task wrote it."""
    raw_reward: float | None = None
    """What the tests gave, before a critical finding took it away."""
    graded_in: GradedIn
    toolchain: Toolchain = "agents"
    """Whose shell, interpreter and libraries ran the tests: those that the agent left, which are watched, or those of
    the start."""
    tests: tuple[TestResult, ...] = ()
    findings: tuple[IntegrityFinding, ...] = ()
    is_tampered: bool = False
    timed_out: bool = False
    """The tests did not end in time: unsolved, since a solution may hang, and flagged."""
    exit_status: int | None = None
    """Of the tests' own process, as a shell has it."""
    oom_killed: bool = False
    """The sandbox's memory limit killed a process while the tests ran."""
    fault: GradingFault | None = None
    output_bytes: int = 0
    """How much the tests wrote; `test_output.txt` holds the first and the last of it."""
    duration_s: Annotated[float, Field(ge=0)] = 0.0
    others: tuple[Verdict, ...] = ()
    """Gradings of the same state that did not count: the sealed one before a live one, or the other of `both`."""
    steps: Mapping[str, Verdict] = Field(default_factory=dict)
    """Of a task of several steps, by the step's name."""

    @property
    def is_pass(self) -> bool:
        """Whether the task counts as solved: the whole reward, untampered."""
        return self.reward is not None and self.reward >= SOLVED_AT and not self.is_tampered
