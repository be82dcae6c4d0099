"""Writer: any loaded task as a canonical Harbor folder, which loads again to the same digest.

What Harbor has no field for goes under `[metadata.termarena]`, which Harbor ignores; a test suite that does not write
a reward file stands in `tests/suite/` beside an adapter that does.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from termarena.core.errors import TaskError, UsageError
from termarena.tasks.adapters import SUITE, adapter
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.harbor import load_harbor
from termarena.tasks.markers import HARBOR as MARKER
from termarena.tasks.model import (
    AgentPhase,
    Environment,
    Finding,
    Frozen,
    Grading,
    NetworkPolicy,
    Solution,
    Step,
    Task,
    Tests,
)
from termarena.tasks.terminal_bench_1 import KEYSTROKES

__all__ = ["folder_name", "lost_in_writing", "write_harbor"]

_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
# A file name has at most 255 bytes, and a run adds to this one.
LONGEST_NAME = 120
_PART = re.compile(r'"(?:[^"]|"(?!\.|$))*"|[^.]+')
_MODES = {"public": "public", "none": "no-network", "allowlist": "allowlist"}
_AUTHOR = re.compile(r"(?P<name>.*?)(?: <(?P<email>[^<>]*)>)?")


def folder_name(task: Task) -> str:
    """The name of the task's folder: its id, without the organisation, made safe for any file system."""
    name = _UNSAFE.sub("-", task.id.rpartition("/")[2]).strip("-.") or "task"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(task.id.encode()).hexdigest()[:8]}"


def write_harbor(task: Task, parent: Path, *, overwrite: bool = False) -> Path:
    """Write the task below `parent` and return its folder, which appears whole, and loads to the same digest, or not at
    all.

    Raises UsageError if the folder exists and `overwrite` is not set, TaskFormatError if a file of the task cannot be
    read, TaskError if what was written does not load to the same digest, OSError if the disk is full.
    """
    place = parent / folder_name(task)
    if place.exists() and not overwrite:
        raise UsageError(f"{place} exists", hint="give --overwrite, or another --out")
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".writing-") as scratch:
        whole = Path(scratch) / "task"
        whole.mkdir(mode=0o755)
        _tree_of(task).write_to(whole)
        if load_harbor(str(whole)).digest != task.digest:
            raise TaskError(
                f"{task.id} cannot be written as a Harbor folder of the same digest", hint="please report this"
            )
        if place.exists():
            place.rename(Path(scratch) / "old")
        whole.rename(place)
    return place


def lost_in_writing(task: Task) -> tuple[Finding, ...]:
    """A finding for each null in free-form metadata and unknown fields: the written folder will not have it."""
    places = [*_nulls(task.metadata.extra, "metadata"), *_nulls(task.unknown, "")]
    hint = "TOML has no null: write another value, or leave it out"
    return tuple(
        Finding(rule="lost-null", severity="warning", file=MARKER, message=f"{at} is null", field=at, hint=hint)
        for at in places
    )


def _nulls(value: object, place: str) -> Iterator[str]:
    """The dotted path of every null."""
    if value is None:
        yield place
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _nulls(item, f"{place}.{name}" if place else str(name))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _nulls(item, f"{place}.{number}")


def _tree_of(task: Task) -> FileTree:
    document = tomli_w.dumps(_document(task), multiline_strings=True)
    files = [TreeFile.inline(MARKER, document.encode()), *task.extras, *task.trajectory]
    files += _below("environment", task.environment.context)
    if not task.steps:
        files.append(TreeFile.inline("instruction.md", task.instruction.encode()))
    files += _test_files("tests", task.tests, task.grading)
    files += _solution_files("solution", task.solution)
    for step in task.steps:
        files += _step_files(f"steps/{step.name}", step)
    return FileTree.of(files)


def _below(folder: str, tree: FileTree) -> list[TreeFile]:
    return [file._replace(path=f"{folder}/{file.path}") for file in tree]


def _is_harbors_own(tests: Tests) -> bool:
    return tests.entry is None or (
        tests.verdict in ("reward_file", "reward_pipe")
        and tests.entry in ("test.sh", "test.bat")
        and not tests.same_shell
    )


