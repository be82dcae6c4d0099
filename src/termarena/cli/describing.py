"""One task, described: for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from termarena.cli.output import on_one_line
from termarena.tasks import needs_of, tools_missing_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks import FileTree, Task

__all__ = ["as_json", "as_text"]

_LABEL_WIDTH = 15
_SHOWN_FILES = 12


def as_json(task: Task) -> dict[str, Any]:
    """Everything the loaded task holds, its digest and its needs. File contents are not in it."""
    whole = task.model_dump(mode="json")
    needs = [need.model_dump() for need in needs_of(task)]
    return {**whole, "digest": task.digest, "needs": needs, "tools_missing_here": list(tools_missing_here(task))}


def as_text(task: Task) -> str:
    """The task on a screen: each fact on a line of its own, then the instruction as it stands."""
    facts = [f"{label:<{_LABEL_WIDTH}}{on_one_line(value)}" for label, value in _facts(task)]
    return "\n".join([*facts, "", _instruction(task)])


def _instruction(task: Task) -> str:
    return task.instruction or "\n\n".join(f"step {on_one_line(step.name)}\n{step.instruction}" for step in task.steps)


def _facts(task: Task) -> Iterator[tuple[str, str]]:
    metadata = task.metadata
    yield "task", task.id
    if metadata.description:
        yield "about", " ".join(metadata.description.split())
    yield "kind", f"{metadata.category}, {metadata.difficulty}"
    if metadata.tags:
        yield "tags", ", ".join(metadata.tags)
    if metadata.authors:
        yield "authors", ", ".join(metadata.authors)
    yield "format", f"{task.provenance.format} at {task.provenance.path}"
    if task.provenance.source:
        yield "source", task.provenance.source
    yield "digest", task.digest
    yield from _machine_lines(task)
    yield "limits", _limits(task)
    yield from _file_lines(task)
    yield from _need_lines(task)
    for finding in task.findings:
        yield "noticed", f"{finding.message} [{finding.rule}]"


def _machine_lines(task: Task) -> Iterator[tuple[str, str]]:
    environment = task.environment
    composed = f"environment/{environment.compose}" if environment.compose else "environment/Dockerfile"
    sizes = {"cpu": environment.cpus, "MB memory": environment.memory_mb, "MB disk": environment.storage_mb}
    sizes["gpu"] = environment.gpus or None
    given = [f"{size} {unit}" for unit, size in sizes.items() if size is not None]
    yield "environment", ", ".join([environment.image or composed, *given, f"network {environment.network.mode}"])
    if environment.bare:
        yield "without image", f"with {', '.join(environment.bare.requires) or 'a shell'}"
    if environment.services:
        yield "services", f"must still run when graded: {', '.join(environment.services)}"


def _limits(task: Task) -> str:
    agent = "no limit for the agent" if task.agent.timeout_s is None else f"agent {task.agent.timeout_s:g} s"
    return f"{agent}, grading {task.grading.timeout_s:g} s"


def _file_lines(task: Task) -> Iterator[tuple[str, str]]:
    trees = {"environment/": task.environment.context, "tests/": task.tests.files if task.tests else None}
    trees |= {"solution/": task.solution.files if task.solution else None, "other files": task.extras}
    for name, tree in trees.items():
        if tree:
            yield name, _listing(tree)


def _listing(tree: FileTree) -> str:
    shown = [file.path for file in tree][:_SHOWN_FILES]
    more = f" … ({len(tree)} in all)" if len(tree) > _SHOWN_FILES else ""
    return ", ".join(shown) + more


def _need_lines(task: Task) -> Iterator[tuple[str, str]]:
    for need in needs_of(task):
        yield "needs", f"{need.capability} ({need.reason})"
    missing = tools_missing_here(task)
    if missing:
        yield "missing here", ", ".join(missing)
