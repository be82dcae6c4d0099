"""A task as the rules see it: each file read once, up to LIMIT_BYTES, and all of it forgotten after one `lint`."""

from __future__ import annotations

import posixpath
import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import TaskFormatError
from termarena.tasks.dockerfile import Dockerfile, parse_dockerfile
from termarena.tasks.documents import read_text
from termarena.tasks.files import TreeFile
from termarena.tasks.lint.shell import Statement, statements

if TYPE_CHECKING:
    from termarena.tasks.dockerfile import Copy
    from termarena.tasks.files import FileTree
    from termarena.tasks.model import Grading, NetworkPolicy, Solution, Task, Tests

__all__ = ["LIMIT_BYTES", "Hidden", "Place", "Recipe", "Source", "Suite", "View"]

# Of 30,000 files in public Harbor tasks, every test and script is smaller.
LIMIT_BYTES = 256 << 10
# What one task's environment may cost in reading; the files beyond are not searched for leaked text.
ENVIRONMENT_LIMIT_BYTES = 4 << 20
_MAX_LINKS = 8
_SHELL_SUFFIXES = (".sh", ".bash")
_SHELL_SHEBANG = re.compile(rb"(?:\xef\xbb\xbf)?#![^\n]{0,200}\b(?:ba|da|k|z)?sh\b")
_PYTHON_SHEBANG = re.compile(rb"(?:\xef\xbb\xbf)?#![^\n]{0,200}\bpython")
_NAMED_TEST = re.compile(r"pytest\b[^\n]{0,300}\.py\b")
_GRADER_NAME = re.compile(r"test|verif|grad|check|scor|eval|judg", re.IGNORECASE)
_STAGES = re.compile(r"(?:cp|mv|install|ln|cat|tar|rsync|sed)\b")
_DIGITS = re.compile(r"\d+")


