"""What a task needs of whoever runs it. Drivers declare what they offer; the difference is shown before anything
starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Literal

from termarena.tasks.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.model import Task

__all__ = ["Need", "needs_of", "tools_missing_here"]

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
    return tuple(Need(capability=name, reason=reason) for name, reason in sorted(set(_needs(task))))


def tools_missing_here(task: Task, *, path: str | None = None) -> tuple[str, ...]:
    """Of the commands a bare recipe requires, those not on the PATH (by default the system folders a `host` sandbox
    has)."""
    bare = task.environment.bare
    where = path or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return tuple(tool for tool in bare.requires if shutil.which(tool, path=where) is None) if bare else ()


def _needs(task: Task) -> Iterator[tuple[Capability, str]]:
    environment, grading = task.environment, task.grading
    yield from _machine_needs(task)
    policies = (environment.network, task.agent.network, grading.network)
    for policy in policies:
        if policy is not None and policy.mode != "public":
            yield ("network-none" if policy.mode == "none" else "network-allowlist"), "network_mode"
    if environment.healthcheck or any(step.healthcheck for step in task.steps):
        yield "healthcheck", "healthcheck"
    if environment.mcp_servers:
        yield "mcp", "environment.mcp_servers"
    if environment.skills_dir:
        yield "skills", "environment.skills_dir"
    if grading.mode == "separate" or any(step.grading.mode == "separate" for step in task.steps):
        yield "separate-grader", "verifier.environment_mode"
    if grading.collect or any(step.grading.collect for step in task.steps):
        yield "collect-hooks", "verifier.collect"
    if any(artifact.service not in (None, "main") for artifact in task.artifacts):
        yield "service-artifacts", "artifacts.service"
    yield from _phase_needs(task)


def _machine_needs(task: Task) -> Iterator[tuple[Capability, str]]:
    environment = task.environment
    if environment.bare is None:
        yield "image", "environment/Dockerfile" if environment.image is None else f"docker_image {environment.image}"
    if environment.compose:
        yield "compose", f"environment/{environment.compose}"
    if environment.os == "windows":
        yield "windows", "environment.os"
    if environment.gpus:
        yield "gpu", f"environment.gpus = {environment.gpus}"
    if environment.tpu:
        yield "tpu", "environment.tpu"


def _phase_needs(task: Task) -> Iterator[tuple[Capability, str]]:
    if task.steps:
        yield "multi-step", f"{len(task.steps)} steps"
    if task.trajectory or any(step.trajectory for step in task.steps):
        yield "prior-trajectory", "trajectory.json"
    if task.tests and task.tests.same_shell:
        yield "same-shell-tests", "run_tests_in_same_shell"
    if task.solution and task.solution.keystrokes:
        yield "keystroke-solution", "solution.yaml"
    if task.provenance.format == "simple" and task.extras.get("teardown.sh"):
        yield "teardown", "teardown_script"
