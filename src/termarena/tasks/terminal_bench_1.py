"""Loader for Terminal-Bench 1 folders: `task.yaml`, a compose file, `run-tests.sh`, `solution.sh` or keystrokes."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat, Strict

from termarena.core.errors import TaskFormatError
from termarena.tasks.checking import Checker
from termarena.tasks.compose import Build, Composition, canonical_composition
from termarena.tasks.dockerfile import parse_dockerfile
from termarena.tasks.documents import read_text
from termarena.tasks.files import FileTree, TreeFile, not_content, scan
from termarena.tasks.markers import TERMINAL_BENCH_1 as MARKER
from termarena.tasks.metadata import conventional
from termarena.tasks.model import AgentPhase, Environment, Frozen, Grading, Provenance, Solution, Strings, Task, Tests
from termarena.tasks.texts import asked, keystrokes_of
from termarena.tasks.yaml_documents import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["load_terminal_bench_1"]

RUN_TESTS = "run-tests.sh"
KEYSTROKES = "keystrokes.yaml"
_COMPOSE = "docker-compose.yaml"
_SOLUTIONS = ("solution.sh", "solution.yaml")
_HIDDEN = frozenset({MARKER, _COMPOSE, RUN_TESTS, "tests", *_SOLUTIONS})
_RECIPE_LIMIT_BYTES = 1 << 20
_WILDCARD = re.compile(r"[*?\[]")
_LONGEST_NAME = 255


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


def load_terminal_bench_1(folder: str) -> Task:
    """Load one folder; the rules are those of `load_task`."""
    check = Checker(file=f"{folder}/{MARKER}", name=MARKER)
    document = check.check(TaskYaml, parse_yaml(read_text(check.file, boundary=folder), file=check.file))
    everything = scan(folder, boundary=folder, skip=not_content(folder))
    environment = _environment(folder, everything, check)
    return Task(
        id=os.path.basename(folder),  # noqa: PTH119 - one style in the loaders
        instruction=_instruction(check, document),
        environment=environment,
        agent=AgentPhase(timeout_s=document.max_agent_timeout_sec),
        grading=Grading(timeout_s=document.max_test_timeout_sec),
        tests=_tests(folder, everything, document),
        solution=_solution(folder, everything, check),
        metadata=conventional(check, _free_form(document)),
        provenance=Provenance(format="terminal-bench-1", path=folder),
        extras=_extras(folder, everything),
        unknown=check.unknown,
        findings=tuple(check.findings),
    )


def _base(document: TaskYaml) -> Description | None:
    """The description that stands for the instruction, where there is none."""
    if document.instruction is not None:
        return None
    return next((one for one in document.descriptions if one.key == "base"), None)


def _instruction(check: Checker, document: TaskYaml) -> str:
    base = _base(document)
    return asked(base.description if base else document.instruction, file=check.file, field="instruction")


def _free_form(document: TaskYaml) -> Mapping[str, Any]:
    author = {} if document.author_name == "unknown" else {"author_name": document.author_name}
    if document.author_email != "unknown":
        author["author_email"] = document.author_email
    times = {name: getattr(document, name) for name in ("expert_time_estimate_min", "junior_time_estimate_min")}
    base = _base(document)
    others = [one.model_dump() for one in document.descriptions if one is not base]
    odd = {
        "descriptions": others or None,
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


def _environment(folder: str, everything: FileTree, check: Checker) -> Environment:
    """The environment; with a compose file only where a Dockerfile cannot say the same, or where the image holds it."""
    compose = _composition(folder, everything, check)
    copied = _copied(folder, everything, compose.builds if compose else (Build(),))
    context = _context(folder, everything, hidden=_HIDDEN - copied)
    if compose is None:
        return Environment(context=context)
    if compose.plain is not None and _COMPOSE not in copied:
        if everything.get("Dockerfile") is None:
            raise TaskFormatError(f"{folder}/Dockerfile", found="no such file", expected="what the compose file builds")
        return Environment(context=context, env=compose.plain.env, workdir=compose.plain.workdir)
    written = TreeFile.inline(_COMPOSE, compose.text().encode())
    return Environment(context=FileTree.of([*context, written]), compose=_COMPOSE)


def _composition(folder: str, everything: FileTree, check: Checker) -> Composition | None:
    if everything.get(_COMPOSE) is None:
        if everything.get("Dockerfile") is None:
            raise TaskFormatError(
                f"{folder}/{_COMPOSE}", found="no such file", expected="a compose file, or at least a Dockerfile"
            )
        check.note(
            "missing-compose", "there is no docker-compose.yaml; `tb` refuses that, here the Dockerfile is enough"
        )
        return None
    inner = Checker(file=f"{folder}/{_COMPOSE}", name=_COMPOSE)
    composition = canonical_composition(inner, parse_yaml(read_text(inner.file, boundary=folder), file=inner.file))
    check.findings += inner.findings
    return composition


def _context(folder: str, everything: FileTree, *, hidden: frozenset[str]) -> FileTree:
    """The build context: the folder without tests and solution, unless a Dockerfile copies them by name (which lint
    reports). A link to something that is left out becomes the file it points to."""
    root = os.path.realpath(folder)
    files = []
    for file in everything:
        if file.path.split("/")[0] in hidden:
            continue
        real = os.path.realpath(f"{folder}/{file.path}") if file.kind == "link" else ""
        leaves = real.removeprefix(f"{root}/").split("/")[0] in hidden
        files.append(_as_file(folder, file) if leaves else file)
    return FileTree.of(files)


def _copied(folder: str, everything: FileTree, builds: tuple[Build, ...]) -> frozenset[str]:
    """Which of the names that stay out of a context some Dockerfile copies from it. A pattern counts only where it
    matches nothing else: the build would fail without."""
    visible = {file.path.split("/")[0] for file in everything} - _HIDDEN
    found: set[str] = set()
    for source in _sources(folder, everything, builds):
        top = source.split("/")[0]
        if top in _HIDDEN:
            found.add(top)
        elif _WILDCARD.search(top) and len(top) <= _LONGEST_NAME and not fnmatch.filter(visible, top):
            found.update(fnmatch.filter(_HIDDEN, top))
    return frozenset(found)


def _sources(folder: str, everything: FileTree, builds: tuple[Build, ...]) -> Iterator[str]:
    """What the Dockerfiles copy from their contexts, as paths in the task's folder."""
    for build in builds:
        recipe = build.inline
        if recipe is None:
            file = everything.get(posixpath.normpath(posixpath.join(build.context, build.dockerfile)))
            recipe = _as_file(folder, file).read(_RECIPE_LIMIT_BYTES).decode("utf-8", "replace") if file else ""
        for stage in parse_dockerfile(recipe).stages:
            for copy in stage.copies():
                for source in copy.sources if copy.is_from_context else ():
                    below = posixpath.normpath(f"/{source}").lstrip("/")
                    yield posixpath.normpath(posixpath.join(build.context, below))


