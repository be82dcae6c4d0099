"""Conditions that not every task allows and not every machine can make: a later date, another user, another order."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.agents.contract import AgentReport
from termarena.agents.oracle import Oracle
from termarena.proof.conditions import PLACE, Condition
from termarena.proof.evidence import Frozen
from termarena.proof.shuffling import MARK
from termarena.sandbox import Feature
from termarena.sandbox.staged import staged
from termarena.tasks.model import Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.agents.contract import Agent, Brief, Workspace
    from termarena.proof.evidence import Evidence
    from termarena.sandbox import Capabilities
    from termarena.tasks.model import AgentPhase, Grading

__all__ = [
    "LATER",
    "OTHER_ORDER",
    "OTHER_USER",
    "UNREACHED",
    "Equipped",
    "Patience",
    "Untried",
    "further_conditions",
    "patience_for",
    "task_under",
    "task_within",
    "why_unreached",
]

LATER: Final = "later"
OTHER_USER: Final = "other-user"
OTHER_ORDER: Final = "other-order"
DAYS: Final = 400
"""Another year, another weekday, another side of a change of summer time."""
DAY_S: Final = 86_400
STRANGER: Final = "12345:12345"
"""No image has an account of this number."""
SEED: Final = "7"
UNREACHED: Final = "the condition was not reached: "
LIBRARY: Final = "later.so"
COMPILE_S: Final = 60.0
PATIENCE: Final = 5.0
LEAST_PATIENCE_S: Final = 10.0
"""A wrong solution may loop for ever: it is given so many seconds, and so many times what the solution took."""
_LAY: Final = 'umask 022; mkdir -p "$1" && cat >"$1/$2"'
_PYTEST: Final = re.compile(rb"\bpytest\b")
TRUSTING_GIT: Final = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
"""Without these git refuses to read a repository of another user than its own, whatever the solution did."""
DISTRUSTED: Final = "dubious ownership"
"""What git says where it refuses all the same: before 2.36 it does not hear that from variables."""
_TEXT_BYTES: Final = 1 << 16


class Patience(NamedTuple):
    """How long something is waited for that may never end."""

    work_s: float
    grade_s: float


class Untried(Frozen):
    """A condition under which the solution was not tried, and why."""

    condition: str
    why: str


def further_conditions(
    task: Task, solved: Evidence, capabilities: Capabilities
) -> tuple[tuple[Condition, ...], tuple[Untried, ...]]:
    """What can be tried with this task here, and what not; `solved` is a passing attempt. Reads files of the task."""
    answers = {
        LATER: _later(task),
        OTHER_USER: _other_user(task, solved, capabilities),
        OTHER_ORDER: _other_order(task),
    }
    possible = tuple(one for one in answers.values() if isinstance(one, Condition))
    return possible, tuple(Untried(condition=name, why=one) for name, one in answers.items() if isinstance(one, str))


def why_unreached(evidence: Evidence) -> str | None:
    """Why a trial says nothing about its condition; None where it does."""
    _, is_unreached, why = evidence.message.partition(UNREACHED)
    if is_unreached:
        return why
    if evidence.condition == OTHER_USER and DISTRUSTED in evidence.output:
        return "git refuses what belongs to another user than the tests'"
    if evidence.condition == OTHER_ORDER and MARK not in evidence.output:
        return "the tests' pytest does not take up a plugin from outside"
    return None


def _later(task: Task) -> Condition | str:
    if task.environment.network.mode != "none":
        return "the task has a network, whose certificates have dates"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return "there is no C compiler on this machine; the Debian package is gcc"
    library = _compiled(compiler)
    if library is None:
        return f"{compiler} does not compile what changes the date"
    expected = time.time() + DAYS * DAY_S
    return Condition(
        LATER,
        f"{DAYS} days later",
        env={"LD_PRELOAD": f"{PLACE}/{LIBRARY}"},
        files={LIBRARY: library},
        probe=lambda said: None if _is_about(said, expected) else "programs of this image do not load what changes it",
    )


def _compiled(compiler: str) -> bytes | None:
    """The library that changes the date; None where it does not compile."""
    source = (files("termarena.proof") / "later.c").read_bytes()
    shared = (compiler, "-std=gnu11", "-shared", "-fPIC", "-O1", "-nostdlib", f"-DSHIFT_S={DAYS * DAY_S}L", "-xc", "-")
    with staged("clock") as folder:
        # Before glibc 2.34 the dynamic linker's functions were in a library of their own, which not every program has.
        linker, made = folder / "libdl.so", folder / LIBRARY
        is_made = _runs((*shared, f"-Wl,-soname,{linker.name}.2", "-o", str(linker)), b"") and _runs(
            (*shared, "-xnone", "-Wl,--no-as-needed", str(linker), "-o", str(made)), source
        )
        return made.read_bytes() if is_made else None


def _runs(words: Sequence[str], source: bytes) -> bool:
    try:
        done = subprocess.run(words, input=source, capture_output=True, check=False, timeout=COMPILE_S)  # noqa: S603 - fixed arguments, our own source
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _is_about(said: str, expected_s: float) -> bool:
    return said.strip().isdigit() and abs(int(said) - expected_s) < 2 * DAY_S


def _other_user(task: Task, solved: Evidence, capabilities: Capabilities) -> Condition | str:
    if Feature.USERS not in capabilities.features:
        return capabilities.missing[Feature.USERS]
    if task.agent.user is not None or task.steps:
        return "the task says who the agent is" if task.agent.user is not None else "the task has several steps"
    if solved.processes_left:
        return "the solution leaves processes, and whose they are may matter"
    beyond = next(_beyond(task, solved), None)
    if beyond is not None:
        return f"the solution changes {beyond}, which takes root"
    what = "by a user that is not root, who owns the working folder"
    return Condition(OTHER_USER, what, env=TRUSTING_GIT, user=STRANGER)


def _beyond(task: Task, solved: Evidence) -> Iterator[str]:
    """What the solution changed outside of places where every user may."""
    folder = (task.environment.workdir or "/app").rstrip("/")
    open_places = (folder, "/tmp", "/var/tmp")  # noqa: S108 - inside
    for path in sorted(solved.state):
        if not any(path == place or path.startswith(f"{place}/") for place in open_places):
            yield path


def _other_order(task: Task) -> Condition | str:
    suites = [task.tests, *(step.tests for step in task.steps)]
    texts = (file.read(_TEXT_BYTES) for tests in suites if tests for file in tests.files if file.path.endswith(".sh"))
    if not any(_PYTEST.search(text) for text in texts):
        return "the tests are not run by pytest"
    plugin = files("termarena.proof") / "shuffling.py"
    return Condition(
        OTHER_ORDER,
        "the tests in another order",
        env={"PYTEST_ADDOPTS": "-p termarena_order", "PYTHONPATH": PLACE, "TERMARENA_ORDER": SEED},
        files={"termarena_order.py": plugin.read_bytes()},
    )


def task_under(task: Task, condition: Condition) -> Task:
    """The task, with the condition's user as its agent."""
    if condition.user is None:
        return task
    return _changed(task, agent=task.agent.model_copy(update={"user": condition.user}))


