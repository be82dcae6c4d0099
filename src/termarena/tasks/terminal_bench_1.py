"""Loader for Terminal-Bench 1 folders: `task.yaml`, a compose file, `run-tests.sh`, `solution.sh` or keystrokes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat, Strict

from termarena.core.errors import TaskFormatError
from termarena.tasks.checking import Checker, shown
from termarena.tasks.compose import Composition, canonical_composition
from termarena.tasks.documents import parse_yaml, read_text
from termarena.tasks.files import NOT_CONTENT, FileTree, TreeFile, scan
from termarena.tasks.metadata import conventional
from termarena.tasks.model import AgentPhase, Environment, Frozen, Grading, Provenance, Solution, Strings, Task, Tests
from termarena.tasks.texts import keystrokes_of, without_canary

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MARKER", "load_terminal_bench_1"]

MARKER = "task.yaml"
RUN_TESTS = "run-tests.sh"
KEYSTROKES = "keystrokes.yaml"
_COMPOSE = "docker-compose.yaml"
_SOLUTIONS = ("solution.sh", "solution.yaml")
_HIDDEN = frozenset({MARKER, _COMPOSE, RUN_TESTS, "tests", *_SOLUTIONS})
_COPY = re.compile(r"^\s*(?:COPY|ADD)\s+(.*)$", re.IGNORECASE | re.MULTILINE)


class Description(Frozen):
    """One of `descriptions`, the oldest spelling of the instruction."""

    key: str
    description: str


class TaskYaml(Frozen):
    """`task.yaml`: names and defaults are Terminal-Bench's."""

    instruction: str | None = None
    descriptions: Annotated[tuple[Description, ...], Strict(strict=False)] = ()
    difficulty: Literal["easy", "medium", "hard", "unknown"]
    author_name: str = "unknown"
    author_email: str = "unknown"
    category: str = "software_engineering"
    tags: Strings = ()
    parser_name: Literal["pytest", "swebench", "swelancer", "mlebench", "sweperf"] = "pytest"
    max_agent_timeout_sec: PositiveFloat = 360.0
    max_test_timeout_sec: PositiveFloat = 60.0
    run_tests_in_same_shell: bool = False
    disable_asciinema: bool = False
    estimated_duration_sec: Annotated[float, Field(ge=0)] | None = None
    expert_time_estimate_min: Annotated[float, Field(ge=0)] | None = None
    junior_time_estimate_min: Annotated[float, Field(ge=0)] | None = None


def load_terminal_bench_1(folder: str, *, strict: bool = False) -> Task:
    """Load one folder; the rules are those of `load_task`."""
    check = Checker(file=f"{folder}/{MARKER}", name=MARKER, strict=strict)
    document = check.check(TaskYaml, parse_yaml(read_text(check.file, boundary=folder), file=check.file))
    everything = scan(folder, boundary=folder, skip=NOT_CONTENT)
    compose = _composition(folder, everything, check)
    return Task(
        id=os.path.basename(folder),  # noqa: PTH119 - one style in the loaders
        instruction=_instruction(check, document),
        environment=Environment(
            context=_context(everything, compose),
            compose=_COMPOSE if compose.text is not None else None,
            env=compose.env,
            workdir=compose.workdir,
        ),
        agent=AgentPhase(timeout_s=document.max_agent_timeout_sec),
        grading=Grading(timeout_s=document.max_test_timeout_sec),
        tests=_tests(folder, everything, document),
        solution=_solution(folder, everything),
        metadata=conventional(check, _free_form(document)),
        provenance=Provenance(format="terminal-bench-1", path=folder),
        unknown=check.unknown,
        findings=tuple(check.findings),
    )


def _instruction(check: Checker, document: TaskYaml) -> str:
    spelled = {one.key: one.description for one in document.descriptions}
    text = document.instruction if document.instruction is not None else spelled.get("base")
    if text is None or not text.strip():
        raise TaskFormatError(
            check.file, field="instruction", found=shown(text), expected="what the agent is asked to do"
        )
    return without_canary(text)


def _free_form(document: TaskYaml) -> Mapping[str, Any]:
    author = {} if document.author_name == "unknown" else {"author_name": document.author_name}
    if document.author_email != "unknown":
        author["author_email"] = document.author_email
    times = {name: getattr(document, name) for name in ("expert_time_estimate_min", "junior_time_estimate_min")}
    odd = {
        "estimated_duration_sec": document.estimated_duration_sec,
        "disable_asciinema": document.disable_asciinema or None,
    }
    return {
        "category": document.category,
        "difficulty": document.difficulty,
        "tags": list(document.tags),
        **author,
        **{name: value for name, value in {**times, **odd}.items() if value is not None},
    }


def _composition(folder: str, everything: FileTree, check: Checker) -> Composition:
    if everything.get(_COMPOSE) is None:
        if everything.get("Dockerfile") is None:
            raise TaskFormatError(
                f"{folder}/{_COMPOSE}", found="no such file", expected="a compose file, or at least a Dockerfile"
            )
        check.note(
            "missing-compose", "there is no docker-compose.yaml; `tb` refuses that, here the Dockerfile is enough"
        )
        return Composition(None, {}, None)
    inner = Checker(file=f"{folder}/{_COMPOSE}", name=_COMPOSE, strict=check.strict)
    composition = canonical_composition(inner, parse_yaml(read_text(inner.file, boundary=folder), file=inner.file))
    check.findings += inner.findings
    if composition.text is None and everything.get("Dockerfile") is None:
        raise TaskFormatError(f"{folder}/Dockerfile", found="no such file", expected="what the compose file builds")
    return composition


def _context(everything: FileTree, compose: Composition) -> FileTree:
    """The build context: the folder without tests and solution, unless the Dockerfile copies them by name (which lint
    reports)."""
    dockerfile = everything.get("Dockerfile")
    recipe = dockerfile.read(1 << 20).decode("utf-8", "replace") if dockerfile and dockerfile.kind == "file" else ""
    copied = {word.lstrip("./").split("/")[0] for line in _COPY.findall(recipe) for word in line.split()[:-1]}
    hidden = _HIDDEN - copied
    files = [file for file in everything if file.path.split("/")[0] not in hidden]
    if compose.text is not None:
        files.append(TreeFile.inline(_COMPOSE, compose.text.encode()))
    return FileTree.of(files)


def _tests(folder: str, everything: FileTree, document: TaskYaml) -> Tests:
    runner = everything.get(RUN_TESTS)
    if runner is None:
        raise TaskFormatError(f"{folder}/{RUN_TESTS}", found="no such file", expected="the script that runs the tests")
    return Tests(
        files=FileTree.of([*everything.under("tests"), runner]),
        entry=RUN_TESTS,
        verdict=document.parser_name,
        same_shell=document.run_tests_in_same_shell,
    )


def _solution(folder: str, everything: FileTree) -> Solution | None:
    script, typed = (everything.get(name) for name in _SOLUTIONS)
    if script is not None:
        return Solution(files=FileTree((script._replace(path="solve.sh"),)), entry="solve.sh")
    if typed is not None:
        return Solution(
            files=FileTree((typed._replace(path=KEYSTROKES),)),
            keystrokes=keystrokes_of(f"{folder}/{typed.path}", boundary=folder),
        )
    return None
