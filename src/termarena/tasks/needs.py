"""What a task needs of whoever runs it. Drivers declare what they offer; the difference is shown before anything
starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Literal

from termarena.tasks.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.model import Environment, Task

__all__ = ["Need", "needs_of", "tools_missing_for", "tools_missing_here"]

Capability = Literal[
    "collect-hooks",
    "compose",
    "gpu",
    "healthcheck",
    "image",
    "keystroke-solution",
    "mcp",
    "multi-step",
    "network-allowlist",
    "network-none",
    "prior-trajectory",
    "same-shell-tests",
    "separate-grader",
    "service-artifacts",
    "skills",
    "teardown",
    "tpu",
    "windows",
]


class Need(Frozen):
    """One thing a task needs beyond a Linux sandbox with a shell."""

    capability: Capability
    reason: str
    """Where the task says so."""


def needs_of(task: Task) -> tuple[Need, ...]:
    """Everything this task needs, in a stable order; empty for a task that any sandbox can run."""
    found: dict[Capability, list[str]] = {}
    for name, reason in _needs(task):
        reasons = found.setdefault(name, [])
        if reason not in reasons:
            reasons.append(reason)
    return tuple(Need(capability=name, reason=", ".join(found[name])) for name in sorted(found))


def tools_missing_here(task: Task, *, path: str | None = None) -> tuple[str, ...]:
    """Of the commands a bare recipe requires, those not on the PATH (by default the system folders a `host` sandbox
    has)."""
    return tools_missing_for(task.environment, path=path)


def tools_missing_for(environment: Environment, *, path: str | None = None) -> tuple[str, ...]:
    """The same of an environment alone."""
    bare = environment.bare
    where = path or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return tuple(tool for tool in bare.requires if shutil.which(tool, path=where) is None) if bare else ()


def _needs(task: Task) -> Iterator[tuple[Capability, str]]:
    environment = task.environment
    gradings = (task.grading, *(step.grading for step in task.steps))
    yield from _machine_needs(environment, "environment")
    for grading in gradings:
        if grading.environment is not None:
            yield from _machine_needs(grading.environment, "verifier.environment")
    yield from _network_needs(task)
    if environment.healthcheck or any(step.healthcheck for step in task.steps):
        yield "healthcheck", "healthcheck"
    if environment.mcp_servers:
        yield "mcp", "environment.mcp_servers"
    if environment.skills_dir:
        yield "skills", "environment.skills_dir"
    if any(grading.mode == "separate" for grading in gradings):
        yield "separate-grader", "verifier.environment_mode"
    if any(grading.collect for grading in gradings):
        yield "collect-hooks", "verifier.collect"
    artifacts = (*task.artifacts, *(artifact for step in task.steps for artifact in step.artifacts))
    if any(artifact.service not in (None, "main") for artifact in artifacts):
        yield "service-artifacts", "artifacts.service"
    yield from _phase_needs(task)


def _network_needs(task: Task) -> Iterator[tuple[Capability, str]]:
    policies = [task.environment.network, task.agent.network, task.grading.network]
    for step in task.steps:
        policies += [step.agent.network, step.grading.network]
    for policy in policies:
        if policy is not None and policy.mode != "public":
            yield ("network-none" if policy.mode == "none" else "network-allowlist"), "network_mode"


def _machine_needs(environment: Environment, place: str) -> Iterator[tuple[Capability, str]]:
    if environment.bare is None:
        yield "image", f"{place}: a Dockerfile" if environment.image is None else f"{place}: {environment.image}"
    if environment.compose:
        yield "compose", f"{place}: {environment.compose}"
    if environment.os == "windows":
        yield "windows", f"{place}.os"
    if environment.gpus:
        yield "gpu", f"{place}.gpus = {environment.gpus}"
    if environment.tpu:
        yield "tpu", f"{place}.tpu"


def _phase_needs(task: Task) -> Iterator[tuple[Capability, str]]:
    if task.steps:
        yield "multi-step", f"{len(task.steps)} steps"
    if task.trajectory or any(step.trajectory for step in task.steps):
        yield "prior-trajectory", "trajectory.json"
    if any(tests and tests.same_shell for tests in (task.tests, *(step.tests for step in task.steps))):
        yield "same-shell-tests", "run_tests_in_same_shell"
    if any(one and one.keystrokes for one in (task.solution, *(step.solution for step in task.steps))):
        yield "keystroke-solution", "solution.yaml"
    if task.provenance.format == "simple" and task.extras.get("teardown.sh"):
        yield "teardown", "teardown_script"