def patience_for(passed: Sequence[Evidence]) -> Patience:
    """So much longer than the solution took, in these tries of it, that whatever takes longer hangs."""
    work_s, grade_s = max(one.work_s for one in passed), max(one.grade_s for one in passed)
    return Patience(LEAST_PATIENCE_S + PATIENCE * work_s, LEAST_PATIENCE_S + PATIENCE * grade_s)


def task_within(task: Task, patience: Patience) -> Task:
    """The task, with no more time than that for the agent and for the tests."""
    given_s = task.agent.timeout_s
    work_s = patience.work_s if given_s is None else min(given_s, patience.work_s)
    return _changed(
        task,
        agent=task.agent.model_copy(update={"timeout_s": work_s}),
        grading=task.grading.model_copy(update={"timeout_s": min(task.grading.timeout_s, patience.grade_s)}),
    )


def _changed(task: Task, **parts: AgentPhase | Grading) -> Task:
    """Another task, with a digest of its own."""
    return Task(**{**{name: getattr(task, name) for name in Task.model_fields}, **parts})


class Equipped:
    """See `Agent`: the solution, once what a condition needs is in its place."""

    def __init__(self, task: Task, condition: Condition) -> None:
        """`condition` must be that of the sandbox too: this brings its files, gives away the working folder, probes."""
        self._oracle: Agent = Oracle(task)
        self._condition = condition
        self._folder = task.environment.workdir or "/app"
        self.name, self.version = self._oracle.name, self._oracle.version

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Lay, probe, solve. A condition that is not reached is told in the report, and nothing is solved then. Raises
        what the oracle raises."""
        problem = await self._prepare(workspace)
        return AgentReport(message=UNREACHED + problem) if problem else await self._oracle.solve(brief, workspace)

    async def _prepare(self, workspace: Workspace) -> str | None:
        for name, content in self._condition.files.items():
            # As root, who need not be the agent, and without the libraries that are only on their way.
            words = ["/bin/sh", "-c", _LAY, "sh", PLACE, name]
            laid = await workspace.exec(words, user="root", cwd="/", stdin=content, env={"LD_PRELOAD": ""})
            if laid.exit_status != 0:
                return f"{PLACE}/{name} cannot be written"
        if self._condition.user is not None:
            words = ["chown", "-hR", self._condition.user, self._folder]
            done = await workspace.exec(words, user="root", cwd="/")
            if done.exit_status != 0:
                return f"{self._folder} cannot be given to another user"
        if self._condition.probe is None:
            return None
        said = await workspace.exec(["date", "+%s"], cwd="/")
        return self._condition.probe(said.stdout.decode("utf-8", "replace"))
