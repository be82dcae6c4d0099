"""Loader for the simple layout that ElizaOS users know: a folder with `metadata.json` and four scripts, or one
`tasks.json` of many tasks.

Its scripts become the files of a canonical environment and test suite: the container's start-up commands turn into a
set-up script, which a Dockerfile made from the image's name runs once, and which the embedded sandbox runs without
any image.
"""

from __future__ import annotations

import difflib
import os
import posixpath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PositiveFloat

from termarena.core.errors import TaskFormatError
from termarena.tasks.checking import Checker, known_names, refuse_warnings, shown
from termarena.tasks.documents import parse_json, read_text
from termarena.tasks.files import FileTree, TreeFile, not_content, scan
from termarena.tasks.frozen import FrozenDict
from termarena.tasks.markers import COLLECTION
from termarena.tasks.markers import SIMPLE as MARKER
from termarena.tasks.metadata import conventional
from termarena.tasks.model import (
    AgentPhase,
    BareRecipe,
    Environment,
    FreeTable,
    Frozen,
    Grading,
    NetworkPolicy,
    Provenance,
    Solution,
    Strings,
    Table,
    Task,
    Tests,
)
from termarena.tasks.texts import asked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CATEGORIES", "load_collection", "load_simple"]

WORKDIR = "/workspace"
TEST_ENTRY = "check.sh"
LONGEST_NAME = 255
CANONICAL_NAMES = frozenset(
    {"task.toml", "instruction.md", "trajectory.json", "environment", "tests", "solution", "steps", "original"}
)
CATEGORIES = (
    "code_compilation",
    "system_admin",
    "ml_training",
    "file_operations",
    "package_management",
    "network_config",
    "database",
    "scripting",
    "git_operations",
    "debugging",
    "text_processing",
)
# Where a folder keeps what `tasks.json` holds as text.
_SCRIPT_FILES = {
    "instruction": "instruction.txt",
    "test_script": "test.sh",
    "reference_solution": "solution.sh",
    "setup_script": "setup.sh",
    "teardown_script": "teardown.sh",
}
_OWN_NAMES = frozenset({MARKER, *_SCRIPT_FILES.values()})


class SimpleTask(Frozen):
    """One task as JSON: the names and defaults of ElizaOS's `TerminalTask`."""

    task_id: str | None = None
    id: str | None = None
    instruction: str | None = None
    category: str = "unknown"
    difficulty: Literal["easy", "medium", "hard", "unknown"] = "unknown"
    test_script: str | None = None
    reference_solution: str | None = None
    setup_script: str | None = None
    teardown_script: str | None = None
    initial_state: str | Table | None = None
    timeout_seconds: PositiveFloat = 300.0
    required_tools: Strings | None = None
    docker_image: str = "ubuntu:22.04"
    network_enabled: bool = False
    expected_files: Strings = ()
    tags: Strings = ()
    metadata: FreeTable = Field(default_factory=FrozenDict)


def load_simple(folder: str) -> Task:
    """Load one folder; the rules are those of `load_task`. A script's file wins over the same script in
    `metadata.json`."""
    check = Checker(file=f"{folder}/{MARKER}", name=MARKER)
    table = _table(check, parse_json(read_text(check.file, boundary=folder), file=check.file))
    for field, name in _SCRIPT_FILES.items():
        if os.path.lexists(f"{folder}/{name}"):
            table[field] = read_text(f"{folder}/{name}", boundary=folder)
    extras = scan(folder, boundary=folder, skip=_OWN_NAMES | not_content(folder))
    return _task(check, table, path=folder, default_id=os.path.basename(folder), extras=extras)  # noqa: PTH119 - as the other loaders


def load_collection(file: str, *, strict: bool = False) -> list[Callable[[], Task]]:
    """The tasks of a `tasks.json` (a list, or a table with `tasks`), each as a call that loads it or raises its own
    TaskFormatError."""
    value = parse_json(read_text(file), file=file)
    entries = value.get("tasks") if isinstance(value, dict) else value
    if not isinstance(entries, list) or not entries:
        raise TaskFormatError(file, found=shown(value), expected="a list of tasks, or a table with a list called tasks")

    def loader(number: int, entry: object) -> Callable[[], Task]:
        check = Checker(file=f"{file}[{number}]", name=COLLECTION)

        def load() -> Task:
            task = _task(check, _table(check, entry), path=file, default_id=None, extras=FileTree())
            if strict:
                refuse_warnings(task.findings, lambda _: check.file)
            return task

        return load

    return [loader(number, entry) for number, entry in enumerate(entries)]