class Source:
    """One file, read when first looked at. A file that cannot be read is empty, and `problem` says why."""

    def __init__(self, file: TreeFile, name: str) -> None:
        """`name` is the path that findings show."""
        self.file = file
        self.name = name
        self.problem: str | None = None

    @cached_property
    def raw(self) -> bytes:
        """The first LIMIT_BYTES."""
        try:
            return self.file.read(LIMIT_BYTES)
        except TaskFormatError as error:
            self.problem = error.found
            return b""

    @cached_property
    def text(self) -> str:
        """`raw` as text, with a replacement for whatever is not UTF-8."""
        return self.raw.decode("utf-8", "replace")

    @cached_property
    def statements(self) -> list[Statement]:
        """The file as a shell script: its commands, without comments and here-documents."""
        return statements(self.text)

    @cached_property
    def is_shell(self) -> bool:
        """Whether it is a shell script, by its name or its first line."""
        if self.file.path.endswith(_SHELL_SUFFIXES):
            return True
        return "." not in posixpath.basename(self.file.path) and _SHELL_SHEBANG.match(self.raw) is not None

    @cached_property
    def is_python(self) -> bool:
        """Whether it is a Python file, by its name or its first line."""
        if self.file.path.endswith(".py"):
            return True
        return "." not in posixpath.basename(self.file.path) and _PYTHON_SHEBANG.match(self.raw) is not None

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it was left unread."""
        return self.file.size_bytes <= LIMIT_BYTES

    def line_of(self, place: int) -> int:
        """The number of the line that holds this character."""
        return self.text.count("\n", 0, place) + 1


class Suite(NamedTuple):
    """One set of tests (the task's, or a step's) with what binds its grader."""

    tests: Tests
    grading: Grading
    sources: tuple[Source, ...]
    entry: Source

    def texts(self) -> list[Source]:
        """The files that are scripts or Python."""
        return [source for source in self.sources if source is self.entry or source.is_shell or source.is_python]


class Place(NamedTuple):
    """A line of a file, where it is known."""

    file: str
    line: int | None


class Hidden(NamedTuple):
    """A file of the tests or of a solution."""

    path: str
    source: Source
    is_solution: bool


class Recipe(NamedTuple):
    """A Dockerfile with the context that it builds from."""

    source: Source
    parsed: Dockerfile
    context: FileTree
    is_main: bool
    """Whether `context` is known to be what Docker gets: false for the further Dockerfiles of a composition."""


class View:
    """Everything the rules ask about one task."""

    def __init__(self, task: Task) -> None:
        """Reads nothing yet."""
        self.task = task
        self._sources: dict[tuple[str, str], Source] = {}

    def source(self, file: TreeFile, folder: str) -> Source:
        """The file as a source; `folder` is where the canonical layout keeps it, for those that a loader made up."""
        key = (folder, file.path)
        found = self._sources.get(key)
        if found is None:
            found = self._sources[key] = Source(file, self._name(file, folder))
        return found

    def _name(self, file: TreeFile, folder: str) -> str:
        home = self.task.provenance.path + "/"
        return file.source[len(home) :] if file.source.startswith(home) else f"{folder}/{file.path}"

    def sources(self) -> list[Source]:
        """What has been looked at."""
        return list(self._sources.values())

    @cached_property
    def document(self) -> str:
        """The name of the file that describes the task."""
        provenance = self.task.provenance
        if provenance.schema_version is not None:
            return "task.toml"
        return {"terminal-bench-1": "task.yaml", "simple": "metadata.json"}.get(provenance.format, "task.toml")

    @cached_property
    def instruction(self) -> str:
        """All that the agent is told, over all steps."""
        return "\n".join([self.task.instruction, *(step.instruction for step in self.task.steps)])

    def told_at(self, words: str) -> Place:
        """Where these words of the instruction stand: the file's own line, with a canary and a document around them."""
        name = {"task.yaml": "task.yaml", "metadata.json": "instruction.txt"}.get(self.document, "instruction.md")
        step = next((step.name for step in self.task.steps if words in step.instruction), None)
        if step is not None:
            name = f"steps/{step}/{name}"
        home = self.task.provenance.path
        try:
            text = read_text(f"{home}/{name}", boundary=home)
        except TaskFormatError:
            return Place(name, None)
        found = text.find(words)
        return Place(name, text.count("\n", 0, found) + 1 if found >= 0 else None)

    @cached_property
    def suites(self) -> tuple[Suite, ...]:
        """The tests, the task's own first."""
        task = self.task
        found = [self._suite(task.tests, task.grading, "tests")]
        found += [self._suite(step.tests, step.grading, f"steps/{step.name}/tests") for step in task.steps]
        return tuple(suite for suite in found if suite is not None)

    def _suite(self, tests: Tests | None, grading: Grading, folder: str) -> Suite | None:
        if tests is None or tests.entry is None:
            return None
        sources = {file.path: self.source(file, folder) for file in tests.files if file.kind == "file"}
        entry = sources.get(_followed(tests.files, tests.entry))
        if entry is None:
            entry = Source(TreeFile.inline(tests.entry, b""), f"{folder}/{tests.entry}")
        return Suite(tests, grading, tuple(sources.values()), entry)

    @cached_property
    def test_texts(self) -> tuple[Source, ...]:
        """The scripts and Python files of every suite."""
        return tuple(source for suite in self.suites for source in suite.texts())

    @cached_property
    def hidden(self) -> tuple[Hidden, ...]:
        """Every file that the agent must not see, by its path in the canonical layout."""
        found = [
            Hidden(f"tests/{one.file.path}", one, is_solution=False) for suite in self.suites for one in suite.sources
        ]
        for _, sources in self.solutions:
            found += [Hidden(f"solution/{one.file.path}", one, is_solution=True) for one in sources]
        return tuple(found)

    @cached_property
    def hidden_roots(self) -> frozenset[str]:
        """The first parts of the paths of hidden files, in the canonical layout and in the task's own."""
        return frozenset(name.split("/", 1)[0] for one in self.hidden for name in (one.path, one.source.name))

    @cached_property
    def hidden_names(self) -> frozenset[str]:
        """The names of the test files, without their folders."""
        return frozenset(posixpath.basename(source.file.path) for suite in self.suites for source in suite.sources)

    @cached_property
    def graders(self) -> frozenset[Source]:
        """The test files that decide: each entry, the checkers it names, all tests where it hands pytest a folder."""
        found = set()
        for suite in self.suites:
            called = suite.entry.text
            takes_all = "pytest" in called and not _NAMED_TEST.search(called)
            for source in suite.texts():
                name = posixpath.basename(source.file.path)
                is_named = name in called and _GRADER_NAME.search(name) is not None
                if source is suite.entry or is_named or (takes_all and name.startswith("test")):
                    found.add(source)
        return frozenset(found)

    @cached_property
    def solutions(self) -> tuple[tuple[Solution, tuple[Source, ...]], ...]:
        """Each reference solution with its files."""
        found = [] if self.task.solution is None else [(self.task.solution, "solution")]
        found += [
            (step.solution, f"steps/{step.name}/solution") for step in self.task.steps if step.solution is not None
        ]
        return tuple(
            (one, tuple(self.source(file, folder) for file in one.files if file.kind == "file"))
            for one, folder in found
        )

    @cached_property
    def environment(self) -> tuple[Source, ...]:
        """The files of the build context."""
        return tuple(self.source(file, "environment") for file in self.task.environment.context if file.kind == "file")

    @cached_property
    def context_paths(self) -> frozenset[str]:
        """Every file and folder of the build context."""
        found: set[str] = set()
        for file in self.task.environment.context:
            path = file.path
            while path and path not in found:
                found.add(path)
                path = path.rpartition("/")[0]
        return frozenset(found)

    @cached_property
    def environment_names(self) -> frozenset[str]:
        """Every part of every path in the build context, its digits made alike."""
        return frozenset(alike(part) for file in self.task.environment.context for part in file.path.split("/"))

    @cached_property
    def environment_text(self) -> str:
        """The text of the build context, as far as ENVIRONMENT_LIMIT_BYTES reach."""
        left = ENVIRONMENT_LIMIT_BYTES
        found = []
        for source in self.environment:
            if 0 < source.file.size_bytes <= min(left, LIMIT_BYTES) and b"\0" not in source.raw[:1024]:
                left -= source.file.size_bytes
                found.append(source.text)
        return "\n".join(found)

    @cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        """The Dockerfiles of the environment, the main one first."""
        environment = self.task.environment
        found = []
        for source in self.environment:
            name = posixpath.basename(source.file.path)
            if name == "Dockerfile" or name.startswith("Dockerfile.") or name.endswith(".Dockerfile"):
                is_main = source.file.path == "Dockerfile"
                if not is_main and environment.compose is None:
                    continue
                known = is_main and environment.compose is None
                found.append(Recipe(source, parse_dockerfile(source.text), environment.context, known))
        return tuple(sorted(found, key=lambda recipe: recipe.source.file.path != "Dockerfile"))

    def reaches(self, path: str) -> bool:
        """Whether a file of the context ends up in the image, as COPY and a set-up script tell; in doubt, yes."""
        if not self.recipes or not self.recipes[0].is_main:
            return True
        for copy in self._copies:
            for source in copy.sources:
                plain = posixpath.normpath(source.lstrip("/") or ".")
                is_taken = plain == "." or "*" in plain or path == plain or path.startswith(plain + "/")
                if is_taken and (self._is_staged(path) or not self._is_removed(copy.destination)):
                    return True
        return False

    @cached_property
    def _copies(self) -> list[Copy]:
        parsed = self.recipes[0].parsed
        return [copy for stage in parsed.image_stages for copy in stage.copies() if copy.is_from_context]

    def _is_removed(self, folder: str) -> bool:
        return folder.startswith("/") and f"rm -rf {folder.rstrip('/')}" in self.recipes[0].source.text

    def _is_staged(self, path: str) -> bool:
        """Whether a set-up script copies the file, or a folder above it, out of a context that is then deleted."""
        parts = path.split("/")
        for source in self.environment:
            if source.is_shell and "/" not in source.file.path:
                for one in source.statements:
                    if _STAGES.match(one.text) and any(part in one.text for part in parts):
                        return True
        return False

    @cached_property
    def workdir(self) -> str:
        """Where the agent starts, as far as the files say."""
        if self.task.environment.workdir:
            return self.task.environment.workdir
        main = next((recipe for recipe in self.recipes if recipe.source.file.path == "Dockerfile"), None)
        return main.parsed.stages[-1].workdir() if main and main.parsed.stages else "/"

    @cached_property
    def agent_network(self) -> NetworkPolicy:
        """What the agent, and the reference solution in its place, may reach."""
        return self.task.agent.network or self.task.environment.network

    def grading_network(self, grading: Grading) -> NetworkPolicy:
        """What a grader may reach."""
        machine = grading.environment or self.task.environment
        return grading.network or machine.network


def _followed(tree: FileTree, path: str) -> str:
    """Where a path leads when it is a link to a file of the same tree."""
    for _ in range(_MAX_LINKS):
        file = tree.get(path)
        if file is None or file.kind != "link":
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), file.target))
    return path


def alike(name: str) -> str:
    """The name with every number made the same, so that `part_3.txt` is known where `part_1.txt` is."""
    return _DIGITS.sub("0", name)