def _as_file(folder: str, file: TreeFile) -> TreeFile:
    """The file that a link of this folder points to, in the link's place."""
    if file.kind != "link":
        return file
    real = Path(os.path.realpath(f"{folder}/{file.path}"))
    if not real.is_file():
        raise TaskFormatError(
            f"{folder}/{file.path}", found=f"a link to {file.target!r}", expected="a file, or a link to one"
        )
    status = real.stat()
    return TreeFile(file.path, "file", status.st_size, executable=status.st_mode & 0o100 != 0, source=str(real))


def _tests(folder: str, everything: FileTree, document: TaskYaml) -> Tests:
    runner = everything.get(RUN_TESTS)
    if runner is None:
        raise TaskFormatError(f"{folder}/{RUN_TESTS}", found="no such file", expected="the script that runs the tests")
    tests = everything.get("tests")
    if tests is not None and tests.kind != "folder":
        raise TaskFormatError(f"{folder}/tests", found=f"a {tests.kind}", expected="a folder")
    files = scan(f"{folder}/tests", boundary=folder)
    return Tests(
        files=FileTree.of([*files, _as_file(folder, runner)]),
        entry=RUN_TESTS,
        verdict=document.parser_name,
        same_shell=document.run_tests_in_same_shell,
    )


def _solution(folder: str, everything: FileTree, check: Checker) -> Solution | None:
    script, typed = (everything.get(name) for name in _SOLUTIONS)
    if script is not None:
        return Solution(files=FileTree((_as_file(folder, script)._replace(path="solve.sh"),)), entry="solve.sh")
    if typed is not None:
        return Solution(
            files=FileTree((_as_file(folder, typed)._replace(path=KEYSTROKES),)),
            keystrokes=keystrokes_of(f"{folder}/{typed.path}", boundary=folder, check=check),
        )
    return None


def _extras(folder: str, everything: FileTree) -> FileTree:
    """Keystrokes beside a script, which wins over them."""
    script, typed = (everything.get(name) for name in _SOLUTIONS)
    return FileTree((_as_file(folder, typed),)) if script and typed else FileTree()
