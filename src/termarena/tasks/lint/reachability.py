"""Reach: tests, answers and solutions that lie where the agent can read them."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from termarena.core.errors import TaskFormatError
from termarena.tasks.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.view import Hidden, Source, View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

TESTS_VISIBLE = Rule(
    "tests-visible", "error", "a test script lies in the environment too", "delete the copy in environment/"
)
SOLUTION_VISIBLE = Rule(
    "solution-visible", "error", "a file of the solution lies in the environment too", "delete the copy in environment/"
)
TEST_DATA_VISIBLE = Rule(
    "test-data-visible",
    "warning",
    "data of the tests lies in the environment too",
    "keep expected values out of environment/; an input may stay if that is meant",
)
SOLUTION_TEXT = Rule(
    "solution-text-in-environment",
    "warning",
    "commands of the solution stand in a file of the environment",
    "remove them from environment/",
)
ANSWER_NAMED_FILE = Rule(
    "answer-named-file",
    "warning",
    "a file of the environment is named like an answer, and the instruction does not mention it",
    "move it to tests/, or rename it",
)
ANSWER_IN_IMAGE = Rule(
    "answer-in-image",
    "error",
    "the tests read an expected answer that the image holds",
    "move the file to tests/, where the agent never sees it",
)
GRADER_IN_IMAGE = Rule(
    "grader-in-image",
    "warning",
    "the tests run a checker that lies in the image, where the agent can change it",
    "move the checker to tests/",
)
RULES = (
    TESTS_VISIBLE,
    SOLUTION_VISIBLE,
    TEST_DATA_VISIBLE,
    ANSWER_IN_IMAGE,
    ANSWER_NAMED_FILE,
    GRADER_IN_IMAGE,
    SOLUTION_TEXT,
)

# Smaller files are alike by chance: an empty __init__.py, a one-word config.
MIN_BYTES = 33
_ANSWER = re.compile(
    r"(?:expected(?:[_-]?(?:outputs?|results?|answers?|values?))?|answers?(?:[_-]?key)?|(?:reference[_-]?)?solutions?|ground[_-]?truth|golden|oracle)(?:[._-][^/]*)?",
    re.IGNORECASE,
)
_ANSWER_WORD = re.compile(r"expected|truth|golden|answer|oracle|reference", re.IGNORECASE)
_ANSWER_PATH = re.compile(
    r"(?<![\w/.-])(/(?!tests/|logs/)[\w./-]{0,200}(?:expected|truth|golden|answer|oracle|reference)[\w.-]{0,100})",
    re.IGNORECASE,
)
_CHECKER = re.compile(
    r"\b(?:python[\d.]*|bash|sh|node)[ \t]+"
    r"(/(?!tests/)[\w./-]{1,200}/?(?:verif|grad|check|scor|judg|validat)[\w.-]{0,60})"
)
# A command as people type it; a line of SQL or prose inside quotes does not begin so.
_COMMAND = re.compile(r"[a-z][\w./-]*[ \t]+\S")
_MIN_LINE = 30
_MIN_SHARED = 3


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    yield from _identical(view)
    yield from _named(view)
    yield from _baked(view)
    yield from _graders(view)
    yield from _quoted(view)


def _identical(view: View) -> Iterator[Finding]:
    by_size: dict[int, list[Hidden]] = {}
    for one in view.hidden:
        by_size.setdefault(one.source.file.size_bytes, []).append(one)
    for source in view.environment:
        if source.file.size_bytes >= MIN_BYTES:
            candidates = by_size.get(source.file.size_bytes, ())
            twin = next((one for one in candidates if _same(source, one.source)), None)
            if twin is not None:
                yield _twin(view, source, twin)


def _same(one: Source, other: Source) -> bool:
    if one.file.source == other.file.source != "" or one.raw != other.raw or one.problem or other.problem:
        return False
    if one.is_whole:
        return True
    try:
        return one.file.sha256() == other.file.sha256()
    except TaskFormatError:
        return False


def _twin(view: View, source: Source, twin: Hidden) -> Finding:
    other = twin.source
    reached = view.reaches(source.file.path)
    message = f"it is the same file as {other.name}" + (
        "" if reached else ", though the Dockerfile leaves it out of the image"
    )
    rule = SOLUTION_VISIBLE if twin.is_solution else TESTS_VISIBLE if other in view.graders else TEST_DATA_VISIBLE
    is_harmless = not reached or (rule is TEST_DATA_VISIBLE and _is_told_or_idle(view, source, other))
    return rule.found(source.name, message, severity="info" if is_harmless else None)


def _is_told_or_idle(view: View, source: Source, other: Source) -> bool:
    """Whether the agent was told of the file (a project's own tests, an input), or no test makes use of its copy."""
    name = posixpath.basename(other.file.path)
    if posixpath.basename(source.file.path) in view.instruction:
        return True
    return name != "conftest.py" and not any(name in one.text for one in view.test_texts if one is not other)


def _named(view: View) -> Iterator[Finding]:
    told = view.instruction
    for source in view.environment:
        path = source.file.path
        name = posixpath.basename(path)
        if _ANSWER.fullmatch(name) and name not in told and _spoken(name) not in told.lower() and view.reaches(path):
            yield ANSWER_NAMED_FILE.found(source.name, f"{name} looks like an answer within the agent's reach")


def _spoken(name: str) -> str:
    return posixpath.splitext(name)[0].replace("_", " ").replace("-", " ").lower()


def _baked(view: View) -> Iterator[Finding]:
    """Expected values that the Dockerfile writes into the image, where the tests read them and the agent may."""
    built = "\n".join(recipe.source.text for recipe in view.recipes)
    if not _ANSWER_WORD.search(built):
        return
    for source in view.test_texts:
        for match in _ANSWER_PATH.finditer(source.text):
            path = match[1]
            if path in built and posixpath.basename(path) not in view.instruction:
                message = f"{path[:120]} is read here, is made in the Dockerfile, and is not in the instruction"
                yield ANSWER_IN_IMAGE.found(source.name, message, line=source.line_of(match.start()))
                return


def _graders(view: View) -> Iterator[Finding]:
    """Checkers that the Dockerfile puts into the image and the tests' entry runs from there."""
    for suite in view.suites:
        for one in suite.entry.statements if suite.entry.is_shell else ():
            match = _CHECKER.search(one.text) if "/" in one.text else None
            name = posixpath.basename(match[1]) if match else ""
            if not name or name in view.hidden_names or name in view.instruction:
                continue
            if any(name in recipe.source.text for recipe in view.recipes):
                message = f"{name[:80]} decides the verdict from inside the image, where the agent can change it"
                yield GRADER_IN_IMAGE.found(suite.entry.name, message, line=one.line)
                return


def _quoted(view: View) -> Iterator[Finding]:
    for solution, sources in view.solutions:
        entry = next((one for one in sources if one.file.path == solution.entry), None)
        if entry is None or not entry.is_shell:
            continue
        lines = {one.text for one in entry.statements if len(one.text) >= _MIN_LINE and _COMMAND.match(one.text)}
        if len(lines) < _MIN_SHARED:
            continue
        for source in view.environment:
            if source.file.size_bytes < _MIN_LINE * _MIN_SHARED or b"\0" in source.raw[:1024]:
                continue
            shared = lines & {line.strip() for line in source.text.split("\n")}
            if len(shared) >= _MIN_SHARED and 2 * len(shared) >= len(lines):
                first = min(shared, key=source.text.index)
                yield SOLUTION_TEXT.found(
                    source.name,
                    f"{len(shared)} commands of {entry.name} stand in it, such as `{first[:60]}`",
                    line=source.line_of(source.text.index(first)),
                )