def _test_files(folder: str, tests: Tests | None, grading: Grading) -> list[TreeFile]:
    own_image = grading.environment.context if grading.environment else FileTree()
    if tests is None:
        return _below(folder, own_image)
    if _is_harbors_own(tests):
        return _below(folder, FileTree.of([*own_image, *tests.files]))
    script = TreeFile.inline(f"{folder}/test.sh", adapter(tests).encode(), executable=True)
    return [*_below(folder, own_image), *_below(f"{folder}/{SUITE}", tests.files), script]


def _solution_files(folder: str, solution: Solution | None) -> list[TreeFile]:
    return _below(folder, solution.files) if solution else []


def _step_files(folder: str, step: Step) -> list[TreeFile]:
    return [
        TreeFile.inline(f"{folder}/instruction.md", step.instruction.encode()),
        *_below(f"{folder}/workdir", step.workdir),
        *_below(folder, step.trajectory),
        *_test_files(f"{folder}/tests", step.tests, step.grading),
        *_solution_files(f"{folder}/solution", step.solution),
    ]


def _document(task: Task) -> dict[str, Any]:
    package = _package(task)
    document: dict[str, Any] = {
        "schema_version": "1.4",
        "source": task.provenance.source,
        "multi_step_reward_strategy": task.reward_strategy if task.steps and task.reward_strategy != "mean" else None,
        "artifacts": [_plain(artifact) for artifact in task.artifacts] or None,
        "task": package,
        "metadata": {**_metadata(task, has_package=bool(package)), "termarena": _extension(task)},
        "agent": _agent(task.agent, AgentPhase()),
        "verifier": _verifier(task.grading, Grading()),
        "environment": _environment(task.environment),
        "solution": {"env": dict(task.solution.env)} if task.solution else None,
        "steps": [_step(step, task) for step in task.steps],
    }
    written: dict[str, Any] = _without_nothing(document)
    free = {**_without_none(task.metadata.extra), **written.get("metadata", {})}
    if free:
        written["metadata"] = free
    if _is_harbors(task):
        for place, value in _without_none(task.unknown).items():
            _put_back(written, place, value)
    return written


def _is_harbors(task: Task) -> bool:
    """Whether the task's unknown fields stood in a task.toml, where they can stand again."""
    return task.provenance.format in ("harbor", "terminalworld")


