"""What is to be graded, and how: the part of a task that one grading needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from termarena.tasks.files import FileTree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.core.scrub import Scrubber
    from termarena.tasks.model import Grading, Step, Task, Tests, VerdictSource

__all__ = ["GradingJob"]

_AS_ROOT: Final = frozenset({"pytest", "swebench", "sweperf", "mlebench", "swelancer"})


class _More(TypedDict, total=False):
    logs: Path | None
    timeout_multiplier: float
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GradingJob:
    """One grading; make it with `GradingJob.of`.

    `task.digest` must be that of `task` as it stands: one made by `model_copy` carries the old digest along.
    """

    task: Task
    tests: Tests | None
    """The step's, or the task's; None where the grader's own image brings them."""
    grading: Grading
    """The step's, or the task's."""
    output: Path
    """`test_output.txt`: what the tests wrote, the first and the last of it."""
    logs: Path | None = None
    """A folder, new or empty, for what the tests left in `/logs`."""
    scrubber: Scrubber | None = None
    """Takes the secrets out of both before they are there; None leaves them in."""
    timeout_multiplier: float = 1.0
    variables: Mapping[str, str] = field(default_factory=dict)
    """What fills in `${NAME}` in the grading's own variables; nothing of the harness's does by itself."""
    is_last: bool = False
    """Whether nothing comes after it in its sandbox, from which the tests then need not be taken away again."""

    @classmethod
    def of(cls, task: Task, *, step: Step | None = None, output: Path, **more: Unpack[_More]) -> GradingJob:
        """The grading of a task, or of one of its steps; `logs`, `timeout_multiplier` and `variables` as above."""
        return cls(
            task=task,
            tests=step.tests or task.tests if step else task.tests,
            grading=step.grading if step else task.grading,
            output=output,
            **more,
        )

    @property
    def is_bundled(self) -> bool:
        """Whether the grader's own image was built out of the tests' folder and holds them: nothing is laid then."""
        own = self.grading.environment if self.grading.mode == "separate" else None
        return self.tests is None or (own is not None and bool(own.context))

    @property
    def layers(self) -> tuple[Tests, ...]:
        """The tests to lay, one over the other: a step's go over those that all steps share."""
        if self.is_bundled or self.tests is None:
            return ()
        shared = self.task.tests
        return (self.tests,) if shared is None or shared is self.tests else (shared, self.tests)

    @property
    def files(self) -> FileTree:
        """Everything that will lie in `/tests`."""
        return FileTree.of(file for tests in self.layers for file in tests.files)

    @property
    def entry(self) -> str | None:
        """The script to run, below `/tests`; None where there is none."""
        if self.tests is None:
            return "test.sh"
        own = self.tests.entry
        return own or (self.task.tests.entry if self.task.tests else None) or ("test.sh" if self.is_bundled else None)

    @property
    def verdict(self) -> VerdictSource:
        """Where the score comes from."""
        return self.tests.verdict if self.tests else "reward_file"

    @property
    def same_shell(self) -> bool:
        """Whether the tests are typed into the agent's own shell."""
        return self.tests is not None and self.tests.same_shell

    @property
    def user(self) -> str | None:
        """Who runs the tests; None for the sandbox's own user. Terminal-Bench 1 always runs them as root."""
        if self.grading.user is None:
            return "root" if self.verdict in _AS_ROOT else None
        return str(self.grading.user)

    @property
    def timeout_s(self) -> float:
        """How long the tests may take."""
        return self.grading.timeout_s * self.timeout_multiplier
