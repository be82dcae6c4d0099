"""Limits: clocks and resources that a task leaves open, or sets so that a run becomes unlike any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.tasks.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.view import View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

NO_AGENT_TIMEOUT = Rule(
    "no-agent-timeout",
    "warning",
    "the agent has no time limit",
    "set timeout_sec in [agent]: runs are then compared on the same clock",
)
LONG_GRADING = Rule(
    "long-grading",
    "warning",
    "the tests may take more than an hour",
    "lower timeout_sec in [verifier], or test a smaller sample",
)
NO_RESOURCES = Rule(
    "no-resource-limits",
    "info",
    "processors, memory or storage are left open",
    "set cpus, memory_mb and storage_mb in [environment]",
)
GPU_TASK = Rule("needs-gpu", "info", "the task needs a GPU or a TPU", "expect it to be skipped where there is none")
GPU_TYPE = Rule(
    "gpu-type-without-gpu", "warning", "gpu_types are named, but no GPU is asked for", "set gpus = 1, or drop gpu_types"
)
GPU_ON_WINDOWS = Rule(
    "gpu-on-windows",
    "warning",
    "GPUs are asked for in a Windows container",
    'use os = "linux": no engine passes GPUs to Windows containers',
)
RULES = (NO_AGENT_TIMEOUT, LONG_GRADING, NO_RESOURCES, GPU_TASK, GPU_TYPE, GPU_ON_WINDOWS)

HOUR_S = 3600


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    task, file = view.task, view.document
    for name, agent in [("agent", task.agent), *((f"steps {step.name}", step.agent) for step in task.steps)]:
        if agent.timeout_s is None and (name != "agent" or not task.steps):
            yield NO_AGENT_TIMEOUT.found(file, f"[{name}] has no timeout_sec")
    for name, grading in [("verifier", task.grading), *((f"steps {step.name}", step.grading) for step in task.steps)]:
        if grading.timeout_s > HOUR_S:
            yield LONG_GRADING.found(file, f"[{name}] allows {grading.timeout_s / 60:g} minutes for grading")
    yield from _resources(view)


def _resources(view: View) -> Iterator[Finding]:
    environment, file = view.task.environment, view.document
    open_ends = [name for name in ("cpus", "memory_mb", "storage_mb") if getattr(environment, name) is None]
    if open_ends and file == "task.toml":
        yield NO_RESOURCES.found(file, f"[environment] does not set {', '.join(open_ends)}")
    if environment.gpus or environment.tpu:
        yield GPU_TASK.found(
            file,
            f"[environment] asks for {environment.gpus} GPUs" if environment.gpus else "[environment] asks for a TPU",
        )
    if environment.gpus and environment.os == "windows":
        yield GPU_ON_WINDOWS.found(file, "[environment] asks for GPUs on windows")
    if environment.gpu_types and not environment.gpus:
        yield GPU_TYPE.found(file, f"gpu_types names {', '.join(environment.gpu_types)[:80]}, but gpus is 0")