def _without_none(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    """What somebody wrote, without what TOML cannot say: a null."""
    if isinstance(value, Mapping):
        return {str(name): _without_none(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value if item is not None]
    return value


def _put_back(document: dict[str, Any], place: str, value: object) -> None:
    """Set an unknown field where it stood."""
    *above, last = [part[1:-1] if part.startswith('"') else part for part in _PART.findall(place)]
    table: Any = document
    for part in above:
        if isinstance(table, list):
            table = table[int(part)]
        elif isinstance(table.get(part), (dict, list)):
            table = table[part]
        else:
            table[part] = table = {}
    table[last] = value


def _without_nothing(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    """The document without what TOML cannot say (None) and without tables that say nothing."""
    if isinstance(value, dict):
        kept = {str(name): _without_nothing(item) for name, item in value.items() if item is not None}
        return {name: item for name, item in kept.items() if item != {}}
    if isinstance(value, (list, tuple)):
        return [_without_nothing(item) for item in value if item is not None]
    return value


def _plain(part: Frozen) -> dict[str, Any]:
    """A small part under the document's own names, defaults left out."""
    return part.model_dump(by_alias=True, exclude_defaults=True)


def _package(task: Task) -> dict[str, Any] | None:
    if not _PACKAGE.fullmatch(task.id):
        return None
    metadata = task.metadata
    authors = [match.groupdict() for author in metadata.authors if (match := _AUTHOR.fullmatch(author))]
    fields = {
        "version": metadata.version,
        "description": metadata.description,
        "authors": authors or None,
        "keywords": list(metadata.keywords) or None,
    }
    return {"name": task.id, **fields}


def _metadata(task: Task, *, has_package: bool) -> dict[str, Any]:
    metadata = task.metadata
    author = _AUTHOR.fullmatch(metadata.authors[0]) if metadata.authors and not has_package else None
    known: dict[str, Any] = {
        "difficulty": metadata.difficulty if metadata.difficulty != "unknown" else None,
        "category": metadata.category if metadata.category != "unknown" else None,
        "tags": list(metadata.tags) or None,
        "languages": list(metadata.languages) or None,
        "author_name": author["name"] if author else None,
        "author_email": author["email"] if author else None,
        "expert_time_estimate_min": metadata.expert_time_min,
        "junior_time_estimate_min": metadata.junior_time_min,
    }
    if "expert_time_estimate_min" in metadata.extra and metadata.expert_time_min is not None:  # both were given
        known["expert_time_estimate_hours"] = metadata.expert_time_min / 60
    return {name: value for name, value in known.items() if value is not None and name not in metadata.extra}


def _extension(task: Task) -> dict[str, Any]:
    bare, origin = task.environment.bare, task.provenance.format
    is_named = _PACKAGE.fullmatch(task.id) is not None or folder_name(task) == task.id
    return {
        "id": None if is_named else task.id,
        "requires": list(bare.requires) if bare else None,
        "setup": bare.setup if bare else None,
        "services": list(task.environment.services) or None,
        "integrity_allow": list(task.integrity_allow) or None,
        "tests": _tests_extension(task),
        "keystrokes": KEYSTROKES if task.solution and task.solution.keystrokes else None,
        "format": origin if origin != "harbor" else None,
        "unknown": None if _is_harbors(task) else _without_none(task.unknown),
    }


def _tests_extension(task: Task) -> dict[str, Any] | None:
    suites = [task.tests, *(step.tests for step in task.steps)]
    tests = next((suite for suite in suites if suite is not None and suite.entry is not None), None)
    if tests is None:
        return None
    toolchain = tests.toolchain if tests.toolchain != "agents" else None
    verdict = tests.verdict if tests.verdict != "reward_file" else None
    if _is_harbors_own(tests):
        return {"verdict": verdict, "toolchain": toolchain} if verdict or toolchain else None
    same_shell = tests.same_shell or None
    return {
        "root": SUITE, "entry": tests.entry, "verdict": tests.verdict, "same_shell": same_shell, "toolchain": toolchain
    }  # fmt: skip


def _network(policy: NetworkPolicy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    return {"network_mode": _MODES[policy.mode], "allowed_hosts": list(policy.allowed_hosts) or None}


def _agent(agent: AgentPhase, above: AgentPhase) -> dict[str, Any]:
    fields = {"timeout_sec": agent.timeout_s, "user": agent.user}
    outer = {"timeout_sec": above.timeout_s, "user": above.user}
    changed = {name: value for name, value in fields.items() if value != outer[name]}
    return {**changed, **(_network(agent.network) if agent.network != above.network else {})}


def _verifier(grading: Grading, above: Grading) -> dict[str, Any]:
    return {
        "timeout_sec": grading.timeout_s if grading.timeout_s != above.timeout_s else None,
        "env": {name: value for name, value in grading.env.items() if above.env.get(name) != value},
        "user": grading.user if grading.user != above.user else None,
        **(_network(grading.network) if grading.network != above.network else {}),
        "environment_mode": grading.mode if grading.mode != above.mode else None,
        "environment": _environment(grading.environment)
        if grading.environment and grading.environment != above.environment
        else None,
        "collect": [_plain(hook) for hook in grading.collect] if grading.collect != above.collect else None,
    }


def _environment(environment: Environment) -> dict[str, Any]:
    return {
        "build_timeout_sec": environment.build_timeout_s,
        "docker_image": environment.image,
        "os": environment.os if environment.os != "linux" else None,
        "cpus": environment.cpus,
        "memory_mb": environment.memory_mb,
        "storage_mb": environment.storage_mb,
        "gpus": environment.gpus or None,
        "gpu_types": list(environment.gpu_types) or None,
        "tpu": _plain(environment.tpu) if environment.tpu else None,
        **(_network(environment.network) if environment.network != NetworkPolicy() else {}),
        "mcp_servers": [_plain(server) for server in environment.mcp_servers] or None,
        "env": dict(environment.env),
        "skills_dir": environment.skills_dir,
        "healthcheck": _plain(environment.healthcheck) if environment.healthcheck else None,
        "workdir": environment.workdir,
    }


def _step(step: Step, task: Task) -> dict[str, Any]:
    return {
        "name": step.name,
        "agent": _agent(step.agent, task.agent),
        "verifier": _verifier(step.grading, task.grading),
        "min_reward": step.min_reward,
        "healthcheck": _plain(step.healthcheck) if step.healthcheck else None,
        "artifacts": [_plain(artifact) for artifact in step.artifacts] or None,
    }