def _table(check: Checker, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TaskFormatError(check.file, found=shown(value), expected="a JSON object")
    # A null is how this format spells "not given"; an unknown field is kept whatever it holds.
    known = known_names(SimpleTask)
    return {name: item for name, item in value.items() if item is not None or name not in known}


def _task(check: Checker, table: dict[str, Any], *, path: str, default_id: str | None, extras: FileTree) -> Task:
    document = check.check(SimpleTask, table)
    name = document.task_id or document.id or default_id
    if not name:
        raise TaskFormatError(check.file, field="task_id", found="nothing", expected="the task's name")
    for field in ("instruction", "test_script"):
        if not (getattr(document, field) or "").strip():
            raise TaskFormatError(
                check.file, field=field, found="nothing", expected=f"text, here or in {_SCRIPT_FILES[field]}"
            )
    if document.category not in (*CATEGORIES, "unknown"):
        near = difflib.get_close_matches(document.category, CATEGORIES, n=1)
        check.note(
            "unknown-category",
            f"category {document.category!r} is not one of the format's"
            + (f"; did you mean {near[0]}?" if near else ""),
            field="category",
        )
    return Task(
        id=name,
        instruction=asked(document.instruction, file=check.file, field="instruction"),
        environment=_environment(check, document),
        agent=AgentPhase(timeout_s=document.timeout_seconds),
        grading=Grading(timeout_s=document.timeout_seconds),
        tests=Tests(files=_tree({TEST_ENTRY: document.test_script}), entry=TEST_ENTRY, verdict="exit_status"),
        solution=_solution(document),
        metadata=conventional(check, _free_form(document)),
        provenance=Provenance(format="simple", path=path),
        extras=FileTree.of(
            [*map(_aside, extras), *_tree({_SCRIPT_FILES["teardown_script"]: document.teardown_script})]
        ),
        unknown=check.unknown,
        findings=tuple(check.findings),
    )


def _free_form(document: SimpleTask) -> dict[str, Any]:
    known = {"category": document.category, "difficulty": document.difficulty, "tags": list(document.tags)}
    expected = {"expected_files": list(document.expected_files)} if document.expected_files else {}
    free = {"termarena_before" if name == "termarena" else name: value for name, value in document.metadata.items()}
    return {**free, **known, **expected}


def _tree(scripts: Mapping[str, str | None]) -> FileTree:
    return FileTree.of(
        TreeFile.inline(name, _script(text), executable=True) for name, text in scripts.items() if text is not None
    )


def _script(text: str) -> bytes:
    return (text if text.startswith("#!") else f"#!/bin/bash\n{text}").encode()


def _solution(document: SimpleTask) -> Solution | None:
    if document.reference_solution is None:
        return None
    return Solution(files=_tree({"solve.sh": document.reference_solution}), entry="solve.sh")


def _environment(check: Checker, document: SimpleTask) -> Environment:
    state = document.initial_state
    scripts = {"setup_script.sh": document.setup_script, "initial_state.sh": state if isinstance(state, str) else None}
    laid = {} if state is None or isinstance(state, str) else state
    files = [*_tree(scripts), *_laid_files(check, laid)]
    setup = (
        _setup([name for name, text in scripts.items() if text is not None], lays_files=bool(laid)) if files else None
    )
    if setup is not None:
        files.append(TreeFile.inline("setup.sh", setup.encode(), executable=True))
    files.append(
        TreeFile.inline("Dockerfile", _dockerfile(document.docker_image, has_setup=setup is not None).encode())
    )
    tools = document.required_tools
    return Environment(
        context=FileTree.of(files),
        bare=None if tools is None else BareRecipe(requires=tools, setup=None if setup is None else "setup.sh"),
        network=NetworkPolicy(mode="public" if document.network_enabled else "none"),
        workdir=WORKDIR,
    )


def _aside(file: TreeFile) -> TreeFile:
    """An extra file under a name that is not one of the canonical layout's own."""
    return file._replace(path=f"original/{file.path}") if file.path.split("/")[0] in CANONICAL_NAMES else file


def _laid_files(check: Checker, laid: Mapping[str, str]) -> list[TreeFile]:
    """`initial_state` as files below the working directory. Two that cannot both be there are refused."""
    paths = {name: posixpath.normpath(posixpath.join(WORKDIR, name)) for name in laid}
    taken: set[str] = set()
    for name, path in paths.items():
        folders = {path.rsplit("/", depth)[0] for depth in range(1, path.count("/"))}
        is_odd = (
            "\0" in name or name.endswith("/") or any(len(part.encode()) > LONGEST_NAME for part in path.split("/"))
        )
        others = set(paths.values())
        if is_odd or not path.startswith(f"{WORKDIR}/") or path in taken or not folders.isdisjoint(others):
            raise check.refuse(f"initial_state.{name}", found=name, expected=f"a path of its own below {WORKDIR}")
        taken.add(path)
    return [TreeFile.inline(f"files/{paths[name].removeprefix(WORKDIR + '/')}", laid[name].encode()) for name in laid]


def _setup(scripts: list[str], *, lays_files: bool) -> str:
    lines = [
        "#!/bin/sh",
        "# Makes the start state; its files lie beside it.",
        "set -e",
        'here=$(cd "$(dirname "$0")" && pwd)',
    ]
    lines += [f"mkdir -p {WORKDIR}", f"cd {WORKDIR}"]
    if lays_files:
        lines.append('cp -R "$here/files/." .')
    lines += [f'"$(command -v bash || command -v sh)" "$here/{name}"' for name in scripts]
    return "\n".join([*lines, ""])


def _dockerfile(image: str, *, has_setup: bool) -> str:
    lines = [f"FROM {image}", f"WORKDIR {WORKDIR}"]
    if has_setup:
        lines += ["COPY . /tmp/environment", "RUN sh /tmp/environment/setup.sh && rm -rf /tmp/environment"]
    return "\n".join([*lines, ""])
